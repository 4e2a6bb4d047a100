"""The kernels of gradients of normalisations as tile code: dx of rows, and sums over rows of columns."""

from __future__ import annotations

from collections.abc import Mapping

from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, Tile, cast, loop, reduce_sum, stage, store, view, workgroup_id
from ckmlir.ops.normalization.norm_bwd import NormBwdSpec, parts_of
from ckmlir.ops.rows.block_kernel import Column, RowBlock, row_kernel
from ckmlir.targets import Target

SCHEDULE = "schedule norm_bwd 1; ahead load {}"
"""The next rows are on their way while those before are worked on, unless narrow loads take a register each."""


def build(spec: NormBwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""

    def body(block: RowBlock) -> None:
        if spec.work == "rows":
            _Rows(block, spec).store_dx()
        else:
            _part(block, spec)

    return row_kernel(spec, target, body, counts=() if spec.work == "rows" else ("part",))


class _Rows:
    """The gradients of some rows."""

    def __init__(
        self, block: RowBlock, spec: NormBwdSpec, given: Mapping[str, Tile] | None = None, gamma: Tile | None = None
    ) -> None:
        """`given` are parts of rows that are loaded already, with the statistics, and gamma."""
        self.block, self.spec, self._gamma = block, spec, gamma
        self._given = given or {name: block.row_values(name) for name in spec.statistics}
        self.statistics = [self._given[name] for name in spec.statistics]
        self.xhat, self.g = block.held(self._normalized), block.held(self._upstream)

    def read(self, name: str, column: Column) -> Tile:
        """A part of an array's rows, in f32."""
        return cast(self._given[name], "f32") if name in self._given else self.block.load(name, column)

    def _normalized(self, column: Column) -> Tile:
        x, inverse = self.read("x", column), self.statistics[-1][:, None]
        found: Tile = ((x - self.statistics[0][:, None]) if self.spec.centred else x) * inverse
        return found

    def _upstream(self, column: Column) -> Tile:
        gamma = self.block.channels("gamma", column) if self._gamma is None else self._gamma
        found: Tile = self.read("dy", column) * gamma
        return found

    def store_dx(self) -> None:
        """dx of whole rows: both means together, then the rows once more where they stream."""
        block, spec = self.block, self.spec

        def terms(column: Column) -> list[Tile]:
            g = self.g(column)  # zero behind the end of rows, as dy is
            product = block.inside(g * self.xhat(column), column, 0.0)
            return [product, g] if spec.centred else [product]

        zeros = [0.0] * len(spec.statistics)
        totals = block.fold(terms, zeros, lambda a, b: [one + other for one, other in zip(a, b, strict=True)])
        means = [(total * block.inverse_n)[:, None] for total in totals]

        def part(column: Column) -> None:
            g = self.g(column) - means[1] if spec.centred else self.g(column)
            dx = (g - self.xhat(column) * means[0]) * self.statistics[-1][:, None]
            if spec.add:
                dx = dx + self.read("dsum", column)
            block.store(dx, "dx", column)

        block.each(part)

    def summands(self, column: Column) -> dict[str, Tile]:
        """What rows add to the gradients of columns."""
        dy = self.read("dy", column)
        return {name: dy * self.xhat(column) if name == "dgamma" else dy for name in self.spec.summands}


def _part(block: RowBlock, spec: NormBwdSpec) -> None:
    """The rows of a workgroup's part: their dx, and sums of all or, where rows stream, of some columns."""
    given, whole = block.given, spec.work == "all"
    begin = workgroup_id(0) * given.part.multiple_of(spec.rows)
    column = workgroup_id(1) * spec.length if spec.streamed else 0
    count = (block.m - begin).minimum(given.part)
    gamma = block.channels("gamma", 0) if whole else None
    start = [block.full(0.0) for _ in spec.summands]
    schedule = Schedule.parse(SCHEDULE.format(min(spec.vector // 4, 1)))
    with loop(0, count, spec.rows, carry=start, schedule=schedule) as step:
        rows = block.at(begin + step.index)
        with stage("load"):
            loaded = {name: rows.loaded(name, column) for name in spec.images}
            loaded |= {name: rows.row_values(name) for name in spec.statistics}
        with stage("math"):
            found = _Rows(rows, spec, loaded, gamma)
            if whole:
                found.store_dx()
            summands = found.summands(column).values()
            step.carry(*(a + b for a, b in zip(step.carried, summands, strict=True)))
    for name, total in zip(spec.summands, step.results, strict=True):
        n = block.n
        pointer = getattr(given, parts_of(name)).offset(workgroup_id(0) * n)
        sums = view(pointer, (n,), (1,))
        sums = sums.pad(spec.length) if spec.pad_n else sums
        store(reduce_sum(total, 0), sums.window((spec.length,), (column,)))
