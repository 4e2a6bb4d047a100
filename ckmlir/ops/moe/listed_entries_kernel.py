"""The listed_entries kernel: each place that is taken writes the number of its entry where that belongs."""

from typing import Any

from ckmlir.lang import (
    Kernel,
    coordinates,
    exit_unless,
    gather,
    i32,
    kernel,
    load,
    ptr,
    scatter,
    view,
    where,
    workgroup_id,
)
from ckmlir.ops.moe.listed_entries import ListedEntriesSpec
from ckmlir.ops.moe.moe_sorting import PART, WAVES
from ckmlir.ops.moe.moe_sorting_kernel import LINE
from ckmlir.ops.moe.routing_kernel import entry_of
from ckmlir.targets import Target

ARRAYS = ("sorted_ids", "expert_ids", "totals", "entry_ids")
SIZES = ("places", "tokens", "slots", "experts")


def build(spec: ListedEntriesSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    arguments: dict[str, Any] = {**dict.fromkeys(ARRAYS, ptr("i32")), **dict.fromkeys(SIZES, i32)}

    @kernel(spec.name, target=target, waves=WAVES, arguments=arguments)
    def listed_entries(given: Any) -> None:
        first = workgroup_id(0) * PART
        units = given.totals.scalar(0).minimum(given.places) // spec.unit
        taken = units * spec.unit
        exit_unless(first < taken)
        words = load(view(given.sorted_ids, (taken,), (1,)).pad(PART).window((PART,), (first,)), LINE)
        place = coordinates(words, 0) + first
        there = place < taken
        experts = view(given.expert_ids, (units,), (1,)).pad(PART).window((PART,), (0,))
        expert = gather(experts, where(there, place // spec.unit, -1), 0, LINE)
        entry = entry_of(words, given.tokens, given.slots)
        numbers = view(given.entry_ids, (given.tokens * given.slots,), (1,)).pad(PART).window((PART,), (0,))
        scatter(entry, numbers, where(there & expert.below(given.experts), entry, -1), 0)

    return listed_entries
