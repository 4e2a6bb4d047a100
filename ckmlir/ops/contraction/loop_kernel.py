"""The loop over K: the only one of the contraction family."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Scalar, Tile, loop, stage, to_lds
from ckmlir.lang.carried import Carried
from ckmlir.lang.views import Amount
from ckmlir.ops.contraction.accumulation_kernel import Accumulation
from ckmlir.records import replace


class Operand(Protocol):
    """A or a matrix B, for the block that a workgroup computes."""

    @property
    def name(self) -> str:
        """What schedules and reports call it in LDS."""

    def load(self, k: Scalar) -> Any:
        """Its tile (rows, block's depth) at k, as memory holds it; or several tiles that it is made of."""

    def prepared(self, loaded: Any, k: Scalar) -> Tile:
        """What goes to LDS of what was loaded at k."""


def contract(
    accumulation: Accumulation,
    a: Operand,
    matrices: Sequence[Operand],
    begin: Amount,
    end: Scalar,
    schedule: Schedule,
    begun: Sequence[Carried] = (),
) -> list[Tile]:
    """A · Bᵀ for every matrix B, summed over [begin, end) of K: one block of accumulators each.

    Where LDS keeps something of stretches of K, which begin at 0, that is put there before their steps. Where the first
    step has `begun` (`first_loads`), each loads for the one behind it, and the schedule has them run ahead an iteration
    less; then nothing is kept.
    """
    start, length = accumulation.start(), accumulation.stretch
    if not length:
        return _steps(accumulation, a, matrices, (begin, end), schedule, start, begun)
    with loop(0, end, length, carry=start) as stretch:
        accumulation.keep(stretch.index)
        left = (end - stretch.index).minimum(length)
        stretch.carry(*_steps(accumulation, a, matrices, (0, left), schedule, stretch.carried, behind=stretch.index))
    results: list[Tile] = stretch.results
    return results


def _steps(
    accumulation: Accumulation,
    a: Operand,
    matrices: Sequence[Operand],
    between: tuple[Amount, Amount],
    schedule: Schedule,
    start: Sequence[Tile],
    begun: Sequence[Carried] = (),
    *,
    behind: Scalar | None = None,
) -> list[Tile]:
    """The steps of `contract` from sums on; `between` is counted from `behind` on, if that is given.

    Stages: load, to_lds, from_lds, math. Operands lie in LDS under their names.
    """
    product, waves, (bm, bn, bk) = accumulation.product, accumulation.waves, accumulation.block
    begin, end = between
    last = begin + (end - begin - 1) // bk * bk if begun else end
    schedule = _one_later(schedule) if begun else schedule
    with loop(begin, end, bk, carry=[*start, *begun], schedule=schedule) as step:
        sums, there = step.carried[: len(start)], step.carried[len(start) :]
        k = step.index if behind is None else step.index + behind
        with stage("load"):
            found = _loads(accumulation, a, matrices, (k + bk).minimum(last) if begun else k)
        loaded, scales = _rebuilt(found, iter(there)) if begun else found
        with stage("to_lds"):
            held = [
                to_lds(operand.prepared(tile, k), operand.name)
                for operand, tile in zip((a, *matrices), loaded, strict=True)
            ]
        with stage("from_lds"):
            rows = held[0].read(product.a_over(waves, bm, bk))
            columns = [one.read(product.b_over(waves, bn, bk)) for one in held[1:]]
            scales = accumulation.read(scales)
        with stage("math"):
            totals = accumulation.add(sums, rows, columns, scales)
            step.carry(*totals, *(_leaves(found) if begun else ()))
    results: list[Tile] = step.results[: len(start)]
    return results


def is_early(schedule: Schedule) -> bool:
    """Whether the loads of the first step can be on their way before the loop: they are in registers until they go to
    LDS, and those of a step run ahead of the writes to LDS, by one less where the loop carries what it loads.
    """
    aheads = [ahead for name, ahead in schedule.ahead if name.partition(".")[0] == "load"]
    through = {schedule.path, *dict(schedule.paths).values()} == {"through"}
    return through and bool(aheads) and min(aheads) > schedule.ahead_of("to_lds")


def first_loads(accumulation: Accumulation, a: Operand, matrices: Sequence[Operand], begin: Scalar) -> list[Carried]:
    """What the first step of `contract` loads, for callers that load it ahead of the call."""
    return _leaves(_loads(accumulation, a, matrices, begin))


def _loads(accumulation: Accumulation, a: Operand, matrices: Sequence[Operand], k: Scalar) -> tuple[Any, Any]:
    """What a step at k loads of operands, and beside them."""
    return [operand.load(k) for operand in (a, *matrices)], accumulation.load(k)


def _one_later(schedule: Schedule) -> Schedule:
    """The schedule of a loop that carries what a step loads to the next one."""
    ahead = ((name, number - (name.partition(".")[0] == "load")) for name, number in schedule.ahead)
    return replace(schedule, ahead=tuple((name, number) for name, number in ahead if number))


def _leaves(tree: Any) -> list[Carried]:
    """What a loop can carry of values in sequences and mappings; known numbers are not part of it."""
    if isinstance(tree, Carried):
        return [tree]
    if isinstance(tree, (Sequence, Mapping)):
        inside = tree.values() if isinstance(tree, Mapping) else tree
        return [leaf for one in inside for leaf in _leaves(one)]
    return []


def _rebuilt(like: Any, values: Iterator[Carried]) -> Any:
    """Values in the sequences and mappings that `_leaves` took them from."""
    if isinstance(like, Carried):
        return next(values)
    if isinstance(like, Mapping):
        return {name: _rebuilt(one, values) for name, one in like.items()}
    return [_rebuilt(one, values) for one in like] if isinstance(like, Sequence) else like
