"""The moe_sorting kernel: a workgroup finds where experts begin, places entries, and names units and padding.

Counts and places by expert lie over all threads of the workgroup; LDS hands them to the entries that ask for them by
their expert's number.
"""

from collections.abc import Callable
from typing import Any

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import (
    Kernel,
    Scalar,
    Tile,
    View,
    Window,
    coordinates,
    full,
    i32,
    kernel,
    load,
    loop,
    maximum,
    ptr,
    reduce_max,
    reduce_sum,
    scan_max,
    scan_sum,
    scatter,
    splat_like,
    store,
    stretch,
    to_lds,
    uniform,
    view,
    when,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.indexed.histogram_kernel import bins_line, counted
from ckmlir.ops.moe.moe_sorting import FILLED, PART, WAVES, MoeSortingSpec
from ckmlir.ops.moe.routing import TOKEN_BITS
from ckmlir.targets import Target

LINE = Distribution.parse(f"d0: {WAVES}@wave 64@lane")
"""A number for each thread."""
AT_A_TIME = 16
"""Entries that an entry is compared with at a time: a row of the part's in LDS."""
ROWS = PART // AT_A_TIME
THREADS = Distribution.parse(f"d0: {WAVES}@wave {64 // AT_A_TIME}@lane, d1: {AT_A_TIME}@lane")
ROW = Distribution.parse(f"r: {WAVES}@wave 64@lane, d0: 1, d1: {AT_A_TIME}@y0")
PAIRS = Distribution.parse(f"d0: {WAVES}@wave 64@lane, d1: {AT_A_TIME}@y0")
NOWHERE = -(1 << 30)


def build(spec: MoeSortingSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    names = ["topk_ids", "weights", *(["mask"] if spec.local else [])]
    names += ["before", "counts"] if spec.phases == "many" else []
    names += ["sorted_ids", "sorted_weights", "expert_ids", "totals", *(["entry_ids"] if spec.entry_ids else [])]
    arguments: dict[str, Any] = {name: ptr("f32" if "weights" in name else "i32") for name in names}
    if spec.buffer:
        arguments["buffer"] = ptr(spec.buffer)
    arguments.update(dict.fromkeys(("t", "k", *(["most"] if spec.local else []), "sorters", "filled"), i32))

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def moe_sorting(given: Any) -> None:
        number = workgroup_id(0)
        with when(number < given.sorters) as sorts:
            _Sorter(spec, given, number).run()
        if spec.buffer:
            with sorts.otherwise():
                _fill(spec.buffer, given, number - given.sorters)

    return moe_sorting


class _Sorter:
    """What one workgroup does; `counts`, `start` and so on are tiles by expert."""

    def __init__(self, spec: MoeSortingSpec, given: Any, number: Scalar) -> None:
        self.spec, self.given, self.number = spec, given, number
        self.entries = given.t * given.k
        self.line = bins_line(spec.experts, WAVES)
        self.length = self.line.lengths[0]
        self.ids = view(given.topk_ids, (self.entries,), (1,)).pad(PART)
        self.source = SOURCES[spec.phases](self)
        counts = self.source.counts()
        self.expert = coordinates(counts, 0)
        self.local, enabled = self.expert, self.expert < spec.experts
        if spec.local:
            enabled = load(self.by_expert(given.mask), self.line).differs(0)
            self.local = scan_sum(where(enabled, splat_like(counts, 1, "i32"), 0), 0, exclusive=True)
            enabled = enabled & (self.local < given.most)
        self.counts = where(enabled, counts, 0)
        self.padded = (self.counts + (spec.unit - 1)) // spec.unit * spec.unit
        self.start = scan_sum(self.padded, 0, exclusive=True)
        self.total = self.only(reduce_sum, self.padded)
        # Without entries an expert begins nowhere: `enabled` would be held in scalar registers up to here.
        self.base = where(self.padded.equals(0), NOWHERE, self.start)
        self.sorted_ids = view(given.sorted_ids, (self.total,), (1,))
        self.sorted_weights = view(given.sorted_weights, (self.total,), (1,))

    def by_expert(self, pointer: Any) -> Window:
        """A number for each expert in memory, zeros behind the last."""
        return view(pointer, (self.spec.experts,), (1,)).pad(self.length).window((self.length,), (0,))

    def only(self, fold: Callable[[Tile, int], Tile], tile: Tile) -> Scalar:
        """A number for each expert folded to a scalar."""
        return uniform(fold(stretch(tile, 0, 1, self.line.expand(0, 1)), 1))

    def run(self) -> None:
        """Everything."""
        self.source.each_part(self.place)
        self.source.each_units(self.name_units)
        self.pad()
        with when(self.number.equals(0)):
            first = full((64,), 0, "i32", Distribution.parse(f"r: {WAVES}@wave, d0: 64@lane"))
            both = where(coordinates(first, 0).equals(0), first + self.total, self.given.t)
            store(both, view(self.given.totals, (2,), (1,)).pad(64).window((64,), (0,)))

    def place(self, index: Scalar, base: Tile) -> Tile:
        """Place a part of the entries, from `index` on; which of them count, by expert."""
        expert = load(self.ids.window((PART,), (index,)), LINE)
        entry = coordinates(expert, 0) + index
        counts = (entry < self.entries) & expert.below(self.spec.experts)
        wanted = where(counts, expert, -1)
        place = where(counts, to_lds(base).gather(wanted) + self.rank(expert, index), -1)
        word = entry // self.given.k | (entry % self.given.k) << TOKEN_BITS
        weights = view(self.given.weights, (self.entries,), (1,)).pad(PART)
        scatter(word, self.sorted_ids.window((PART,), (0,)), place, 0)
        scatter(load(weights.window((PART,), (index,)), LINE), self.sorted_weights.window((PART,), (0,)), place, 0)
        if self.spec.entry_ids:
            numbers = view(self.given.entry_ids, (self.entries,), (1,)).pad(PART)
            store(where(place < 0, -1, entry), numbers.window((PART,), (index,)))
        return wanted

    def rank(self, expert: Tile, index: Scalar) -> Tile:
        """How many entries of the part come before each entry of it with its expert."""
        by_rows = self.ids.unmerge(0, ((self.entries + (PART - 1)) // PART * ROWS, AT_A_TIME))
        held = to_lds(load(by_rows.window((ROWS, AT_A_TIME), (index // AT_A_TIME, 0)), THREADS))
        with loop(0, ROWS, 1, carry=[splat_like(expert, 0, "i32")]) as step:
            (before,) = step.carried
            row = held.gather(full((1,), step.index, "i32", ROW.along(0)), 0, ROW)
            other = stretch(reduce_sum(row, 0), 0, PART, PAIRS)
            same = where(other.equals(stretch(expert, 1, AT_A_TIME, PAIRS)), splat_like(other, 1, "i32"), 0)
            earlier = coordinates(other, 1) < coordinates(other, 0) - step.index * AT_A_TIME
            step.carry(before + reduce_sum(where(earlier, same, 0), 1))
        found: Tile = step.results[0]
        return found

    def name_units(self, first: Scalar) -> None:
        """The experts of PART units: each is noted at its first unit, and holds until the next one's."""
        spec, units = self.spec, self.total // self.spec.unit
        begins, some = self.start // spec.unit, self.counts > 0
        earlier = self.only(reduce_max, where(some & (begins < first + 1), self.expert, -1))
        marks = to_lds(full((PART,), -1, "i32", LINE))
        marks.scatter(self.expert, where(some & (begins > first), begins - first, -1))
        expert = maximum(scan_max(marks.read(LINE), 0), earlier)
        if spec.local:
            expert = to_lds(self.local).gather(expert)
        store(expert, view(self.given.expert_ids, (units,), (1,)).pad(PART).window((PART,), (first,)))

    def pad(self) -> None:
        """The places behind each expert's entries; workgroups take turns at the first, the second, …"""
        end, missing = self.start + self.counts, self.padded - self.counts
        word = self.given.t | self.given.k << TOKEN_BITS
        with loop(self.number, self.only(reduce_max, missing), self.given.sorters) as step:
            place = where(missing > step.index, end + step.index, -1)
            window = self.sorted_ids.window((self.length,), (0,))
            scatter(splat_like(place, 0, "i32") + word, window, place, 0)
            window = self.sorted_weights.window((self.length,), (0,))
            scatter(splat_like(place, 0.0, "f32"), window, place, 0)


class _Alone:
    """One workgroup counts all entries, and then places part after part."""

    def __init__(self, sorter: _Sorter) -> None:
        self.sorter = sorter

    def counts(self) -> Tile:
        sorter = self.sorter
        return counted(sorter.given.topk_ids, 0, sorter.entries, sorter.spec.experts, WAVES)

    def each_part(self, place: Callable[[Scalar, Tile], Tile]) -> None:
        sorter = self.sorter
        with loop(0, sorter.entries, PART, carry=[sorter.base]) as step:
            (base,) = step.carried
            expert = place(step.index, base)
            taken = to_lds(zeros((sorter.length,), "i32", sorter.line))
            taken.scatter_add(splat_like(expert, 1, "i32"), expert)
            step.carry(base + taken.read(sorter.line))

    def each_units(self, name_units: Callable[[Scalar], None]) -> None:
        with loop(0, self.sorter.total // self.sorter.spec.unit, PART) as step:
            name_units(step.index)


class _Phases:
    """Each workgroup places one part; other kernels have counted."""

    def __init__(self, sorter: _Sorter) -> None:
        self.sorter = sorter

    def counts(self) -> Tile:
        return load(self.sorter.by_expert(self.sorter.given.counts), self.sorter.line)

    def each_part(self, place: Callable[[Scalar, Tile], Tile]) -> None:
        sorter = self.sorter
        with when(sorter.number * PART < sorter.entries):
            own = sorter.given.before.offset(sorter.number * sorter.spec.experts)
            place(sorter.number * PART, sorter.base + load(sorter.by_expert(own), sorter.line))

    def each_units(self, name_units: Callable[[Scalar], None]) -> None:
        name_units(self.sorter.number * PART)


SOURCES: dict[str, Callable[[_Sorter], Any]] = {"one": _Alone, "many": _Phases}
"""By `phases`: where counts come from, and which parts a workgroup places."""


def _fill(dtype: str, given: Any, number: Scalar) -> None:
    """A workgroup's share of the buffer."""
    size = find_dtype(dtype).bytes
    vector, share = 16 // size, FILLED // size
    lies = Distribution.parse(f"d0: {WAVES}@wave 64@lane {vector}@y0")
    (length,) = lies.lengths
    whole: View = view(given.buffer, (given.filled,), (1,)).pad(length)
    with loop(0, share, length) as step:
        store(zeros((length,), dtype, lies), whole.window((length,), (number * share + step.index,)))
