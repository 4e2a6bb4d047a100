"""Every function writes its results where they are wanted: `out=`, without gaps and with them, and what is refused."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from common import Array, as_tensor, exact
from msgspec.structs import replace

from ckmlir import nn
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.device_array import typed

Put = Callable[[Array], Any]
WITHOUT = {"asarray", "current", "empty", "use"}
"""Functions that run no operator."""
GRADIENTS = ("dq", "dk", "dv")
SEVERAL = {"grouped_matmul", "scaled_grouped_matmul", "scaled_grouped_swiglu"}
"""Functions that return lists."""
LISTS = ("ids", "weights", "experts", "totals", "entry_ids")
"""Arrays of what `sort_experts` returns."""


def i8(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).integers(-9, 10, shape, dtype=np.int8)


def i32(*numbers: Any) -> Array:
    return np.array(numbers, np.int32)


def same(*shapes: Sequence[int]) -> list[Array]:
    """The same numbers for every run of a case, so that results can be compared."""
    random = np.random.default_rng(7)
    return [random.standard_normal(shape).astype(np.float16) for shape in shapes]


Q, K, V = same((1, 24, 2, 32), (1, 24, 2, 32), (1, 24, 2, 32))
X, Y, W, V16 = same((16, 64), (16, 64), (16, 64), (64,))
IMAGES, WINDOWS = same((2, 16, 8, 8), (16, 16, 3, 3))
LINES, SHORT = same((2, 16, 12), (16, 16, 3))
VOLUMES, BLOCKS = same((1, 16, 4, 4, 4), (16, 16, 3, 3, 3))
EXPERTS = {name: same((4, *shape))[0] for name, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32)))}
GROUPS = np.ones((16, 2), np.float16)
IDS = np.random.default_rng(2).permuted(np.tile(i32(0, 1, 2, 3), (16, 1)), axis=1)[:, :2]
WEIGHTS = np.random.default_rng(4).random((16, 2), np.float32)
TABLE, STARTS = i32([0, 1, 2]), [0, 10, 24]
ONES = np.ones(1, np.float32)
MIXED = (*same((16, 2, 64), (8, 128)), *(one.astype(np.float32) for one in same((3,), (8,), (16, 8))))
"""Two streams, phi, alpha, bias, and coefficients."""


def attended(put: Put) -> list[Any]:
    """What gradients of attention are taken of: its result, and the logarithms."""
    return list(nn.attention(put(Q), put(K), put(V), return_lse=True))


def attended_lists(put: Put) -> list[Any]:
    return list(nn.attention_varlen(put(Q[0]), put(K[0]), put(V[0]), STARTS, return_lse=True))


def routed(put: Put, **out: Any) -> Any:
    return nn.sort_experts(put(IDS), put(WEIGHTS), 4, 16, **out)


def eight(put: Put, *arrays: Array) -> list[Any]:
    """Matrices in 8 bits, then their scales of rows."""
    pairs = [nn.quantize(put(one)) for one in arrays]
    return [q for q, _ in pairs] + [scales for _, scales in pairs]


def listed(pairs: Sequence[Any]) -> list[list[Any]]:
    return [[one] for one in pairs]


def weights_of_four_bits(put: Put) -> Any:
    return put(np.random.default_rng(3).integers(0, 256, (16, 32), np.uint8))


def scaled_matrices(put: Put) -> list[Any]:
    return [put(i8(16, 64)), put(i8(64, 24)), put(ONES), put(ONES)]


PAGES = [one.reshape(3, 8, 2, 32) for one in (K, V)]
STEPS = np.full(Q.shape[:3], 0.25, np.float32)
ROWS = Q[0], K[0], V[0]
SAGE = [i8(1, 24, 2, 32), i8(1, 24, 2, 32), V, *[np.full((1, 2, 1), 0.01, np.float32)] * 2]

CASES: dict[str, Callable[..., Any]] = {
    "add_rms_norm_quantize": lambda put, **out: nn.add_rms_norm_quantize(put(X), put(Y), put(V16), **out),
    "argsort": lambda put, **out: nn.argsort(put(X), **out),
    "attention": lambda put, **out: nn.attention(put(Q), put(K), put(V), return_lse=True, **out),
    "attention_backward": lambda put, **out: nn.attention_backward(
        put(V), put(Q), put(K), put(V), *attended(put), deterministic=True, **out),
    "attention_page_lists": lambda put, **out: nn.attention_page_lists(
        put(Q[0]), *map(put, PAGES), [0, 24], [0, 3], put(TABLE[0]), put(i32(8)), **out),
    "attention_paged": lambda put, **out: nn.attention_paged(
        put(Q[0]), *map(put, PAGES), [0, 24], put(i32(24)), put(TABLE), return_lse=True, **out),
    "attention_varlen": lambda put, **out: nn.attention_varlen(*map(put, ROWS), STARTS, return_lse=True, **out),
    "attention_varlen_backward": lambda put, **out: nn.attention_varlen_backward(
        put(V[0]), put(Q[0]), put(K[0]), put(V[0]), *attended_lists(put), STARTS, deterministic=True, **out),
    "attention_with_kvcache": lambda put, **out: nn.attention_with_kvcache(
        put(Q), put(K), put(V), cache_seqlens=put(i32(20)), return_lse=True, **out),
    "avg_pool1d": lambda put, **out: nn.avg_pool1d(put(LINES), 2, **out),
    "avg_pool2d": lambda put, **out: nn.avg_pool2d(put(IMAGES), 2, channels_last=True, **out),
    "avg_pool3d": lambda put, **out: nn.avg_pool3d(put(VOLUMES), 2, **out),
    "cast": lambda put, **out: nn.cast(put(X), "f32", **out),
    "combined_matmul": lambda put, **out: nn.combined_matmul(
        put(X), put(W.T.copy()), put(V16[:16]), op="acc + d0", **out),
    "batch_norm": lambda put, **out: nn.batch_norm(put(IMAGES), None, None, training=True, return_stats=True, **out),
    "batch_norm_backward": lambda put, **out: nn.batch_norm_backward(*map(put, (IMAGES, IMAGES, *WEIGHTS.T)), **out),
    "compress_sparse": lambda put, **out: nn.compress_sparse(put(X), **out),
    "contiguous": lambda put, **out: nn.contiguous(put(X), **out),
    "conv1d": lambda put, **out: nn.conv1d(put(LINES), put(SHORT), **out),
    "conv1d_input": lambda put, **out: nn.conv1d_input((2, 16, 12), put(SHORT), put(LINES[..., :10].copy()), **out),
    "conv1d_weight": lambda put, **out: nn.conv1d_weight(put(LINES), (16, 16, 3), put(LINES[..., :10].copy()), **out),
    "conv2d": lambda put, **out: nn.conv2d(put(IMAGES), put(WINDOWS), padding=1, **out),
    "conv2d_input": lambda put, **out: nn.conv2d_input(IMAGES.shape, put(WINDOWS), put(IMAGES), padding=1, **out),
    "conv2d_weight": lambda put, **out: nn.conv2d_weight(put(IMAGES), WINDOWS.shape, put(IMAGES), padding=1, **out),
    "conv3d": lambda put, **out: nn.conv3d(put(VOLUMES), put(BLOCKS), padding=1, **out),
    "conv3d_input": lambda put, **out: nn.conv3d_input(VOLUMES.shape, put(BLOCKS), put(VOLUMES), padding=1, **out),
    "conv3d_weight": lambda put, **out: nn.conv3d_weight(put(VOLUMES), BLOCKS.shape, put(VOLUMES), padding=1, **out),
    "conv_transpose1d": lambda put, **out: nn.conv_transpose1d(put(LINES), put(SHORT), **out),
    "conv_transpose2d": lambda put, **out: nn.conv_transpose2d(put(IMAGES), put(WINDOWS), padding=1, **out),
    "conv_transpose3d": lambda put, **out: nn.conv_transpose3d(put(VOLUMES), put(BLOCKS), padding=1, **out),
    "cumsum": lambda put, **out: nn.cumsum(put(X.astype(np.float32)), **out),
    "dequantize": lambda put, **out: nn.dequantize(put(i8(16, 64)), put(np.full(16, 0.5, np.float32)), **out),
    "einsum": lambda put, **out: nn.einsum("mk,nk->nm", put(X), put(W), **out),
    "elementwise": lambda put, **out: nn.elementwise("a * b", put(X), put(Y), **out),
    "embedding": lambda put, **out: nn.embedding(put(IDS), put(X), **out),
    "embedding_bag": lambda put, **out: nn.embedding_bag(put(IDS), put(X), **out),
    "expert_matmul": lambda put, **out: nn.expert_matmul(put(X), put(EXPERTS["gate"]), routed(put), **out),
    "flash_attn_func": lambda put, **out: nn.flash_attn_func(put(Q), put(K), put(V), return_attn_probs=True, **out),
    "flash_attn_kvpacked_func": lambda put, **out: nn.flash_attn_kvpacked_func(put(Q), put(np.stack([K, V], 2)), **out),
    "flash_attn_qkvpacked_func": lambda put, **out: nn.flash_attn_qkvpacked_func(put(np.stack([Q, K, V], 2)), **out),
    "flash_attn_varlen_func": lambda put, **out: nn.flash_attn_varlen_func(*map(put, ROWS), STARTS, STARTS, **out),
    "flash_attn_varlen_kvpacked_func": lambda put, **out: nn.flash_attn_varlen_kvpacked_func(
        put(Q[0]), put(np.stack([K[0], V[0]], 1)), STARTS, STARTS, **out),
    "flash_attn_varlen_qkvpacked_func": lambda put, **out: nn.flash_attn_varlen_qkvpacked_func(
        put(np.stack([Q[0], K[0], V[0]], 1)), STARTS, **out),
    "flash_attn_with_kvcache": lambda put, **out: nn.flash_attn_with_kvcache(put(Q), put(K), put(V), **out),
    "fused_experts": lambda put, **out: nn.fused_experts(
        put(X), *map(put, EXPERTS.values()), put(WEIGHTS), put(IDS), **out),
    "grouped_matmul": lambda put, **out: nn.grouped_matmul([put(X), put(Y)], [put(W.T.copy())] * 2, **out),
    "histogram": lambda put, **out: nn.histogram(put(IDS), 8, **out),
    "hstu_attention": lambda put, **out: nn.hstu_attention(put(Q[0]), put(K[0]), put(V[0]), STARTS, **out),
    "hstu_attention_backward": lambda put, **out: nn.hstu_attention_backward(put(V[0]), *map(put, ROWS), STARTS, **out),
    "im2col": lambda put, **out: nn.im2col(put(np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))), 3, **out),
    "layer_norm": lambda put, **out: nn.layer_norm(put(X), residual=put(Y), return_sum=True, **out),
    "layer_norm_backward": lambda put, **out: nn.layer_norm_backward(*map(put, (X, Y, *WEIGHTS.T)), **out),
    "linear": lambda put, **out: nn.linear(put(X), put(W), **out),
    "linear_fp4": lambda put, **out: nn.linear_fp4(put(X), weights_of_four_bits(put), put(GROUPS), **out),
    "linear_int4": lambda put, **out: nn.linear_int4(put(X), weights_of_four_bits(put), put(GROUPS), **out),
    "linear_shuffled": lambda put, **out: nn.linear_shuffled(put(X), nn.shuffle_weight(put(W)), 16, **out),
    "matmul": lambda put, **out: nn.matmul(put(X), put(W.T.copy()), **out),
    "matmul_sparse": lambda put, **out: nn.matmul_sparse(*nn.compress_sparse(put(X)), put(W.T.copy()), **out),
    "max_pool1d": lambda put, **out: nn.max_pool1d(put(LINES), 2, return_indices=True, **out),
    "max_pool2d": lambda put, **out: nn.max_pool2d(put(IMAGES), 2, return_indices=True, channels_last=True, **out),
    "max_pool3d": lambda put, **out: nn.max_pool3d(put(VOLUMES), 2, **out),
    "mhc": lambda put, **out: nn.mhc(*map(put, MIXED[:4]), **out),
    "mhc_post": lambda put, **out: nn.mhc_post(*map(put, (MIXED[0], X, MIXED[4])), **out),
    "mhc_pre": lambda put, **out: nn.mhc_pre(*map(put, MIXED[:4]), **out),
    "moe": lambda put, **out: nn.moe(put(X), *map(put, EXPERTS.values()), put(Y[:, :4].copy()), 2, **out),
    "nonzero": lambda put, **out: nn.nonzero(put(np.where(X > 0, X, 0)), **out),
    "permute": lambda put, **out: nn.permute(put(X), (1, 0), **out),
    "predict_blocks": lambda put, **out: nn.predict_blocks(put(Q), put(K), return_lists=True, **out),
    "quantize": lambda put, **out: nn.quantize(put(X), **out),
    "quantize_for_experts": lambda put, **out: nn.quantize_for_experts(
        put(X), put(IDS), put(np.ones((4, 64), np.float32)), **out),
    "reduce": lambda put, **out: nn.reduce(put(X), **out),
    "rms_norm": lambda put, **out: nn.rms_norm(put(X), weight=put(V16), **out),
    "rms_norm_backward": lambda put, **out: nn.rms_norm_backward(*map(put, (X, Y, WEIGHTS[:, 0].copy())), **out),
    "sage_attention": lambda put, **out: nn.sage_attention(*map(put, SAGE), **out),
    "scaled_grouped_matmul": lambda put, **out: nn.scaled_grouped_matmul(*listed(scaled_matrices(put)), **out),
    "scaled_grouped_swiglu": lambda put, **out: nn.scaled_grouped_swiglu(*listed(eight(put, X, W, Y)), **out),
    "scaled_linear": lambda put, **out: nn.scaled_linear(put(i8(16, 64)), put(i8(24, 64)), put(ONES), put(ONES), **out),
    "scaled_matmul": lambda put, **out: nn.scaled_matmul(*scaled_matrices(put), **out),
    "scaled_swiglu": lambda put, **out: nn.scaled_swiglu(*eight(put, X, W, Y), **out),
    "scatter_rows": lambda put, **out: nn.scatter_rows(
        put(X.astype(np.float32)), put(i32(*range(15, -1, -1))), 20, **out),
    "segment_sum": lambda put, **out: nn.segment_sum(put(X), put(i32(0, 4, 4, 16)), **out),
    "shuffle_weight": lambda put, **out: nn.shuffle_weight(put(W), **out),
    "softmax": lambda put, **out: nn.softmax(put(X), 0, **out),
    "softmax_backward": lambda put, **out: nn.softmax_backward(put(X), put(Y), **out),
    "sort": lambda put, **out: nn.sort(put(X), 0, **out),
    "sort_experts": routed,
    "sparge_attention": lambda put, **out: nn.sparge_attention(put(Q), put(K), put(V), return_lse=True, **out),
    "sparse_attention": lambda put, **out: nn.sparse_attention(
        put(Q), put(K), put(V), put(np.ones((1, 2, 1, 1), np.int8)), return_lse=True, **out),
    "ssd": lambda put, **out: nn.ssd(put(Q), *map(put, (-STEPS, STEPS)), put(K), put(K), return_state=True, **out),
    "swiglu": lambda put, **out: nn.swiglu(put(X), put(W), put(Y), **out),
    "topk": lambda put, **out: nn.topk(put(X), 3, **out),
    "topk_softmax": lambda put, **out: nn.topk_softmax(put(X), 3, **out),
    "transpose": lambda put, **out: nn.transpose(put(X), **out),
}  # fmt: skip
"""By name: a call of the function, on arrays that are put somewhere, and with `out=`."""


def public() -> Iterator[str]:
    return (name for name in nn.__all__ if isinstance(getattr(nn, name), FunctionType) and name not in WITHOUT)


def test_every_function_takes_out() -> None:
    """Or passes it on; gradients of attention, which are given its result, say what they write by other names."""
    assert set(CASES) == set(public())
    for name in public():
        parameters = inspect.signature(getattr(nn, name)).parameters
        passed_on = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        assert passed_on or {*GRADIENTS} <= {*parameters} or "out" in parameters, name


def results_of(found: Any) -> list[Any]:
    """The arrays of a result."""
    if isinstance(found, nn.SortedExperts):
        return [getattr(found, name) for name in LISTS]
    return [one for one in found if one is not None] if isinstance(found, (tuple, list)) else [found]


def called(name: str, put: Put, outs: Sequence[Any]) -> list[Any]:
    """The function's results, which are asked for in these arrays."""
    if name == "sort_experts":
        given: Any = replace(routed(nn.asarray), **dict(zip(LISTS, outs, strict=True)))
    else:
        given = tuple(outs) if len(outs) > 1 or name in SEVERAL else outs[0]
    options = dict(zip(GRADIENTS, outs, strict=True)) if "attention" in name and "_back" in name else {"out": given}
    return results_of(CASES[name](put, **options))


