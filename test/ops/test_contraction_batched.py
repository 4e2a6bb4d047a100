"""Contractions of tensors with several dimensions in each group, at any strides, against their references."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from operator_runner import CHIPS, agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.tensors.arrays import packed
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling.workbench import Workbench
from ckmlir.targets import get_target

OPERATOR = find_operator("batched_contraction")
GFX942 = get_target("gfx942")
GAPS = "99999x4999x135x67x1"
"""Strides of A and B with gaps that let no dimensions fold."""


def moved(*lengths: int, order: str) -> tuple[int, ...]:
    """Strides of a tensor of these lengths whose dimensions lie in another order, such as "201"; packed."""
    places = [int(digit, 16) for digit in order]
    strides = dict(zip(places, packed([lengths[place] for place in places]), strict=True))
    return tuple(strides[place] for place in range(len(lengths)))


CASES: tuple[dict[str, Any], ...] = (
    {"g": 2, "m": 100, "n": 72, "k": 40},  # one dimension each: a product of matrices
    {"g": 2, "m": 1, "n": 70, "k": 40},  # one row: there is no next one
    {"g": 1, "m": 70, "n": "1x1", "k": 40},
    {"g": "2x3", "m": "3x5", "n": "7x9", "k": "5x8"},  # all fold
    {"g": 2, "m": "9x16", "n": "5x24", "k": "3x32", "a_strides": moved(2, 9, 16, 3, 32, order="01324")},
    {"g": 2, "m": "9x16", "n": "5x24", "k": "3x32", "b_strides": moved(2, 5, 24, 3, 32, order="32104"), "dtype": "i8"},
    {"g": 3, "m": "8x16", "n": "4x32", "k": "4x16", "c_strides": moved(3, 8, 16, 4, 32, order="03142")},
    {"g": 2, "m": "4x16", "n": 24, "k": 40, "a_strides": moved(2, 4, 16, 40, order="0312")},  # m follows itself
    {"g": 2, "m": 37, "n": "4x16", "k": "3x7", "b_strides": moved(2, 4, 16, 3, 7, order="04312")},
    {
        "g": "2x1x2x3",
        "m": "3x1x2x3",
        "n": "2x2x3x2",
        "k": "2x3x2x5",
        "dtype": "bf16",
        "op": "gelu(acc + d0) * d1",
        "a_strides": moved(2, 1, 2, 3, 3, 1, 2, 3, 2, 3, 2, 5, order="b48a60371529"),
        "d0_strides": moved(2, 1, 2, 3, 3, 1, 2, 3, 2, 2, 3, 2, order="b49a60371528"),
        "d": "f32,f16",
    },
    {
        "g": "3x2",
        "m": 65,
        "n": 66,
        "k": "2x33",
        "a_strides": moved(3, 2, 65, 2, 33, order="10234"),
        "out": "f32",
        "op": "alpha * acc - d0",
        "d": "i8",
        "alpha": 0.5,
    },
    {"g": 2, "m": 64, "n": 64, "k": "2x32", "a_strides": (9000, 140, 66, 2), "b_strides": (8192, 128, 64, 1)},
)


@pytest.mark.one_in(64)
@pytest.mark.parametrize(("chip", "number"), list(itertools.product(CHIPS, range(len(CASES)))))
def test_dimensions_and_strides(chip: str, number: int) -> None:
    """Dimensions that fold, and that do not; each array with its neighbours in any group, or nowhere."""
    agree("batched_contraction", chip, **CASES[number])


@pytest.mark.full
@pytest.mark.parametrize("ranks", list(itertools.product((1, 2, 3), repeat=4)))
def test_ranks(ranks: tuple[int, int, int, int]) -> None:
    """One to three dimensions in each group, those of A and B from the last to the first in memory."""
    sizes = ((2, 1, 2), (5, 3, 4), (4, 2, 7), (9, 2, 3))
    g, m, n, k = (length[:rank] for length, rank in zip(sizes, ranks, strict=True))
    strides = {
        f"{name}_strides": tuple(reversed(packed(tuple(reversed((*g, *rows, *k))))))
        for name, rows in (("a", m), ("b", n))
    }
    agree("batched_contraction", CHIPS[sum(ranks) % 3], g=g, m=m, n=n, k=k, **strides)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"m": 0}, {"n": "2x0"}, {"g": "0x2"}, {"g": 0, "n": 100}, {"k": 0}, {"k": "0x3"}, {"g": 1, "m": 1, "n": 1, "k": 1},
    {"m": "1x1", "n": "1x1x1", "k": "1x5x1"},
])  # fmt: skip
def test_sizes_at_the_ends(keys: dict[str, Any]) -> None:
    """Nothing to compute, sums of nothing, lengths of 1."""
    agree("batched_contraction", "gfx942", **{"g": 2, "m": "2x3", "n": "3x2", "k": "2x4", **keys})


def test_reference_by_brute_force() -> None:
    """Every element as its definition says."""
    problem = OPERATOR.problem(
        g=(2, 3), m=(2, 5), n=(4, 3), k=(3, 2), op="acc * alpha + d0", alpha=2.0, out="f32",
        a_strides=moved(2, 3, 2, 5, 3, 2, order="540312"),
    )  # fmt: skip
    arrays = OPERATOR.inputs(problem, GFX942)
    a, b, d0 = (arrays[name].astype(np.float64) for name in ("a", "b", "d0"))
    assert (a.shape, b.shape, d0.shape) == ((2, 3, 2, 5, 3, 2), (2, 3, 4, 3, 3, 2), (2, 3, 2, 5, 4, 3))
    wanted = np.einsum("ghmpkl,ghnqkl->ghmpnq", a, b) * 2 + d0
    np.testing.assert_allclose(OPERATOR.reference(problem, arrays)["c"], wanted, rtol=1e-12)


def test_what_folds_is_one_dimension() -> None:
    """The kernel of packed tensors knows no more than rows and columns."""
    spec = OPERATOR.spec(OPERATOR.problem(g="2x3", m="4x8", n="8x8", k="2x32"), GFX942)
    assert spec.merged == ("s.1", "s.1", "s.1") and spec.batch == 1 and spec.align == (8, 8, 8)
    strides = moved(2, 4, 8, 2, 32, order="01324")
    spec = OPERATOR.spec(OPERATOR.problem(g=2, m="4x8", n="8x8", k="2x32", a_strides=strides), GFX942)
    assert spec.merged == ("ss.s1", "s.s1", "ss.1") and spec.align == (8, 8, 8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_checkers_find_nothing(chip: str) -> None:
    """Merged dimensions of ragged sizes: the schedule is proved, no register spilled, and all checkers of the simulator
    agree.
    """
    target = get_target(chip)
    problem = OPERATOR.problem(**CASES[3])
    spec = OPERATOR.spec(problem, target)
    bench = Workbench.of(OPERATOR, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    kernel = compile_kernel(OPERATOR, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    arrays = OPERATOR.inputs(problem, target)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(OPERATOR, problem, arrays, result.outputs, target))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx90a", {"a_strides": GAPS}),
    ("gfx942", {"a_strides": GAPS, "b_strides": GAPS}),
    ("gfx950", {"b_strides": GAPS, "dtype": "i8"}),
    ("gfx942", {"n": "16x8x127", "k": "272x0"}),
])  # fmt: skip
def test_single_elements_of_merged_rows_and_columns_spill_nothing(chip: str, keys: dict[str, Any]) -> None:
    """A wave loads a row with 64 lanes, and each of its loads has another row, whose place is divided for."""
    target = get_target(chip)
    problem = OPERATOR.problem(**{"g": 1, "m": "4x33", "n": "4x33", "k": "2x65"} | keys)
    kernel = compile_kernel(OPERATOR, OPERATOR.spec(problem, target), target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
    arrays = OPERATOR.inputs(problem, target)
    result = run_operator(OPERATOR, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(OPERATOR, problem, arrays, result.outputs, target))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_no_listed_kernel_spills(chip: str) -> None:
    target = get_target(chip)
    specs = OPERATOR.kernels(target)
    assert any("ss." in word for spec in specs for word in spec.merged)
    for spec in specs:
        kernel = compile_kernel(OPERATOR, spec, target)
        found = kernel.code_object.kernel(kernel.kernel_name).metadata
        counts = (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size)
        assert counts == (0, 0, 0), spec.name


@pytest.mark.parametrize(("keys", "words"), [
    ({"a_strides": "1x1x1"}, "a_strides=1x1x1: 3 strides; expected one for each of 5 dimensions"),
    ({"m": 4, "k": 4, "a_strides": "1x1x1"}, "would share a place"),
    ({"d0_strides": "4"}, "d0_strides: op=acc has no D tensor d0"),
    ({"m": "2x2x2x2x2"}, "expected 1 to 4 whole numbers"),
    ({"m": "65536x65536", "n": 0, "k": 0}, "m=65536x65536: kernels count to 2147483647"),
    ({"g": 1, "m": 40000, "n": 40000, "k": 0}, "array c: the elements of one product span 3200000000 bytes"),
    ({"op": "d0"}, "it does not depend on the product"),
    ({"dtype": "i8", "out": "f16"}, "dtype=i8 gives i32"),
    ({"layout": "RRR"}, "layout"),
    ({"split_k": "2"}, "split_k"),
    # Strides of what has no elements are those of packed tensors, as far as kernels take them.
    ({"k": "0x8388608"}, "a_strides=2147483648x536870912x8388608x8388608x1: a stride of 2147483648; kernels take at"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], words: str) -> None:
    """Each is one error that says what is wrong."""
    with pytest.raises(RequestError, match=words):
        OPERATOR.problem(**keys)


def test_a_kernel_serves_other_sizes_and_refuses_other_arrangements() -> None:
    """What a specification covers."""
    keys: dict[str, Any] = {"g": 2, "m": "9x16", "n": "5x24", "k": "3x32"}
    spec = OPERATOR.spec(OPERATOR.problem(**keys, a_strides=moved(2, 9, 16, 3, 32, order="01324")), GFX942)
    larger = OPERATOR.problem(g=7, m="3x16", n="5x48", k="5x8", a_strides=moved(7, 3, 16, 5, 8, order="01324"))
    assert not OPERATOR.mismatches(larger, spec, GFX942)
    narrow = OPERATOR.problem(g=2, m="9x16", n="5x24", k="3x31", a_strides=moved(2, 9, 16, 3, 31, order="01324"))
    for other in (OPERATOR.problem(**keys), narrow):
        assert OPERATOR.mismatches(other, spec, GFX942)
