"""Every named schedule of GEMM and attention, on every chip and for every type that the chip multiplies, at the default
tile: proved by the schedule checker, without spills, without a finding of any simulator checker, and in agreement with
NumPy for trip counts from 0 to 9 and sums that end within a step.

One case is one kernel: compiled once, run ten times. By default a part that has every schedule, chip, type and kind of
length; the whole with the marker `full`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from operator_runner import CHIPS

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import ATTENTION, GEMM
from ckmlir.runtime import check_outputs, run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.scheduling import Workbench
from ckmlir.sim.checks.finding import CHECKERS
from ckmlir.targets import get_target

TRIPS = range(10)
LONG = 1024
"""A sum, or keys, of many steps."""
OTHER_NAMES = ("single_buffer", "prefetch")
WATCHING = [name for name, checker in CHECKERS.items() if not checker.on_request]


@dataclass(frozen=True)
class Case:
    """A kernel. `ragged`: rows, columns and the length of the sums (queries and keys) end within a tile."""

    operator: str
    chip: str
    schedule: str
    dtype: str
    ragged: bool
    channels: int = 0

    def keys(self, trips: int) -> dict[str, Any]:
        """The problem whose loop takes so many steps."""
        keys = {"dtype": self.dtype, "schedule": self.schedule}
        if self.operator == "gemm":
            size = find_dtype(self.dtype).bytes
            k = self._length(trips, self._step(), 48 // size)
            m, n = (100, 120) if self.ragged else (128, 128)
            row = max(len(TRIPS) * self._step(), 1)  # leaves alignment, and so the kernel, the same for every length
            pitches = {"lda": row} if self.schedule == "preshuffle" else {"lda": row, "ldb": row}
            return {**keys, "m": m, "n": n, "k": k, **pitches}
        keys = {**keys, "h": 1, "sq": 37 if self.ragged else 128, "d": self.channels, "lse": 1}
        return {**keys, "sk": self._length(trips, self._step_of({**keys, "sk": LONG}, 1), 21)}

    def _length(self, trips: int, step: int, missing: int) -> int:
        return max(step * trips - missing * self.ragged, 0)

    def _step(self) -> int:
        """Along K, of gemm."""
        return self._step_of({"m": 128, "n": 128, "k": LONG, "dtype": self.dtype, "schedule": self.schedule}, 2)

    def _step_of(self, keys: dict[str, Any], side: int) -> int:
        """A side of the block that the operator chooses."""
        operator = find_operator(self.operator)
        return int(operator.spec(operator.problem(**keys), get_target(self.chip)).block[side])

    def __str__(self) -> str:
        tile = f"-d{self.channels}" if self.channels else ""
        return f"{self.operator}-{self.chip}-{self.schedule}-{self.dtype}{tile}-{'ragged' if self.ragged else 'whole'}"


def is_legal(chip: str, schedule: str, dtype: str) -> bool:
    """Whether the chip has such a kernel, as this test's author understands it."""
    if schedule in ("qr_async_trload", "qr_woven_async_deep"):
        return chip == "gfx950"
    if schedule in ("qr_async_trload_ping_pong", "qr_woven_async", "qr_woven_async_far"):
        return chip == "gfx950" and dtype != "fp8"
    return dtype != "fp8" or (chip != "gfx90a" and schedule != "qr_woven")


def kernels() -> list[Case]:
    """The whole grid."""
    gemm = itertools.product(CHIPS, [one for one in GEMM if one not in OTHER_NAMES], ("f16", "bf16", "fp8", "i8"))
    attention = itertools.product(CHIPS, [one for one in ATTENTION if one not in OTHER_NAMES], ("f16", "bf16", "fp8"))
    found = [Case("gemm", *one, ragged) for one in gemm if is_legal(*one) for ragged in (False, True)]
    found += [
        Case("fmha_fwd", *one, ragged, channels)
        for one in attention if is_legal(*one)
        for channels in (64, 128)
        for ragged in (False, True)
    ]  # fmt: skip
    return found


FIELDS = ("chip", "dtype", "ragged", "schedule")


def values_of(case: Case) -> set[tuple[str, str, object]]:
    """What the part that runs by default must have, of what the case has."""
    return {(case.operator, field, getattr(case, field)) for field in FIELDS}


def part(cases: list[Case]) -> list[Any]:
    """All cases; of every schedule the one runs by default that adds most to what is there, in turn where many do."""
    some: set[Case] = set()
    covered: set[tuple[str, str, object]] = set()
    in_order = sorted(cases, key=lambda one: (one.operator, one.schedule))
    groups = itertools.groupby(in_order, lambda one: (one.operator, one.schedule))
    for number, (_, group) in enumerate(groups):
        members = list(group)
        turned = [members[(place + 5 * number) % len(members)] for place in range(len(members))]
        chosen = max(turned, key=lambda one: len(values_of(one) - covered))
        some.add(chosen)
        covered |= values_of(chosen)
    return [pytest.param(one, id=str(one), marks=() if one in some else pytest.mark.full) for one in cases]


@pytest.mark.parametrize("case", part(kernels()))
def test_named_schedule(case: Case) -> None:
    """A kernel is proved, spills nothing, and is right for ten trip counts."""
    operator, target = find_operator(case.operator), get_target(case.chip)
    kernels: dict[Any, CompiledKernel] = {}
    device = SimulatorDevice(target, seed=11, checks=WATCHING)
    for trips in TRIPS:
        problem = operator.problem(**case.keys(trips))
        spec = operator.spec(problem, target)
        if spec not in kernels:
            kernels[spec] = proved(operator, spec, target)
        arrays = operator.inputs(problem, target, seed=7)
        result = run_operator(operator, problem, arrays, target, device, compiled=kernels[spec])
        comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
        assert all(one.ok for one in comparisons), f"{trips} steps: {'; '.join(map(str, comparisons))}"
    assert len(kernels) <= 2, "no steps at all may be a kernel of its own, other lengths share one"


def proved(operator: Any, spec: Any, target: Any) -> CompiledKernel:
    """The kernel of a specification, accepted by the schedule checker, with nothing spilled anywhere."""
    bench = Workbench.of(operator, spec, target)
    made = bench.compile(bench.schedule)
    assert made.findings == ()
    assert made.compiled is not None
    metadata = made.compiled.code_object.kernel(bench.name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    return made.compiled


def test_the_part_has_everything() -> None:
    """What runs by default holds every schedule of each operator, and every chip, type and kind of length."""
    some = [one.values[0] for one in part(kernels()) if not one.marks]
    assert set().union(*map(values_of, some)) == set().union(*map(values_of, kernels()))
    assert len(some) <= 51  # as many as schedules
