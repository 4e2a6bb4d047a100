"""Histograms and running sums: the references against loops, the kernels on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, agree

from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError

HISTOGRAM, CUMSUM = find_operator("histogram"), find_operator("cumsum")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 30), st.one_of(st.none(), st.integers(1, 9)), st.integers(1, 5), st.integers(0, 99))
def test_counts_of_the_reference(n: int, part: int | None, bins: int, seed: int) -> None:
    problem = HISTOGRAM.problem(n=n, part=part, bins=bins)
    x = np.random.default_rng(seed).integers(-2, bins + 2, n)
    counts = HISTOGRAM.reference(problem, {"x": x})["counts"]
    pieces = [x] if part is None else [x[start : start + part] for start in range(0, n, part)]
    assert counts.tolist() == [[list(piece).count(number) for number in range(bins)] for piece in pieces]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 5), st.integers(0, 5), st.sampled_from(["rows", "columns"]), st.booleans(), st.integers(0, 99)
)  # fmt: skip
def test_sums_of_the_reference(m: int, n: int, along: str, exclusive: bool, seed: int) -> None:
    problem = CUMSUM.problem(m=m, n=n, along=along, dtype="i32", exclusive=exclusive, totals=1)
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    found = CUMSUM.reference(problem, {"x": x})
    lines = x.tolist() if along == "rows" else x.T.tolist()
    sums = [[sum(line[: end + (not exclusive)]) for end in range(len(line))] for line in lines]
    expected = np.array(sums, np.int64).reshape(len(lines), n if along == "rows" else m)
    got = found["y"] if along == "rows" else found["y"].T
    np.testing.assert_array_equal(got, expected.astype(np.int32))
    np.testing.assert_array_equal(found["totals"], np.array([sum(line) for line in lines], np.int64).astype(np.int32))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "keys",
    [
        {"n": 1, "bins": 1}, {"n": 0}, {"n": 5000, "bins": 1000}, {"n": 1003, "part": 256, "bins": 257},
        {"n": 4000, "part": 1000, "bins": 10}, {"n": 2999, "part": 333, "bins": 4096}, {"n": 0, "part": 7},
    ],
)  # fmt: skip
def test_histograms(chip: str, keys: dict[str, Any]) -> None:
    agree("histogram", chip, **keys)


SUMS: list[dict[str, Any]] = [
    {"m": 1, "n": 1}, {"m": 5, "n": 1031, "totals": 1}, {"m": 600, "n": 17, "along": "columns", "totals": 1},
    {"m": 9, "n": 512, "exclusive": 1, "stride": 520, "ystride": 516}, {"m": 257, "n": 16, "along": "columns"},
    {"m": 0, "n": 5, "along": "columns", "totals": 1}, {"m": 3, "n": 0, "totals": 1},
    {"m": 70, "n": 33, "along": "columns", "exclusive": 1, "stride": 100, "ystride": 35},
]  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
@pytest.mark.parametrize("keys", SUMS)
def test_running_sums(dtype: str, keys: dict[str, Any]) -> None:
    agree("cumsum", CHIPS[(SUMS.index(keys) + len(dtype)) % 3], dtype=dtype, **keys)


@pytest.mark.parametrize(
    ("operator", "keys", "words"),
    [
        (HISTOGRAM, {"bins": 4097}, "bins=4097: expected at most 4096"),
        (HISTOGRAM, {"part": 0}, "part=0"),
        (CUMSUM, {"n": 8, "stride": 7}, "stride=7: a row has 8 elements"),
        (CUMSUM, {"along": "both"}, "along=both: expected rows|columns"),
    ],
)
def test_requests_that_are_refused(operator: Any, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        operator.problem(**keys)
    assert words in str(error.value)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx90a", {"m": 5, "n": 300}), ("gfx942", {"m": 3, "n": 1000, "dtype": "f16", "stride": 1008}),
    ("gfx950", {"m": 7, "n": 257, "dtype": "f32"}), ("gfx942", {"m": 2, "n": 0}), ("gfx950", {"m": 0, "n": 4}),
    ("gfx90a", {"m": 4, "n": 1, "dtype": "i32"}), ("gfx950", {"m": 3, "n": 514, "dtype": "bf16"}),
])  # fmt: skip
def test_nonzero(chip: str, keys: dict[str, Any]) -> None:
    agree("nonzero", chip, **keys)


def test_nonzero_of_the_reference() -> None:
    operator = find_operator("nonzero")
    problem = operator.problem(m=3, n=4, dtype="f32")
    x = np.array([[0, 2, -0.0, np.nan], [0, 0, 0, 0], [1e-40, 1, np.inf, 5]], np.float32)
    found = operator.reference(problem, {"x": x})
    assert found["counts"].tolist() == [2, 0, 4]
    assert found["y"].tolist() == [[1, 3, -1, -1], [-1] * 4, [0, 1, 2, 3]]
