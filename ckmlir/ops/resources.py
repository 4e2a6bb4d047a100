"""Whether what a workgroup needs fits a chip: work-items, LDS, accumulators and vector registers."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ckmlir.ops.spec import Reason
from ckmlir.targets import Target

MOST_RESIDENT = 2
"""Workgroups that stay, of a compute unit, at most: more do not hide more, and each has a last turn."""


class Resources(Struct, frozen=True):
    """The least that a kernel needs.

    Attributes:
        field, value: of the specification, what decides the need and is named when it is too much.
        threads: work-items of a workgroup.
        lds: bytes of LDS of a workgroup.
        accumulators: 32-bit accumulators of a work-item.
        registers: 32-bit registers that a work-item's tiles take, accumulators included.
        pinned: whether the order of the loop is pinned, so that not more is alive at once than its schedule says.
    """

    field: str
    value: object
    threads: int
    lds: int
    accumulators: int
    registers: int
    pinned: bool = False

    def workgroups_a_unit(self, target: Target) -> int:
        """How many workgroups that stay a compute unit is given: as many as it holds at a time, as far as is known
        before the kernel is compiled, by LDS and the registers of tiles, and no more than `MOST_RESIDENT`.
        """
        waves_a_simd = -(-self.threads // (target.wave_size * target.simds))
        registers = target.registers.vector_total // max(self.registers * 5 // 4, 1) // waves_a_simd
        return max(min(target.lds_bytes // max(self.lds, 1), registers, MOST_RESIDENT), 1)


def excess(need: Resources, target: Target) -> list[Reason]:
    """Why the need exceeds the chip; empty when it fits."""

    def reason(why: str, right: str) -> Reason:
        return Reason(need.field, need.value, why, right)

    if need.threads > target.workgroup_size:
        most = target.workgroup_size
        return [reason(f"a workgroup of {need.threads} work-items", f"expected at most {most} on {target.name}")]
    reasons = list(excess_lds(need.field, need.value, need.lds, target))
    most = target.registers.accumulation_per_wave
    rest = 16 if need.pinned else 6
    available = registers_per_lane(need.threads, target) * (rest - 1) // rest  # the rest: addresses, temporaries
    if need.accumulators > most:
        reasons.append(reason(f"needs {need.accumulators} accumulators a work-item", f"{target.name} has {most}"))
    elif need.registers > available:
        why = f"its tiles need {need.registers} registers a work-item"
        reasons.append(reason(why, f"{target.name} has {available} for them with {need.threads} work-items"))
    return reasons


def excess_lds(field: str, value: object, need: int, target: Target) -> Iterator[Reason]:
    """Why so many bytes of LDS, which the value of a field needs, exceed the chip."""
    if need > target.lds_bytes:
        yield Reason(field, value, f"needs {need} bytes of LDS", f"{target.name} has {target.lds_bytes}")


def registers_per_lane(threads: int, target: Target) -> int:
    """Vector registers of a lane when a whole workgroup has to be resident on the SIMDs of one compute unit."""
    waves = -(-threads // target.wave_size)
    waves_a_simd = -(-waves // target.simds)
    granule = target.registers.vector_granule
    share = target.registers.vector_total // waves_a_simd // granule * granule
    return min(share, target.registers.vector_per_wave)
