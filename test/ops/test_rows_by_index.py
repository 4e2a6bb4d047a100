"""Rows gathered, scattered, summed by segment and sorted: references against loops, kernels on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

NUMBERS = st.sampled_from([-2.5, -1.0, -0.0, 0.0, 1.0, 7.25, np.inf, -np.inf, np.nan])


@settings(max_examples=80, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=9), st.booleans())
def test_order_of_the_reference(row: list[float], descending: bool) -> None:
    """By insertion: an element goes before the first that comes later than it; NaN is the largest of all."""
    order = "descending" if descending else "ascending"
    problem = find_operator("argsort").problem(m=1, n=len(row), order=order)

    def first_is_less(one: float, other: float) -> bool:
        return bool(one < other or (np.isnan(other) and not np.isnan(one)))

    def comes_later(known: float, value: float) -> bool:
        return first_is_less(known, value) if descending else first_is_less(value, known)

    places: list[int] = []
    for place, value in enumerate(row):
        later = (at for at, known in enumerate(places) if comes_later(row[known], value))
        places.insert(next(later, len(places)), place)
    found = find_operator("argsort").reference(problem, {"x": np.array([row])})
    assert found["indices"].tolist() == [places]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 6), st.integers(0, 3), st.integers(1, 5), st.integers(0, 99))
def test_sums_and_rows_of_the_references(m: int, n: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, ids = random.integers(-9, 9, (m, n)), random.integers(-1, rows + 1, m)
    columns = range(n)
    added = find_operator("scatter_rows").problem(m=m, n=n, rows=rows, dtype="i32")
    found = find_operator("scatter_rows").reference(added, {"x": x, "ids": ids})["y"]
    own = [[i for i in range(m) if ids[i] == row] for row in range(rows)]
    assert found.tolist() == [[int(sum(x[i, j] for i in some)) for j in columns] for some in own]
    table = random.integers(-9, 9, (rows, n))
    looked_up = find_operator("gather_rows").problem(rows=rows, m=m, n=n, dtype="i32")
    found = find_operator("gather_rows").reference(looked_up, {"table": table, "ids": ids})["y"]
    assert found.tolist() == [table[i].tolist() if 0 <= i < rows else [0] * n for i in ids]
    bags = random.integers(-1, rows + 1, (m, 3))
    summed = find_operator("embedding_bag").problem(rows=rows, m=m, k=3, n=n, dtype="i32")
    found = find_operator("embedding_bag").reference(summed, {"table": table, "ids": bags})["y"]
    assert found.tolist() == [[sum(int(table[i, j]) for i in bag if 0 <= i < rows) for j in columns] for bag in bags]
    offsets = np.sort(random.integers(0, m + 1, rows + 1))
    summed = find_operator("segment_sum").problem(m=m, n=n, segments=rows, dtype="i32")
    found = find_operator("segment_sum").reference(summed, {"x": x, "offsets": offsets})["y"]
    parts = [range(offsets[segment], offsets[segment + 1]) for segment in range(rows)]
    assert found.tolist() == [[int(sum(x[i, j] for i in part)) for j in columns] for part in parts]


ROWS: list[tuple[str, dict[str, Any]]] = [
    ("gather_rows", {"rows": 20, "m": 37, "n": 300}),
    ("gather_rows", {"rows": 1, "m": 5, "n": 37, "dtype": "i8"}),
    ("gather_rows", {"rows": 9, "m": 16, "n": 64, "dtype": "f32", "stride": 68, "ystride": 80}),
    ("gather_rows", {"rows": 0, "m": 3, "n": 5, "dtype": "bf16"}),
    ("scatter_rows", {"rows": 20, "m": 37, "n": 300}),
    ("scatter_rows", {"rows": 7, "m": 40, "n": 66, "dtype": "f16", "stride": 70}),
    ("scatter_rows", {"rows": 7, "m": 33, "n": 9, "dtype": "i32"}),
    ("scatter_rows", {"rows": 50, "m": 37, "n": 33, "dtype": "f16", "op": "store", "stride": 40}),
    ("scatter_rows", {"rows": 7, "m": 33, "n": 9, "dtype": "f16"}),
    ("scatter_rows", {"rows": 5, "m": 20, "n": 66, "dtype": "bf16", "stride": 67}),
    ("scatter_rows", {"rows": 5, "m": 20, "n": 64, "dtype": "f16", "sums": "f32"}),
    ("scatter_rows", {"rows": 3, "m": 0, "n": 1, "dtype": "bf16"}),
    ("scatter_rows", {"rows": 3, "m": 0, "n": 4, "op": "store"}),
    ("scatter_rows", {"rows": 0, "m": 4, "n": 4}),
    ("embedding_bag", {"rows": 20, "m": 37, "n": 300}),
    ("embedding_bag", {"rows": 9, "m": 16, "k": 7, "n": 64, "dtype": "f32", "out": "bf16", "stride": 68}),
    ("embedding_bag", {"rows": 9, "m": 5, "k": 1, "n": 37, "dtype": "i32", "ystride": 41}),
    ("embedding_bag", {"rows": 0, "m": 3, "k": 2, "n": 5, "dtype": "bf16"}),
    ("embedding_bag", {"rows": 3, "m": 3, "k": 0, "n": 5, "dtype": "bf16", "out": "f32"}),
    ("segment_sum", {"m": 100, "n": 130, "segments": 7}),
    ("segment_sum", {"m": 1, "n": 129, "segments": 3, "dtype": "bf16"}),
    ("segment_sum", {"m": 50, "n": 40, "segments": 1, "dtype": "i32", "stride": 44, "ystride": 41}),
    ("segment_sum", {"m": 0, "n": 40, "segments": 4, "dtype": "f16"}),
    ("argsort", {"m": 3, "n": 300}),
    ("argsort", {"m": 2, "n": 257, "dtype": "f16", "order": "descending", "stride": 300}),
    ("argsort", {"m": 2, "n": 1, "dtype": "i32"}),
    ("topk", {"m": 3, "n": 100, "k": 7}),
    ("topk", {"m": 2, "n": 700, "k": 700, "dtype": "bf16", "order": "ascending"}),
    ("topk", {"m": 4, "n": 64, "k": 0, "dtype": "i32"}),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("name", "keys"), ROWS)
def test_kernels(name: str, keys: dict[str, Any]) -> None:
    agree(name, CHIPS[len(str(keys)) % 3], **keys)


@pytest.mark.parametrize("chip", CHIPS)
def test_rows_of_bf16_are_added(chip: str) -> None:
    """In pairs, through pointers where buffers cannot; in f32 on gfx90a, which lacks the instruction and says so."""
    agree("scatter_rows", chip, rows=9, m=37, n=50, dtype="bf16")
    operator, target = find_operator("scatter_rows"), get_target(chip)
    own, chosen = (operator.spec(operator.problem(dtype="bf16", sums=sums), target) for sums in ("own", None))
    assert chosen.sums == ("f32" if chip == "gfx90a" else "bf16")
    reasons = operator.validate(own, target)
    assert any("bf16" in str(one) and "sums=f32" in str(one) for one in reasons) if chip == "gfx90a" else not reasons


@pytest.mark.parametrize(("sums", "total"), [("own", 256.0), ("f32", 512.0)])
def test_many_rows_of_one_number(sums: str, total: float) -> None:
    """Added one by one in bf16, ones come no further than 256."""
    target, operator = get_target("gfx942"), find_operator("scatter_rows")
    problem = operator.problem(rows=2, m=512, n=2, dtype="bf16", sums=sums)
    ones = np.ones((512, 2), numpy_dtype("bf16", target))
    arrays = {"x": ones, "ids": np.ones(512, np.int32)}
    found = run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs["y"]
    assert found.astype(np.float32).tolist() == [[0.0, 0.0], [total, total]]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("chip", CHIPS)
def test_special_numbers_have_a_place(chip: str, order: str) -> None:
    """NaN of either sign, infinities, zeros of either sign, denormals, the integers at the ends."""
    device, target = open_device("sim", get_target(chip), checks="all"), get_target(chip)
    nan = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)
    floats = np.array([*nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 0.0, nan[0]], np.float32)
    whole = np.array([2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), -1, 1], np.int32)
    for dtype, row in (("f32", floats), ("i32", whole)):
        operator = find_operator("argsort")
        problem = operator.problem(m=1, n=len(row), dtype=dtype, order=order)
        arrays = {"x": row[None, :]}
        result = run_operator(operator, problem, arrays, target, device)
        assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_longest_rows_do_not_spill(chip: str) -> None:
    operator, target = find_operator("topk"), get_target(chip)
    spec = operator.spec(operator.problem(n=4096), target)
    metadata = compile_kernel(operator, spec, target).code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


@pytest.mark.full
@pytest.mark.parametrize("name", ["argsort", "topk"])
def test_the_longest_rows(name: str) -> None:
    agree(name, "gfx942", m=2, n=4096)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("argsort", {"n": 4097}, "n=4097: expected at most 4096"),
        ("topk", {"n": 5, "k": 6}, "k=6: a row has 5 elements"),
        ("scatter_rows", {"dtype": "i8"}, "dtype=i8: expected f32|f16|bf16|i32"),
        ("scatter_rows", {"dtype": "f16", "sums": "own", "n": 7}, "n=7: memory adds f16 in pairs"),
        ("scatter_rows", {"dtype": "f16", "sums": "own", "n": 8, "stride": 9}, "stride=9: memory adds f16 in pairs"),
        ("scatter_rows", {"sums": "f32"}, "sums=f32: op=add of f32 leaves no choice; expected nothing"),
        ("scatter_rows", {"dtype": "f16", "op": "store", "sums": "own"}, "sums=own: op=store of f16 leaves no choice"),
        ("gather_rows", {"n": 8, "stride": 7}, "stride=7: a row has 8 elements"),
        ("segment_sum", {"dtype": "i8"}, "dtype=i8"),
        ("embedding_bag", {"dtype": "f16", "out": "bf16"}, "out=bf16: sums of f16 are f16 or f32; expected one"),
        ("embedding_bag", {"n": 8, "stride": 7}, "stride=7: a row has 8 elements"),
    ],
)
def test_requests_that_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        find_operator(name).problem(**keys)
    assert words in str(error.value)
