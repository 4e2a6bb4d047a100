"""Gated products of quantised matrices as functions on arrays, against NumPy, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
Put = Callable[[Array], Any]


def integers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).integers(-9, 10, shape, dtype=np.int8)


def gated(x: Any, gate: Any, up: Any) -> Array:
    """silu(x gateᵀ) · (x upᵀ) of what was scaled."""
    first = x @ gate.swapaxes(-1, -2)
    result: Array = first / (1 + np.exp(-first)) * (x @ up.swapaxes(-1, -2))
    return result


@homes
def test_rows(session: nn.Session, put: Put) -> None:
    x, gate, up = normal(2, 3, 64), normal(48, 64), normal(48, 64)
    pairs = [nn.quantize(put(one), "fp8", by="row") for one in (x, gate, up)]
    expected = gated(*(exact(q) * exact(s)[..., None] for q, s in pairs))
    found = nn.scaled_swiglu(*(q for q, _ in pairs), *(s for _, s in pairs), dtype="f32")
    assert_close(found, expected, "f32", 50)


@pytest.mark.one_in(2)
@homes
def test_a_batch(session: nn.Session, put: Put) -> None:
    """Weights of a batch meet rows of two; scales are of rows, of groups, or one of all; also into a given output."""
    x, gate, up = integers(3, 2, 7, 40), integers(2, 9, 40), integers(1, 2, 9, 40)[0] // 2
    rows, groups = np.abs(normal(3, 2, 7, 1, dtype="f32")) / 32, np.abs(normal(2, 9, 2, dtype="f32")) / 8
    over = groups.repeat(32, axis=2)[..., :40]
    number = np.float32(1 / 32).reshape(1)
    for of_x, of_weights, spread in ((rows, groups, over), (number, groups[..., :1], groups[..., :1])):
        expected = gated(exact(x) * exact(of_x), exact(gate) * exact(spread), exact(up) * exact(spread))
        given = [put(one) for one in (x, gate, up, of_x, of_weights, of_weights)]
        assert_close(nn.scaled_swiglu(*given, dtype="f32"), expected, "f32", 50)
        out = put(np.zeros((3, 2, 7, 9), np.float32))
        nn.scaled_swiglu(*given, dtype="f32", out=out)
        assert_close(out, expected, "f32", 50)


@homes
def test_several(session: nn.Session, put: Put) -> None:
    sizes = ((5, 7, 32), (0, 9, 64), (33, 16, 96))
    triples = [[nn.quantize(put(normal(*shape)), "i8") for shape in ((m, k), (n, k), (n, k))] for m, n, k in sizes]
    arrays = [[triple[place][part] for triple in triples] for part in (0, 1) for place in range(3)]
    found = nn.scaled_grouped_swiglu(*arrays, dtype="f32")
    for one, triple in zip(found, triples, strict=True):
        assert_close(one, gated(*(exact(q) * exact(s)[..., None] for q, s in triple)), "f32", 50)


Q, S = np.ones((4, 32), np.int8), np.ones(4, np.float32)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: nn.scaled_swiglu(Q, Q, Q, S, S, S[:1]), "gate_scale, up_scale: they differ in form"),
    (lambda: nn.scaled_swiglu(Q, Q, Q[:2], S, S, S), r"gate \(4, 32\), up \(2, 32\): expected \(…, k\) and twice"),
    (lambda: nn.scaled_swiglu(Q[0], Q[None], Q[None], S, S, S), r"x \(32,\), .*: expected \(…, k\) and twice"),
    (lambda: nn.scaled_swiglu(np.stack([Q] * 3), np.stack([Q] * 2), np.stack([Q] * 2), S, S, S), "do not broadcast"),
    (lambda: nn.scaled_grouped_swiglu([Q], [Q], [], [S], [S], [S]), "1 x, 1 gate, 0 up, .*: expected as many"),
    (lambda: nn.scaled_grouped_swiglu([Q], [Q[:2]], [Q], [S], [S], [S]), r"gate\[0\] \(2, 32\), .*: expected"),
    (lambda: nn.scaled_grouped_swiglu([Q] * 2, [Q] * 2, [Q] * 2, [S, S[:1]], [S] * 2, [S] * 2), "all alike"),
])  # fmt: skip
def test_refusals(session: nn.Session, call: Callable[[], object], words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        call()
