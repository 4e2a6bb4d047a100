"""What attention takes beside q, k and v, against NumPy: a logit of each head that joins its sums, a bias of scores,
and the gradients of both; scales of 8-bit elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from common import HOMES, RANDOM, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError
from ckmlir.targets import get_target

B, H, HK, SQ, SK, D = 2, 4, 2, 20, 40, 32
BIASES = [(SQ, SK), (1, 1, SQ, SK), (H, SQ, SK), (1, H, SQ, SK), (B, H, SQ, SK), (B, 1, SQ, SK)]
Q, K, V = normal(B, SQ, H, D), normal(B, SK, HK, D), normal(B, SK, HK, D)
SINKS = normal(H, dtype="f32")
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with nn.Session("gfx942", device="sim"):
        yield


def weights_of(sinks: Array | None, bias: Array | None) -> Array:
    """(B, H, SQ, SK)."""
    scores = np.einsum("bqhd,bkhd->bhqk", exact(Q), exact(K).repeat(H // HK, 2)) / np.sqrt(D)
    powers = np.exp(scores + (0 if bias is None else exact(bias)))
    return powers / (powers.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(exact(sinks))[:, None, None]))


def attended(sinks: Array | None, bias: Array | None = None) -> Array:
    return np.einsum("bhqk,bkhd->bqhd", weights_of(sinks, bias), exact(V).repeat(H // HK, 2))


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize("shape", BIASES)
def test_a_bias_of_any_shape(put: Callable[[Array], Any], shape: tuple[int, ...]) -> None:
    """Beside sinks, which it stands for nothing of."""
    bias = normal(*shape)
    assert_close(nn.attention(*map(put, (Q, K, V)), sinks=put(SINKS), bias=put(bias)), attended(SINKS, bias))


@homes
def test_every_function_takes_sinks(put: Callable[[Array], Any]) -> None:
    """A logit of minus infinity, as of a head without one, changes nothing."""
    sinks, starts = SINKS.copy(), [0, SQ, 2 * SQ]
    sinks[1] = -np.inf
    expected, rows, given = attended(sinks), put(Q.reshape(-1, H, D)), {"sinks": put(sinks)}
    packed = [put(one.reshape(-1, HK, D)) for one in (K, V)]
    found = nn.attention_varlen(rows, *packed, starts, [0, SK, 2 * SK], **given)
    assert_close(found, expected.reshape(-1, H, D))
    assert_close(nn.attention_with_kvcache(*map(put, (Q, K, V)), **given), expected)
    pages = [np.zeros((B, 64, HK, D), np.float16) for _ in "kv"]
    for page, one in zip(pages, (K, V), strict=True):
        page[:, :SK] = one
    cache, lengths, places = [put(one) for one in pages], put(np.full(B, SK, np.int32)), np.arange(B, dtype=np.int32)
    found = nn.attention_paged(rows, *cache, starts, lengths, put(places[:, None]), causal=False, **given)
    assert_close(found, expected.reshape(-1, H, D))
    found = nn.attention_page_lists(rows, *cache, starts, [0, 1, 2], put(places), lengths, **given)
    assert_close(found, expected.reshape(-1, H, D))
    everything = put(np.ones((B, H, 1, 1), np.int8))
    assert_close(nn.sparse_attention(*map(put, (Q, K, V)), everything, **given), expected)
    assert_close(nn.sparge_attention(*map(put, (Q, K, V)), topk=1.0, **given), expected)


@pytest.mark.parametrize("shape", [None, *BIASES[1::2]])
@pytest.mark.parametrize("sinks", [None, SINKS])
def test_gradients(shape: tuple[int, ...] | None, sinks: Array | None) -> None:
    bias, do = None if shape is None else normal(*shape), normal(*Q.shape)
    o, lse = nn.attention(Q, K, V, sinks=sinks, bias=bias, return_lse=True)
    with_bias = bias is not None
    found = nn.attention_backward(do, Q, K, V, o, lse, sinks=sinks, bias=bias, return_dbias=with_bias)
    assert len(found) == 3 + (sinks is not None) + with_bias
    values, keys = (exact(one).repeat(H // HK, 2) for one in (V, K))
    p, dp = weights_of(sinks, bias), np.einsum("bqhd,bkhd->bhqk", exact(do), values)
    delta = (p * dp).sum(-1, keepdims=True)
    ds = p * (dp - delta)
    assert_close(found[0], np.einsum("bhqk,bkhd->bqhd", ds, keys) / np.sqrt(D), factor=4)
    if sinks is not None:
        of_sinks = np.exp(exact(sinks)[:, None] - exact(lse))
        assert_close(found[3], -(of_sinks * delta[..., 0]).sum((0, 2)), factor=4)
    if bias is not None:
        shared = tuple(axis for axis in (0, 1) if bias.shape[axis] == 1)
        assert_close(found[-1], ds.sum(shared, keepdims=True), factor=4)


def test_gradients_of_sequences() -> None:
    """Of a causal mask, whose first queries see no key but the logit: the first sequence has more queries than keys."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: nothing computes them beside ours")
    torch.manual_seed(0)
    (q, k, v), sinks = (torch.randn(30, heads, D, dtype=torch.float16) for heads in (H, HK, HK)), torch.randn(H)
    starts_q, starts_k = [0, 20, 30], [0, 9, 30]
    given = [one.requires_grad_() for one in (q, k, v, sinks)]
    o = nn.attention_varlen(q, k, v, starts_q, starts_k, causal=True, sinks=sinks)
    do = torch.randn_like(o)
    o.backward(do)
    own = [one.detach().double().requires_grad_() for one in given]
    wanted = []
    for number in range(2):
        queries = own[0][starts_q[number] : starts_q[number + 1]]
        keys, values = (one[starts_k[number] : starts_k[number + 1]].repeat_interleave(2, 1) for one in own[1:3])
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / D**0.5
        hidden = torch.ones_like(scores[0]).triu(len(keys) - len(queries) + 1).bool()
        logits = own[3][:, None, None].expand(-1, len(queries), 1)
        weights = torch.softmax(torch.cat([scores.masked_fill(hidden, -torch.inf), logits], -1), -1)[..., :-1]
        wanted.append(torch.einsum("hqk,khd->qhd", weights, values))
    torch.cat(wanted).backward(do.double())
    assert (o.double() - torch.cat(wanted)).abs().max() < 5e-3
    for one, exactly in zip(given, own, strict=True):
        assert ((one.grad.double() - exactly.grad).abs() / (1 + exactly.grad.abs())).max() < 5e-3