def defined(name: str, arrays: Sequence[Any]) -> list[Array]:
    """The numbers of results, of lists of experts as far as they go."""
    numbers = [exact(one) for one in arrays]
    if name == "sort_experts":
        taken = int(numbers[3][0])
        numbers = [numbers[0][:taken], numbers[1][:taken], numbers[2][: taken // 16], *numbers[3:]]
    return numbers


def assert_equal(name: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """The same numbers, but for roundings: where results lie differently kernels may add in another order."""
    for one, other in zip(defined(name, found), defined(name, expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)


def bare(one: Any, pad: int = 0) -> Array:
    """As a result, on the host, with other numbers in it, and rows that are longer."""
    shape = one.shape and (*one.shape[:-1], one.shape[-1] + pad)
    return np.full(shape, 77).astype(one.dtype if isinstance(one, (np.ndarray, nn.Array)) else exact(one).dtype)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", CASES)
def test_results_are_written_where_they_are_wanted(session: nn.Session, name: str) -> None:
    """Without gaps, between gaps, on the device and on the host; what was given comes back."""
    expected = results_of(CASES[name](nn.asarray))
    outs = [nn.asarray(bare(one)) for one in expected]
    found = called(name, nn.asarray, outs)
    assert all(one is other for one, other in zip(found, outs, strict=True))
    assert_equal(name, found, expected)
    wide = [nn.asarray(bare(one, 8)) for one in expected]
    found = called(name, nn.asarray, [one[..., :-8] for one in wide])
    assert_equal(name, found, expected)
    assert all((exact(one[..., -8:]) == 77).all() for one in wide)
    host = [bare(one, 8) for one in expected]
    assert_equal(name, called(name, np.asarray, [one[..., -9::-1] for one in host]), expected)
    assert all((exact(one[..., -8:]) == 77).all() for one in host)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CASES)
def test_other_arrays_are_refused(session: nn.Session, name: str) -> None:
    """Of another shape or type, what is none, and one that is read-only."""
    expected = results_of(CASES[name](nn.asarray))
    good = [bare(one) for one in expected]

    def assert_refused(place: int, array: Any, words: str) -> None:
        with pytest.raises(DeviceError) as error:
            called(name, np.asarray, [*good[:place], array, *good[place + 1 :]])
        assert words in str(error.value)

    for place, one in enumerate(good):
        assert_refused(place, bare(one, 1), "shape")
        assert_refused(place, one.astype(np.float64), "elements are f64; expected")
        assert_refused(place, 3, "int is not an array")
        one.flags.writeable = False
        assert_refused(place, one, "a read-only array, which would be written")
        one.flags.writeable = True


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_results_over_what_is_read_are_refused_or_right(session: nn.Session, name: str) -> None:
    """The first array that is given, and the first result, in one place."""
    expected = results_of(CASES[name](nn.asarray))
    held: list[Any] = []

    def put(array: Array) -> Any:
        """The first array where the result is wanted."""
        shared = held.pop() if held else nn.asarray(array)
        places.append(shared)
        return shared

    places: list[Any] = []
    CASES[name](put)
    first = places[0]
    if math.prod(expected[0].shape) * expected[0].dtype.itemsize > first.data.whole.size:
        pytest.skip("the result is larger than the input that it would lie over")
    held.append(first)
    over = nn.Array(first.device, typed(first.data.whole, expected[0].shape, expected[0].dtype))
    try:
        found = called(name, put, [over, *(nn.asarray(bare(one)) for one in expected[1:])])
    except DeviceError as error:
        assert "shares memory with" in str(error)
    else:
        assert_equal(name, found, expected)


def test_numbers_of_results(session: nn.Session) -> None:
    """An array alone is for the first of several; None is made; two that share memory are refused."""
    values, places = np.zeros((16, 3), np.float16), np.zeros((16, 3), np.int32)
    expected = nn.topk(X, 3)
    found = nn.topk(X, 3, out=values)
    assert found[0] is values
    assert_equal("topk", found, expected)
    found = nn.topk(X, 3, out=(None, places))
    assert found[1] is places
    assert_equal("topk", found, expected)
    with pytest.raises(DeviceError, match="out: 3 arrays; expected 2, one for each result, or None where one is made"):
        nn.topk(X, 3, out=(values, places, None))
    for put in (np.asarray, nn.asarray):
        both = put(np.zeros((17, 64), np.float16))
        with pytest.raises(DeviceError, match=r"out\[1\] shares memory with out\[0\], and both are written"):
            nn.layer_norm(put(X), residual=put(Y), return_sum=True, out=(both[1:], both[:-1]))


def test_tensors_that_are_written(session: nn.Session) -> None:
    """With gaps, and turned; those that require gradients are refused."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not given")
    values, places = torch.zeros(3, 16, dtype=torch.float16).T, torch.zeros(16, 6, dtype=torch.int32)[:, ::2]
    found = nn.topk(as_tensor(X), 3, out=(values, places))
    assert found[0] is values and found[1] is places
    assert_equal("topk", found, nn.topk(X, 3))
    with pytest.raises(DeviceError, match=r"out\[0\]: a tensor that requires gradients"):
        nn.topk(as_tensor(X), 3, out=(torch.zeros(16, 3, dtype=torch.float16, requires_grad=True), None))


def test_arrays_of_the_host_as_they_lie(session: nn.Session) -> None:
    """Of another byte order, and caches with gaps, of which parts are written."""
    out = np.zeros((16, 16), ">f2")
    assert nn.linear(X, W, out=out) is out
    assert_equal("linear", [out.astype(np.float16)], [nn.linear(X, W)])
    caches = [np.full((1, 32, 2, 40), 7, ">f2")[..., 3:35] for _ in range(2)]
    found = nn.attention_with_kvcache(Q, *caches, K, V, cache_seqlens=0)
    assert_equal("attention", [found], [nn.attention(Q, K, V)])
    np.testing.assert_array_equal(caches[1][:, :24], V)
    assert (caches[1].base[:, 24:] == 7).all() and (caches[1].base[..., :3] == 7).all()


def test_what_is_not_copied_to_gaps_of_a_device(session: nn.Session) -> None:
    """Elements that share bytes, powers of two and f64; on the host they are."""
    x = np.ones((4, 64), np.float32)
    q, scales = nn.quantize(x, "fp4", by="1x32", powers=True)
    host = np.zeros((4, 40), np.uint8)[:, :32], np.zeros((4, 4), scales.dtype)[:, ::2]
    nn.quantize(x, "fp4", by="1x32", powers=True, out=host)
    assert (host[0] == q).all() and (host[1].view(np.uint8) == scales.view(np.uint8)).all()
    for out, words in (
        ((nn.asarray(np.zeros((4, 40), np.uint8))[:, :32], None), "out[0]: elements are fp4, which are not copied"),
        ((None, nn.empty((4, 4), scales.dtype)[:, ::2]), "out[1]: elements are e8m0, which are not copied to strides"),
    ):
        with pytest.raises(DeviceError) as error:
            nn.quantize(x, "fp4", by="1x32", powers=True, out=out)
        assert words in str(error.value)
    a, b = np.ones((4, 64)), np.ones((64, 8))
    with pytest.raises(DeviceError, match="out: elements are f64, which are not copied to strides"):
        nn.matmul(a, b, out=nn.asarray(np.zeros((8, 4))).T)
    assert (nn.matmul(a, b, out=nn.asarray(np.zeros((4, 12)))[:, :8]).numpy() == 64).all()


def test_results_beside_arrays_of_another_library(session: nn.Session) -> None:
    """NumPy's arrays in, results on the device, and the other way; numbers without dimensions; records' fields."""
    values, expected = nn.asarray(np.zeros((16, 128), np.float16)), np.sort(X, -1)
    nn.sort(X, out=(values[:, ::2], None))
    np.testing.assert_array_equal(values.numpy()[:, ::2], expected)
    turned = np.zeros((64, 16), np.float16).T
    nn.sort(nn.asarray(X), out=(turned, None))
    np.testing.assert_array_equal(turned, expected)
    number = nn.asarray(np.zeros(3, np.float32))
    nn.reduce(X.astype(np.float32), "max", (0, 1), out=number[1:2].reshape())
    np.testing.assert_array_equal(number.numpy(), [0, X.max(), 0])
    record = np.zeros(16, dtype=[("a", np.float16), ("b", np.float32)])
    nn.reduce(X, "max", 1, out=record["a"])
    np.testing.assert_array_equal(record["a"], X.max(1))
    counts = nn.asarray(np.full((3, 8), 9, np.int32))
    nn.histogram(np.zeros((3, 0), np.int32), 4, out=counts[:, ::2])
    np.testing.assert_array_equal(counts.numpy(), [[0, 9] * 4] * 3)
