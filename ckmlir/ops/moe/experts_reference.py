"""Products of experts' matrices in NumPy, expert by expert, and how far kernels may be from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.contraction.reference import matrices
from ckmlir.ops.contraction.scaling import of_matrices
from ckmlir.ops.contraction.sources import moved_sums
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.gemm.gemm_quant import scaled
from ckmlir.ops.moe.experts_problem import OWN, ExpertsProblem
from ckmlir.ops.moe.experts_scales import operator_of
from ckmlir.ops.moe.experts_weights import as_multiplied
from ckmlir.ops.moe.moe_sorting import Problem as Sorting
from ckmlir.ops.moe.moe_sorting import every_expert
from ckmlir.ops.moe.routing import rows_of_words
from ckmlir.ops.tensors.rounding import output_tolerance
from ckmlir.targets import Target


def sorting(problem: ExpertsProblem) -> Sorting:
    """The request of `moe_sorting` that lists a problem's entries."""
    return every_expert(problem.t, problem.e, problem.topk, problem.unit, entry_ids=problem.entry_ids)


class Share(Struct, frozen=True):
    """What one expert computes: places of the sorted list, as a product with arrays of its own."""

    places: Array
    product: Problem
    arrays: dict[str, Array]


def result(problem: ExpertsProblem, arrays: Mapping[str, Array]) -> Array:
    """C in float64 before it is rounded, exactly in i32; what nothing is promised of is zero."""
    whole = np.zeros(_shape(problem), np.int32 if problem.product.out == "i32" else np.float64)
    for share in shares(problem, arrays):
        _put(problem, arrays, share, operator_of(share.product).reference(share.product, share.arrays)["c"], whole)
    return whole


def expected(problem: ExpertsProblem, arrays: Mapping[str, Array], target: Target) -> Array:
    """The same on a chip."""
    whole = np.zeros(_shape(problem), np.int32 if problem.product.out == "i32" else np.float64)
    for share in shares(problem, arrays):
        own = operator_of(share.product).expected(share.product, share.arrays, target)["c"]
        _put(problem, arrays, share, own, whole)
    return whole


def tolerance(
    problem: ExpertsProblem,
    arrays: Mapping[str, Array],
    reference: Array,
    target: Target,
    a_error: Array | None = None,
) -> Tolerance:
    """That of `gemm` for each expert's rows; of sums see `_of_sums`. Of rows that the list leaves out nothing is
    promised where they are not sums. `a_error` is how far the elements of A may be off, before their scales of
    groups, infinitely where nothing is known; then there is one matrix B.
    """
    made = problem.by_entry if problem.by_workspace else problem
    summed = problem.reduction is not None
    shape = _shape(problem)
    error, size = np.zeros(shape), np.zeros(shape)
    free = np.full(shape, not summed)
    relative, reason = 0.0, "nothing to compare"
    for share in shares(made, arrays):
        own = operator_of(share.product).reference(share.product, share.arrays)["c"]
        moved = 0.0 if a_error is None else _moved(problem, arrays, share, a_error, target)
        found = operator_of(share.product)._tolerance(share.product, share.arrays, own, target, moved)
        sizes = np.where(np.isfinite(own), np.abs(own), 0.0).astype(np.float64)
        unsure = np.broadcast_to(found.unspecified, own.shape)
        relative, reason = max(relative, found.rtol), found.reason
        own_error = found.atol + found.rtol * sizes if summed else found.atol
        _put(problem, arrays, share, np.broadcast_to(own_error, own.shape), error)
        _put(problem, arrays, share, sizes, size)
        _put(problem, arrays, share, unsure, free)
    if not summed:
        return Tolerance(relative, error, f"{reason}, expert by expert", free)
    return _of_sums(problem, reference, error, size, free, target)


def _of_sums(
    problem: ExpertsProblem, reference: Array, error: Array, size: Array, free: Array, target: Target
) -> Tolerance:
    """Entries of a token are off by `error` together, and their magnitudes add up to `size`. Adding them takes a
    rounding each, of numbers no larger than that: in f32 through a workspace, rounded once more; in C's own type where
    memory adds. Nothing is promised where they may add up to more than the type holds that entries are stored or added
    in.
    """
    out = find_dtype(problem.product.out)
    if out.is_integer:
        return Tolerance(0.0, 0.0, "integer arithmetic is exact")
    what = f"sums of {problem.topk} entries"
    adding = find_dtype("f32") if problem.by_workspace else out
    held = find_dtype("f32") if problem.reduction == "workspace" else out
    total = error + problem.topk * adding.unit_roundoff * (size + error)
    largest = 2.0 ** (1 - held.least_exponent) * (2.0 - 2.0**-held.mantissa)
    beyond = (size + error >= largest * (1 - 2 * problem.topk * held.unit_roundoff)) & ~np.isnan(reference)
    unsure = np.where(free | beyond, np.inf, total)
    return output_tolerance(unsure, problem.product.out, f"{what}, each added in {adding.name}", target)


