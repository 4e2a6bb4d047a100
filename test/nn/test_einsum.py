"""`einsum` against NumPy's, of tensors that lie in any order, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import HOMES, Array, assert_close, exact, normal

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

Put = Callable[[Array], Any]
homes = pytest.mark.parametrize("put", HOMES.values(), ids=HOMES)
CASES = [
    ("ij,jk->ik", (5, 16), (16, 9)),
    ("bqhd,bkhd->bhqk", (2, 7, 3, 16), (2, 9, 3, 16)),
    ("bhqk,bkhd -> bqhd", (2, 3, 7, 9), (2, 9, 3, 16)),
    ("acb,bdc", (3, 4, 5), (5, 6, 4)),
    ("i,j", (5,), (7,)),
    ("i,i->", (9,), (9,)),
    ("ij,jk->ki", (3, 0), (0, 3)),
    ("ij,jk", (0, 4), (4, 3)),
    ("abcdefgh,abcdijkl->efghijkl", (2, 1, 2, 1, 3, 1, 2, 1), (2, 1, 2, 1, 2, 1, 2, 1)),
]


@pytest.mark.one_in(4)
@homes
@pytest.mark.parametrize(("equation", "a", "b"), CASES, ids=[one[0] for one in CASES])
def test_like_numpy(session: nn.Session, put: Put, equation: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = normal(*a), normal(*b)
    found = nn.einsum(equation, put(left), put(right))
    assert_close(found, np.einsum(equation, exact(left), exact(right)), factor=4)


def test_views_and_an_output_that_lies_otherwise(session: nn.Session) -> None:
    q, k = nn.asarray(normal(2, 7, 48)), nn.asarray(normal(3, 2, 9, 16))
    out = nn.empty((9, 2, 3, 7), np.float32).permute(1, 2, 3, 0)
    heads = q.reshape(2, 7, 3, 16)
    assert nn.einsum("bqhd,hbkd->bhqk", heads, k, dtype="float32", out=out) is out
    assert_close(out, np.einsum("bqhd,hbkd->bhqk", exact(heads), exact(k)), factor=4)


@pytest.mark.parametrize(
    ("equation", "a", "b", "words"),
    [
        ("ij", (2, 3), (3, 4), "equation 'ij': expected the letters of two tensors"),
        ("i.j,jk", (2, 3), (3, 4), "equation 'i.j,jk': expected the letters of two tensors"),
        ("ii,ij", (2, 2), (2, 4), "a has i twice; diagonals are not taken"),
        ("ij,jk->iik", (2, 3), (3, 4), "the result has i twice"),
        ("ij,jk->il", (2, 3), (3, 4), "neither tensor has the result's l"),
        ("ij,jk->k", (2, 3), (3, 4), "one tensor alone is summed over i; add it up with nn.reduce first"),
        ("ijk,jk", (2, 3), (3, 4), "a: shape (2, 3) for the letters 'ijk'; expected 3 dimensions"),
        ("ij,jk", (2, 3), (4, 5), "j counts to 3 in a and to 4 in b; expected one length"),
        ("abcde,e", (1, 1, 1, 1, 1), (1,), None),
        ("abcdef,f", (1, 1, 1, 1, 1, 1), (1,), "5 letters are a's own; expected at most 4"),
    ],
)
def test_what_is_refused(
    session: nn.Session, equation: str, a: tuple[int, ...], b: tuple[int, ...], words: str | None
) -> None:
    if words is None:
        nn.einsum(equation, normal(*a), normal(*b))
        return
    with pytest.raises(DeviceError) as caught:
        nn.einsum(equation, normal(*a), normal(*b))
    assert words in str(caught.value)
