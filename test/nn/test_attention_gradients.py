"""Gradients of attention by PyTorch: of batches and of sequences, with dropout, with SiLU weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from common import kept

from ckmlir import nn

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: its operators are not tried")
pytest.importorskip("ckmlir.nn.pytorch")


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    torch.manual_seed(0)
    with nn.Session("gfx942", device="sim"):
        yield


def normal(*shape: int, grad: bool = False) -> Any:
    return torch.randn(*shape, dtype=torch.float16, requires_grad=grad)


def starts(*numbers: int) -> Any:
    return torch.tensor(numbers, dtype=torch.int32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_gradients_of_attention(layout: str) -> None:
    def turned(one: Any) -> Any:
        return one.transpose(1, 2) if layout == "bshd" else one

    q, k, v = (turned(normal(2, heads, 70, 64)).contiguous().requires_grad_() for heads in (4, 2, 2))
    attend = torch.compile(
        lambda *given: torch.ops.ckmlir.attention(*given, causal=True, layout=layout)[0], backend="aot_eager"
    )
    do = normal(*q.shape)
    attend(q, k, v).backward(do)
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    repeated = (turned(one).repeat_interleave(2, 1) for one in exact[1:])
    wanted = torch.nn.functional.scaled_dot_product_attention(turned(exact[0]), *repeated, is_causal=True)
    turned(wanted).backward(do.double())
    for own, one in zip((q, k, v), exact, strict=True):
        assert ((own.grad.double() - one.grad).abs() / (1 + one.grad.abs())).max() < 5e-3


def test_gradients_of_attention_with_dropout() -> None:
    """The weights that were dropped are dropped again, by the functions and by flash-attention's."""
    q, k, v = (normal(2, length, heads, 32, grad=True) for length, heads in ((20, 4), (40, 2), (40, 2)))
    o = nn.attention(q, k, v, dropout_p=0.3, seed=5)
    do = normal(*o.shape)
    o.backward(do)
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    keys, values = (one.repeat_interleave(2, 2) for one in exact[1:])
    weights = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", exact[0], keys) / 32**0.5, -1)
    dropped = weights * torch.tensor(kept(2, 4, 20, 40, 0.3, 5) / 0.7)
    torch.einsum("bhqk,bkhd->bqhd", dropped, values).backward(do.double())
    for own, one in zip((q, k, v), exact, strict=True):
        assert ((own.grad.double() - one.grad).abs() / (1 + one.grad.abs())).max() < 5e-3
        own.grad = None
    torch.manual_seed(3)
    seed = int(torch.randint(2**63 - 1, ()))
    torch.manual_seed(3)
    gradients = []
    for found in (nn.flash_attn_func(q, k, v, 0.3), nn.attention(q, k, v, dropout_p=0.3, seed=seed)):
        found.backward(do)
        gradients.append(k.grad)
        k.grad = None
    assert ((gradients[0] - gradients[1]).abs() / (1 + gradients[1].abs())).max() < 5e-3


def test_gradients_of_attention_with_silu_weights() -> None:
    """Of two sequences, the first of which has candidates."""
    begins, counts = [0, 9, 20], starts(3, 0)
    q, k, v = (normal(20, heads, 32, grad=True) for heads in (4, 2, 2))
    o = nn.hstu_attention(q, k, v, begins, num_targets=counts, attn_scale=0.5)
    do = normal(*o.shape)
    o.backward(do)
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    parts = []
    for (begin, end), count in zip(pairwise(begins), counts.tolist(), strict=True):
        keys, values = (one[begin:end].repeat_interleave(2, 1) for one in exact[1:])
        scores = torch.einsum("qhd,khd->hqk", exact[0][begin:end], keys) / 32**0.5
        rows, columns = torch.arange(end - begin)[:, None], torch.arange(end - begin)[None]
        seen = (rows == columns) | ((columns <= rows) & (columns < end - begin - count))
        weights = 0.5 * torch.nn.functional.silu(scores) * seen
        parts.append(torch.einsum("hqk,khd->qhd", weights, values))
    torch.cat(parts).backward(do.double())
    for own, one in zip((q, k, v), exact, strict=True):
        assert ((own.grad.double() - one.grad).abs() / (1 + one.grad.abs())).max() < 5e-3


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.full)])
def test_gradients_of_attention_of_sequences(causal: bool) -> None:
    """One sequence has no queries, one has queries without a key before the end of the others."""
    starts_q, starts_k = [0, 7, 7, 20], [0, 3, 10, 27]
    q, k, v = (normal(rows, heads, 32, grad=True) for rows, heads in ((20, 4), (27, 2), (27, 2)))
    o = nn.attention_varlen(q, k, v, starts_q, starts(*starts_k), causal=causal)
    do = normal(*o.shape)
    o.backward(do)
    exact = [one.detach().double().requires_grad_() for one in (q, k, v)]
    parts = []
    for (a, b), (c, d) in zip(pairwise(starts_q), pairwise(starts_k), strict=True):
        keys, values = (one[c:d].repeat_interleave(2, 1) for one in exact[1:])
        scores = torch.einsum("qhd,khd->hqk", exact[0][a:b], keys) / 32**0.5
        hidden = torch.arange(d - c)[None] > torch.arange(b - a)[:, None] + (d - c) - (b - a)
        weights = torch.softmax(scores.masked_fill(hidden & torch.tensor(causal), -torch.inf), -1).nan_to_num()
        parts.append(torch.einsum("hqk,khd->qhd", weights, values))
    torch.cat(parts).backward(do.double())
    for own, one in zip((q, k, v), exact, strict=True):
        assert ((own.grad.double() - one.grad).abs() / (1 + one.grad.abs())).max() < 5e-3
