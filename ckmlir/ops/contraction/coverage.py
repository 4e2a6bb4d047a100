"""Why a kernel of a product does not compute a problem, as far as parts of K and arrays beside A and B decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.contraction.problem import REDUCTIONS, Problem
from ckmlir.ops.spec import Reason


def other_parts(problem: Problem, spec: ContractionSpec) -> Iterator[Reason]:
    """Parts that the kernel has not, or has, against the request's own words."""
    if 0 in (problem.m, problem.n):
        return
    if problem.split_k is not None and (problem.split_k > 1) != (spec.sink != "store"):
        what = "computes whole sums" if spec.sink == "store" else "computes parts of sums"
        yield Reason("sink", spec.sink, f"the kernel {what}", f"expected split_k={2 if problem.split_k == 1 else 1}")
    if problem.longest_part is not None and spec.sink == "store":
        what = "the kernel computes whole sums, and takes more than it addresses"
        yield Reason("sink", spec.sink, what, "expected one of partial, atomic")
    wanted = REDUCTIONS.get(problem.reduction or "", spec.sink)
    if spec.sink not in ("store", wanted):
        yield Reason("sink", spec.sink, "parts are combined in another way", f"expected {wanted}")


def other_sides(problem: Problem, spec: ContractionSpec) -> Iterator[Reason]:
    """D tensors, and arrays that A and B are made of, that the kernel takes for something else."""
    if not covered(problem.described_side(), spec.side):
        expected = f"expected {problem.described_side()}"
        yield Reason("side", spec.side, "the kernel takes other D tensors", expected)
    scales = tuple(one.described for one in problem.scaling)
    if not covered(scales, spec.scaling):
        yield Reason("scaling", spec.scaling, "the kernel takes other scales", f"expected {scales}")
    if not covered(problem.described_sources(), spec.sources):
        expected = f"expected {problem.described_sources()}"
        yield Reason("sources", spec.sources, "the kernel makes A and B of other arrays", expected)


def covered(given: Sequence[str], known: Sequence[str]) -> bool:
    """Whether arrays are as a kernel knows them, or better aligned; each text ends with what it is aligned to."""
    if given == known:
        return True
    pairs = [(one.rpartition(":"), other.rpartition(":")) for one, other in zip(given, known, strict=False)]
    return len(given) == len(known) and all(
        one[0] == other[0] and int(one[2]) % int(other[2]) == 0 for one, other in pairs
    )
