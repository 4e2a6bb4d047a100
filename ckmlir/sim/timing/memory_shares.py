"""The memory of some compute units that stand for all that are busy: their share of capacity and bandwidth."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.sim.timing.cache import Cache, new_cache
from ckmlir.sim.timing.memory_hierarchy import REQUEST_BYTES, TICKS, Counter, Memory
from ckmlir.sim.timing.parameters import Parameters


class Sharing(Struct, frozen=True):
    """How often what one compute unit fetches is what others fetch at the same time.

    l2: Workgroups of a die that want each line that the die's L2 fetches, on average; 1 when all work on data of
        their own. mall: Dies that want each line that one of them fetches.
    """

    l2: float = 1.0
    mall: float = 1.0


def device_units(parameters: Parameters) -> int:
    """Compute units of the device: of an MI250X, which is two devices, those of one die."""
    return parameters.integer("chip.compute_units") // parameters.integer("chip.dies")


def device_dies(parameters: Parameters) -> int:
    """Dies with an L2 of their own, to which workgroups are dealt one after the other."""
    return math.ceil(device_units(parameters) / parameters.integer("memory.l2.compute_units"))


def hbm_bytes_per_cycle(parameters: Parameters) -> float:
    """What the device's HBM delivers in a cycle of the shader clock when well used, in bytes."""
    return parameters.number("memory.hbm.efficiency") * _per_cycle(parameters, "memory.hbm.bandwidth")


def new_memory(
    parameters: Parameters, compute_units: int, *, busy: int | None = None, sharing: Sharing | None = None
) -> Memory:
    """The memory that `compute_units` compute units see when `busy` of the device do the same at the same time.

    Args:
        parameters: Those of the chip; "memory.…", "smem.latency" and "chip.…" are read.
        compute_units: Modelled one by one. Those of one die share an L2.
        busy: Compute units that work, modelled ones included; all of the device by default.
        sharing: What they have in common; nothing by default.

    Raises:
        CkmlirError: More compute units than the device has, or fewer busy ones than are modelled.
    """
    number, integer = parameters.number, parameters.integer
    device = device_units(parameters)
    busy = device if busy is None else busy
    if not 1 <= compute_units <= busy <= device:
        raise CkmlirError(
            f"{compute_units} compute units modelled of {busy} busy ones; {parameters.target} has {device}"
        )
    sharing = sharing or Sharing()
    on_die = integer("memory.l2.compute_units")
    dies = device_dies(parameters)
    busy_on_die = math.ceil(busy / dies)
    die_units = min(compute_units, on_die)
    # The shares of one of the modelled L2 caches, and of the modelled compute units in what is one for the device.
    die_share, share = min(1.0, die_units / busy_on_die), compute_units / busy

    l2_line = integer("memory.l2.line")
    mall_rate = share * _per_cycle(parameters, "memory.mall.bandwidth")
    hbm_rate = share * hbm_bytes_per_cycle(parameters)
    scalar_units = integer("memory.scalar.compute_units")
    write_queue = integer("memory.l2.write_queue") * compute_units
    return Memory(
        l1=_cache(parameters, "l1", compute_units),
        # The units that share a scalar cache run the same kernel: its lines are mostly the same.
        scalar=_cache(parameters, "scalar", math.ceil(compute_units / scalar_units), latency="smem.latency"),
        l2=_cache(parameters, "l2", math.ceil(compute_units / die_units), min(1.0, die_share * sharing.l2)),
        mall=_cache(parameters, "mall", 1, min(1.0, share * sharing.l2 * sharing.mall)),
        l1_free=np.zeros(compute_units, np.int64),
        fill_free=np.zeros(compute_units, np.int64),
        l2_free=np.zeros(math.ceil(compute_units / die_units), np.int64),
        mall_free=np.zeros(1, np.int64),
        hbm_free=np.zeros(1, np.int64),
        l1_interval=_interval(REQUEST_BYTES, number("memory.l1.bandwidth")),
        fill_interval=_interval(REQUEST_BYTES, number("memory.l1.fill_bandwidth")),
        l2_interval=_interval(
            REQUEST_BYTES, die_share * number("memory.l2.bandwidth") * number("memory.l2.efficiency")
        ),
        mall_interval=_interval(l2_line, mall_rate * sharing.l2),
        mall_write_interval=_interval(l2_line, mall_rate),
        hbm_interval=_interval(l2_line, hbm_rate * sharing.l2 * sharing.mall),
        hbm_write_interval=_interval(l2_line, hbm_rate),
        hbm_latency=integer("memory.hbm.latency") * TICKS,
        store_latency=integer("memory.l2.store_latency") * TICKS,
        write_queue=_interval(write_queue, hbm_rate),
        die_units=die_units,
        scalar_units=scalar_units,
        l2_reuse=float(sharing.l2),
        mall_reuse=float(sharing.mall),
        counters=np.zeros(len(Counter), np.int64),
        turn=np.zeros(1, np.int64),
    )


def _per_cycle(parameters: Parameters, name: str) -> float:
    """A bandwidth in GB/s as bytes a cycle of the shader clock."""
    return parameters.number(name) * 1e3 / parameters.number("chip.clock")


def _interval(bytes: float, rate: float) -> int:
    """Ticks for bytes at a rate in bytes a cycle; 0 without a rate (a level that is not there)."""
    return round(bytes / rate * TICKS) if rate else 0


def _cache(parameters: Parameters, level: str, count: int, share: float = 1.0, latency: str | None = None) -> Cache:
    """`count` caches of a level, each with a share of the capacity."""
    line = parameters.integer(f"memory.{level}.line")
    shift = (line // REQUEST_BYTES).bit_length() - 1
    if line != REQUEST_BYTES << max(shift, 0):
        raise CkmlirError(f"memory.{level}.line: {line} bytes; a line is {REQUEST_BYTES} bytes times a power of two")
    lines = int(share * parameters.integer(f"memory.{level}.size")) // line
    cycles = parameters.integer(latency or f"memory.{level}.latency")
    return new_cache(count, lines, parameters.integer(f"memory.{level}.ways"), shift, cycles * TICKS)