@pytest.mark.parametrize(("names", "asked"), [
    (("sinks", "bias"), ("sinks",)), (("sinks", "bias"), ("bias",)), (("sinks", "bias"), ("sinks", "bias")),
    (("sinks",), ("sinks",)), (("sinks",), ()), (("bias",), ("bias",)),
])  # fmt: skip
def test_gradients_that_pytorch_asks_for(names: tuple[str, ...], asked: tuple[str, ...]) -> None:
    """Only those: a bias whose gradient nobody wants has none. PyTorch says nothing of arguments behind the last."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: nothing asks for gradients")
    both = {"sinks": torch.tensor(SINKS), "bias": torch.tensor(normal(H, SQ, SK))}
    given = {name: both[name] for name in names}
    q = torch.tensor(Q, requires_grad=True)
    for name in asked:
        given[name].requires_grad_()
    o = nn.attention(q, torch.tensor(K), torch.tensor(V), **given)
    do = torch.tensor(normal(*Q.shape))
    o.backward(do)
    plain = {name: one.detach().numpy() for name, one in given.items()}
    o, lse = nn.attention(Q, K, V, return_lse=True, **plain)
    found = nn.attention_backward(do.numpy(), Q, K, V, o, lse, return_dbias="bias" in names, **plain)
    for name, own in zip(names, found[3:], strict=True):
        assert (given[name].grad is None) == (name not in asked)
        if name in asked:
            assert_close(given[name].grad.numpy(), exact(own))
    assert_close(q.grad.numpy(), exact(found[0]))


EIGHT = numpy_dtype("fp8", get_target("gfx942"))
OCTETS = [one.astype(EIGHT) for one in (Q, K, V)]
SCALES = [np.exp2(RANDOM.uniform(-1, 1, (B, heads))).astype(np.float32) for heads in (H, HK, HK)]


@pytest.mark.one_in(2)
@homes
@pytest.mark.parametrize(("function", "dtype"), [
    ("attention", "f32"), ("attention_varlen", None), ("attention_with_kvcache", "f16"), ("attention_paged", "f32"),
    ("attention_page_lists", None),
])  # fmt: skip
def test_scales_of_octets(put: Callable[[Array], Any], function: str, dtype: str | None) -> None:
    """Of q and v; k's elements stand for themselves. Weights are rounded to 8 bits too, in 16ths of themselves."""
    given = {"q_scale": put(SCALES[0]), "v_scale": put(SCALES[2]), "dtype": dtype}
    q, k, v = ((exact(one) * (1 if scale is None else scale[:, None, :, None]))
               for one, scale in zip(OCTETS, (SCALES[0], None, SCALES[2]), strict=True))  # fmt: skip
    k, v = (one.repeat(H // HK, 2) for one in (k, v))
    p = np.exp(np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(D))
    expected = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)
    starts, rows = [0, SQ, 2 * SQ], put(OCTETS[0].reshape(-1, H, D))
    pages = [np.zeros((B, 64, HK, D), EIGHT) for _ in "kv"]
    for page, one in zip(pages, OCTETS[1:], strict=True):
        page[:, :SK] = one
    cache, lengths, places = [put(one) for one in pages], put(np.full(B, SK, np.int32)), np.arange(B, dtype=np.int32)
    behind_q: dict[str, tuple[Any, ...]] = {
        "attention": (*map(put, OCTETS[1:]),),
        "attention_with_kvcache": (*map(put, OCTETS[1:]),),
        "attention_varlen": (*(put(one.reshape(-1, HK, D)) for one in OCTETS[1:]), starts, [0, SK, 2 * SK]),
        "attention_paged": (*cache, starts, lengths, put(places[:, None])),
        "attention_page_lists": (*cache, starts, [0, 1, 2], put(places), lengths),
    }
    more = {"causal": False} if function == "attention_paged" else {}
    first = put(OCTETS[0]) if function in ("attention", "attention_with_kvcache") else rows
    found = getattr(nn, function)(first, *behind_q[function], **given, **more)
    error = np.abs(exact(found).reshape(expected.shape) - expected)
    most = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), np.abs(v))
    assert (error <= most / 16 + 1e-3).all()
    assert found.dtype == {"f32": np.float32, "f16": np.float16, None: ml_dtypes.bfloat16}[dtype]