def magnitudes(problem: ExpertsProblem, arrays: Mapping[str, Array]) -> Array:
    """What the magnitudes of all entries of a row of C add up to, those of infinities and NaN left out."""
    whole = np.zeros(_shape(problem))
    for share in shares(problem, arrays):
        own = np.abs(operator_of(share.product).reference(share.product, share.arrays)["c"].astype(np.float64))
        _put(problem, arrays, share, np.where(np.isfinite(own), own, 0.0), whole)
    return whole


def _moved(
    problem: ExpertsProblem, arrays: Mapping[str, Array], share: Share, a_error: Array, target: Target
) -> Array:
    """How far sums are off because the elements of A are."""
    errors = _taken(a_error, _rows(problem, problem.a_rows, arrays, share.places))
    if share.product.scaled_sums:
        own = scaled(share.product, share.arrays)
        wide, across = own["a"], own[share.product.operands[1]]
        of_a = share.product.scaling[0]
        with np.errstate(invalid="ignore"):  # nothing is known, of a scale that is 0
            errors = np.where(np.isinf(errors), np.inf, errors * of_a.over(share.arrays[of_a.name], *wide.shape))
    else:
        ((a, b),) = matrices(*as_multiplied(share.product, share.arrays, target))
        wide, across = a.astype(np.float64), b.T.astype(np.float64)
    return moved_sums(wide, errors, across, np.zeros(across.shape))


def shares(problem: ExpertsProblem, arrays: Mapping[str, Array]) -> Iterator[Share]:
    """What each expert of the list computes."""
    unit, product = problem.unit, problem.product
    taken = max(min(int(arrays["totals"][0]), problem.count("place")), 0) // unit
    of_unit = arrays["expert_ids"][:taken]
    for expert in np.unique(of_unit[(of_unit >= 0) & (of_unit < problem.e)]):
        units = np.flatnonzero(of_unit == expert)
        places = (units[:, None] * unit + np.arange(unit)).reshape(-1)
        beside = (name for one in of_matrices(product.scaling) for name in (one.name, *one.zero_names))
        of_expert = (*product.operands[1:], *beside)
        own = {name: arrays[name][expert] for name in of_expert}
        for one, kind in zip(product.side, problem.kinds, strict=True):
            if kind in OWN:
                own[one.name] = arrays[one.name][expert]
        for name, word in problem.rows.items():
            if name != "c":
                own[name] = _taken(arrays[name], _rows(problem, word, arrays, places))
        single = replace(product, m=len(places), batches=(), split_k=None, reduction=None)
        yield Share(places, single, own)


def _shape(problem: ExpertsProblem) -> tuple[int, int]:
    return problem.count(problem.c_rows), problem.product.n


def _rows(problem: ExpertsProblem, word: str, arrays: Mapping[str, Array], places: Array) -> Array:
    """Rows of an array that stand for places; -1: none."""
    if word == "place":
        return places
    return rows_of_words(arrays["sorted_ids"][places], word, problem.t, problem.topk)


def _taken(array: Array, rows: Array) -> Array:
    """Rows of an array, zeros for those that are none."""
    found: Array = np.zeros((len(rows), *array.shape[1:]), array.dtype)
    found[rows >= 0] = array[rows[rows >= 0]]
    return found


def _put(problem: ExpertsProblem, arrays: Mapping[str, Array], share: Share, values: Array, whole: Array) -> None:
    """Rows of an expert's results where they belong: sums are added up, or for conditions joined."""
    rows = _rows(problem, problem.c_rows, arrays, share.places)
    there = rows >= 0
    if problem.c_rows != "token":
        whole[rows[there]] = values[there]
    elif whole.dtype == np.bool_:
        np.logical_or.at(whole, rows[there], values[there])
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(whole, rows[there], values[there])
