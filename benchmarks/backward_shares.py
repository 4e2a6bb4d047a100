"""Attention backward by workgroups that stay, in a fixed order, against one for each block of keys with atomics.

    python benchmarks/backward_shares.py [--arch gfx942] [--mask top_left] [--case NAME] [--ranges steps blocks]

Prints for every case the model's cycles of the main kernel with atomics and with shares (of short sequences: whole
heads, unless ranges are of blocks), their ratio, and the bytes of parts that are added later: with atomics, with a slot
for each block of keys, and with shares. 128 channels; a compute unit holds one workgroup of either. --bytes prints
those alone. O and LSE are any numbers, since time does not depend on them.

What every workgroup does is known, steps and blocks. Some are simulated (`SAMPLES`, by what they do from least to most,
and those that do most), a step and a block are worth what fits these best, and all are dealt out in the order of the
launch. What workgroups read in common is counted over all of them, in rounds of as many as there are compute units: two
that read the same rows are taken to read them at the same time. So nothing depends on which ones are simulated but for
the misfit, which is printed.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.ops.attention.backward.fmha_bwd_turns import turns_of
from ckmlir.ops.attention.backward.slot_table import Piece, Shares
from ckmlir.ops.attention.backward.steps import shares_of
from ckmlir.ops.attention.orders import ORDERS
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.plan import make_plan
from ckmlir.runtime.recording import record_operator
from ckmlir.sim.timing import parameters
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.dealing import deal
from ckmlir.sim.timing.memory_shares import Sharing, device_dies, device_units, new_memory
from ckmlir.sim.timing.trace_parts import part_of
from ckmlir.targets import Target, get_target

FMHA = find_operator("fmha_bwd")
ALONE: tuple[dict[str, Any], ...] = ({}, {"deterministic": 1})
RANGES = ("steps", "blocks")
SAMPLES, LONGEST = 10, 4
RANDOM = Random(3)
SHORT = tuple(RANDOM.randint(16, 256) for _ in range(300))
CASES: dict[str, dict[str, Any]] = {
    "short": {"lengths": SHORT, "h": 8},
    "long": {"lengths": (4096, 3072, 2048, 1024), "h": 8},
    "heads": {"lengths": (2048, 1536, 1024, 512), "h": 16},
    "shared": {"lengths": (4096, 3072, 2048, 1024), "h": 8, "hk": 2},
}
"""300 sequences of 16 to 256 and 8 heads; long ones with 8 heads, with 16, and with 8 that share 2."""


class Found(NamedTuple):
    """Cycles of a launch, by the largest share of its own time that a sampled workgroup misses its fit by."""

    cycles: float
    misfit: float
    sharing: Sharing


def inputs(problem: Any, target: Target) -> dict[str, Any]:
    """Arrays of a problem, without computing attention."""
    generator, whole = np.random.default_rng(7), problem.attention
    lists = {**whole.queries.values(), **whole.keys.values()}
    return {
        one.name: lists[one.name].astype(np.int32)
        if one.name in lists
        else generator.standard_normal(one.shape, np.float32).astype(numpy_dtype(one.dtype, target))
        for one in FMHA.arrays(problem)
        if one.role == "in"
    }


def block_by_block(shares: Shares, order: str) -> Iterator[list[Piece]]:
    """What the workgroups of a launch do that has one for each block of keys, in its order."""
    values = shares.values()
    costs = shares.costs(values)
    all_blocks = [shares.blocks(costs, values, one) for one in range(shares.sequences)]
    most = max(int(one.count) for one in all_blocks)
    grid = ORDERS[order].grid(most, shares.heads, shares.sequences)
    in_order: Any = ORDERS[order].first  # the same arithmetic on integers
    axes = ORDERS[order].grid(0, 1, 2)  # which of block, head and sequence an axis is
    for index in np.ndindex(*grid[::-1]):
        place, head, number = (index[::-1][axes.index(one)] for one in range(3))
        blocks = all_blocks[number]
        place = in_order(place, 1, int(blocks.count))
        if not 0 <= place < blocks.count:
            yield []
            continue
        low, cost = int(blocks.low(place)), int(blocks.before(place + 1) - blocks.before(place))
        yield [Piece(number, head, place, None, range(low, low + cost - shares.beside))]


def head_by_head(shares: Shares) -> Iterator[list[Piece]]:
    """What the workgroups of a launch do that has one for each head, in its order."""
    values = shares.values()
    costs = shares.costs(values)
    for number in turns_of(costs).tolist():
        blocks = shares.blocks(costs, values, number)
        for head in range(shares.heads):
            places = range(int(blocks.count))
            ends = [int(blocks.before(one)) for one in range(len(places) + 1)]
            lows = [int(blocks.low(one)) for one in places]
            yield [
                Piece(number, head, one, None, range(lows[one], lows[one] + ends[one + 1] - ends[one] - shares.beside))
                for one in places
            ]


def staying_work(shares: Shares, sink: str) -> list[list[Piece]]:
    """What the workgroups of a launch do that take shares, or heads."""
    if sink == "heads":
        return list(head_by_head(shares))
    values = shares.values()
    return [list(shares.work(values, one)) for one in range(shares.workgroups)]


def sharing_of(work: Sequence[Sequence[Piece]], ratio: int, units: int, dies: int) -> Sharing:
    """What workgroups read in common that run at a time: blocks of Q and dO, and of K and V, which are four times as
    large and which `ratio` heads share."""
    wanted = on_dies = everywhere = 0

    def read(some: Iterable[Sequence[Piece]]) -> list[tuple[int, ...]]:
        queries = [(one.sequence, one.head, step) for own in some for one in own for step in one.steps]
        keys = [(one.sequence, one.head // ratio, one.place, part)
                for own in some for one in own for part in range(4)]  # fmt: skip
        return [*queries, *keys]

    for begin in range(0, len(work), units):
        some = work[begin : begin + units]
        apart = [read(some[die::dies]) for die in range(dies)]
        wanted += sum(map(len, apart))
        on_dies += sum(len(set(one)) for one in apart)
        everywhere += len(set().union(*apart))
    return Sharing(wanted / on_dies, on_dies / everywhere)


def modelled(problem: Any, target: Target, work: Sequence[Sequence[Piece]], ratio: int, beside: int) -> Found:
    """The main kernel by the model."""
    numbers = parameters.load(target.name)
    units, dies = device_units(numbers), device_dies(numbers)
    sharing = sharing_of(work, ratio, units, dies)
    done = np.array([(sum(len(one.steps) for one in own), len(own), 1) for own in work], np.float64)
    ascending = np.argsort(done @ (1, beside, 0), kind="stable")
    ascending = ascending[np.argmax(done[ascending, 1] > 0) :]
    spread = np.linspace(0, len(ascending) - 1, SAMPLES).round().astype(int)
    some = [int(ascending[one]) for one in dict.fromkeys([*spread, *range(len(ascending) - LONGEST, len(ascending))])]
    trace = record_operator(FMHA, problem, target, arrays=inputs(problem, target), workgroups=some)
    cycles = []
    for number in some:
        memory = new_memory(numbers, 1, busy=min(units, len(work)), sharing=sharing)
        timeline = simulate(part_of(trace, (number,)), numbers, memory=memory)
        cycles.append(float(timeline.wave_end.max() - timeline.wave_start.min()))
    worth, *_ = np.linalg.lstsq(done[some], np.array(cycles), rcond=None)
    every = np.where(done[:, 1] > 0, done @ worth, 1.0)
    misfit = float(np.max(np.abs(every[some] / cycles - 1)))
    every[some] = cycles
    known = np.array([1.0, every.max()])
    delay = numbers.integer("compute_unit.workgroup_start_delay")
    dealt = deal(every, known, known[:, None].copy(), compute_units=units, dies=dies, start_delay=delay)
    return Found(dealt.cycles, misfit, sharing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--mask", default="none")
    parser.add_argument("--case", choices=CASES, nargs="*", default=list(CASES))
    parser.add_argument("--ranges", choices=RANGES, nargs="*", default=list(RANGES))
    parser.add_argument("--bytes", action="store_true")
    options = parser.parse_args()
    target = get_target(options.arch)
    for name in options.case:
        case = CASES[name]
        lengths, ratio = case["lengths"], case["h"] // case.get("hk", case["h"])
        asked = {"mode": "group", "seqlens_q": lengths, "seqlens_k": lengths, "mask": options.mask, "h": case["h"]}
        kinds = (*ALONE, *({"deterministic": 1, "persistent": 1, "ranges": one} for one in options.ranges))
        problems = [FMHA.problem(**asked, hk=case.get("hk"), **kind) for kind in kinds]
        spaces = [make_plan(FMHA, problem, target).workspaces for problem in problems]
        parts = [sum(one.nbytes for one in some if one.name.endswith(("_parts", "_slots"))) for some in spaces]
        sizes = ", ".join(f"{size / 2**20:.0f}" for size in parts)
        print(f"{options.arch} {name}, mask {options.mask}: {sizes} MiB of parts", flush=True)
        if options.bytes:
            continue
        atomics, _, *staying = problems
        before = 0.0
        for problem in (atomics, *staying):
            spec = FMHA.spec(problem, target)
            shares = shares_of(problem, spec, target)
            alone = spec.sink == "atomic"
            work = list(block_by_block(shares, spec.order)) if alone else staying_work(shares, spec.sink)
            found = modelled(problem, target, work, ratio, shares.beside)
            before = before or found.cycles
            shared = f"lines shared by {found.sharing.l2:.1f} of a die, by {found.sharing.mall:.1f} dies"
            print(f"    {spec.sink}: {found.cycles:.0f} cycles, misfit {found.misfit:.1%}; {shared}; "
                  f"{found.cycles / before:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