def test_a_result_of_octets_is_bf16() -> None:
    """Also where it is given."""
    out = np.empty(Q.shape, ml_dtypes.bfloat16)
    found = nn.attention(*OCTETS)
    assert found.dtype == ml_dtypes.bfloat16
    assert (nn.attention(*OCTETS, out=out) == found).all()


@pytest.mark.parametrize("name", ["attention", "attention_varlen"])
def test_what_pytorch_is_told_of_results_of_octets(name: str) -> None:
    """By the operator without elements."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: nobody asks")
    dims = (1, 20, 4, 32) if name == "attention" else (20, 4, 32)
    given = [torch.zeros(dims, dtype=torch.float8_e4m3fnuz)] * 3 + [torch.tensor([0, 20])] * (len(dims) == 3)
    import_module("ckmlir.nn.pytorch")
    told = getattr(torch.ops.ckmlir, name)(*(one.to("meta") for one in given))
    assert (told[0].dtype, told[0].shape) == (torch.bfloat16, dims)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.attention(Q, K, V, q_scale=SCALES[0]), "q_scale: q is f16; expected scales beside fp8 only"),
    (lambda: nn.attention(*OCTETS, q_scale=SCALES[1]), r"q_scale: shape \(2, 2\); expected \(2, 4\)"),
    (lambda: nn.attention(*OCTETS, dtype="i8"), "dtype=i8: expected f16"),
    (lambda: nn.attention(Q, K, V, dtype="bf16"), "dtype=bf16: q is f16; expected f16 or fp8"),
    (lambda: nn.attention(Q, K, V, sinks=SINKS[:2]), r"sinks: shape \(2,\); expected \(4,\)"),
    (lambda: nn.attention(Q, K, V, sinks=SINKS.astype(np.float16)), "sinks: elements are f16; expected f32"),
    (lambda: nn.attention(Q, K, V, bias=normal(B, 2, SQ, SK)),
     r"bias: shape \(2, 2, 20, 40\); expected \(20, 40\), \(4, 20, 40\) or \(2, 4, 20, 40\)"),
    (lambda: nn.attention(Q, K, V, bias=normal(SK)), r"bias: shape \(40,\); expected"),
    (lambda: nn.attention(Q, K, V, bias=normal(SQ, SK, dtype="f32")), "bias: elements are f32; expected f16"),
    (lambda: nn.attention(Q, K, V, bias=normal(SQ, SK), softcap=3.0), "bias"),
    (lambda: nn.attention_backward(Q, Q, K, V, Q, np.zeros((B, H, SQ), np.float32), return_dbias=True),
     "return_dbias=True without a bias"),
])  # fmt: skip
def test_what_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((DeviceError, RequestError), match=words):
        call()
