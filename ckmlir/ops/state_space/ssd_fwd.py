"""ssd_fwd: the forward pass of Mamba-2's state space duality (arXiv 2405.21060), CK Tile's example 53_ssd.

For every batch and head there is a state H (d, n), which is zero, or `initial`, before the first place. For each place
with its numbers delta_a and delta and its rows x (d), b and c (n)

    H = exp(delta_a) H + delta x bᵀ        y = H c        y = (H c + skip x) silu(z)   with skip and gate

The last H is `state`. Kernels take blocks of places: what places of a block have from each other is attention without a
softmax, c·b exp(sum of delta_a between) delta times x, and what they have from earlier ones comes from the state, which
stays in registers (`ssd_fwd_kernel.py`). Where CK Tile's arrays have chunks and places, [C, L], these have s = C L
places: results do not depend on how places are put in blocks, and s may be any number.

Arrays have the shape of memory. With layout bshd, Mamba's, x, z and y are (b, s, h, d), b_mat and c_mat (b, s, g, n),
delta_a and delta (b, s, h); with bhds, CK Tile's, places are contiguous: (b, h, d, s), (b, g, n, s) and (b, h, s). Head
i uses group i / (h / g). skip is (h) or (h, d); initial and state are (b, h, d, n). The last three and steps are f32.

Kernel arguments: the arrays in the order of `arrays`; then s, d, n, h, h / g (i32); for each of x, b_mat, c_mat, z and
y that there is the strides of the row (i32), the head and the batch (i64), of steps the row (i32) and the batch (i64).
Grid: blocks of channels, in each head, in each batch, in one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.choice import chosen_keys, first_valid
from ckmlir.ops.comparison import Array, Tolerance
from ckmlir.ops.operator import NOTHING, Argument, Launch, Operator
from ckmlir.ops.request import Choice, Flag, Integer, Key, RequestError
from ckmlir.ops.scalars import ceil_div, i32, i64
from ckmlir.ops.schedules import SSD as SCHEDULES
from ckmlir.ops.spec import Reason, unlike
from ckmlir.ops.state_space.problem import (
    HEADS_AND_CHANNELS,
    LAYOUTS,
    SKIPS,
    STEPS,
    Problem,
    StateStrides,
    check_strides,
    packed_strides,
)
from ckmlir.ops.state_space.ssd_fwd_spec import (
    BLOCKS,
    DTYPES,
    PLAIN,
    STATE_TILES,
    WAVES,
    SsdFwdSpec,
    invalid_fields,
    proposed_blocks,
)
from ckmlir.ops.tensors.arrays import packed
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

MOST_WORKGROUPS = (2**32 - 1) // (max(WAVES) * WAVE_SIZE)
"""HIP counts work-items of a launch by 32 bits."""


class SsdFwd(Operator[Problem, SsdFwdSpec]):
    """The operator `ssd_fwd`, which the module's docstring describes."""

    name = "ssd_fwd"
    spec_type = SsdFwdSpec
    plan_fields: ClassVar[Mapping[str, str]] = {"schedule": "schedule"}
    keys: tuple[Key, ...] = (
        Integer("b", 1, "batches"),
        Integer("h", 2, "heads of X and Y", minimum=1),
        Integer("g", 1, "groups of B and C; divides h", minimum=1),
        Integer("s", 256, "places"),
        Integer("d", 64, "channels of X and Y"),
        Integer("n", 128, f"channels of B and C: up to {STATE_TILES[-1]}", maximum=STATE_TILES[-1]),
        Choice("dtype", "f16", "of X, Z, Y, B and C", DTYPES),
        Choice("layout", "bshd", "order of the dimensions in memory: channels or places contiguous", LAYOUTS),
        Choice("skip", "none", "X is added to Y, times a number for each head or channel", SKIPS),
        Flag("gate", False, "multiply Y with silu(Z)"),
        Flag("initial", False, "begin with a given state instead of zeros"),
        Flag("final", True, "also write the last state"),
        *(
            StateStrides(
                f"{name}_strides", None, f"elements from one batch, head and row of {name} to the next", 3, array=name
            )
            for name in HEADS_AND_CHANNELS
        ),
        StateStrides(
            "delta_strides", None, "elements from one batch and row of delta_a and delta to the next", 2, array="delta"
        ),
        Choice("schedule", None, "of the loop over blocks of places; by default prefetch where channels "
               "fill tiles",
               tuple(SCHEDULES)),
    )  # fmt: skip

    def _problem(self, values: Mapping[str, Any]) -> Problem:
        if values["h"] % values["g"]:
            raise RequestError(f"g={values['g']}: h={values['h']} is not a multiple of it; expected a divisor of h")
        if values["z_strides"] is not None and not values["gate"]:
            raise RequestError("z_strides: there is no Z; expected gate=1")
        strides = {name: values[name] for name in values if name.endswith("_strides")}
        problem = Problem(**{name: value for name, value in values.items() if name not in strides})
        made: dict[str, tuple[int, ...]] = {
            f"{name}_strides": packed_strides(problem, name) for name in HEADS_AND_CHANNELS
        }
        made["delta_strides"] = packed(problem.steps_shape)[:2]
        problem = replace(problem, **{name: strides[name] or made[name] for name in made})
        check_strides(problem)
        if problem.b * problem.h * ceil_div(problem.d, BLOCKS[-1][1]) > MOST_WORKGROUPS:
            raise RequestError(f"b={problem.b}: HIP launches no grid of so many heads; expected fewer")
        return problem

    def spec(self, problem: Problem, target: Target) -> SsdFwdSpec:
        return first_valid(self.proposals(problem, target), lambda one: self.validate(one, target))

    def proposals(self, problem: Problem, target: Target) -> list[SsdFwdSpec]:
        """The largest blocks that fit first, see `proposed_blocks`."""
        found = []
        for block, n_tile, waves in proposed_blocks(problem.d, problem.n):
            pad = bool(problem.n != n_tile or problem.d % block[1])
            usual = sorted(SCHEDULES, key=lambda one: (one == PLAIN) != _is_crowded(problem, pad=pad))
            found += [
                SsdFwdSpec(**self._fields(problem), block=block, n_tile=n_tile, waves=waves, schedule=schedule,
                           align=problem.align, pad=pad)
                for schedule in ([problem.schedule] if problem.schedule else usual)
            ]  # fmt: skip
        return found

    def _fields(self, problem: Problem) -> dict[str, Any]:
        """Fields of a specification that follow from the problem alone."""
        return {name: getattr(problem, name) for name in ("dtype", "layout", "skip", "gate", "initial", "final")}

    def axes(self, spec: SsdFwdSpec, target: Target) -> Mapping[str, Sequence[object]]:
        return {"block": BLOCKS, "n_tile": STATE_TILES, "waves": WAVES, "schedule": tuple(SCHEDULES)}

    def chosen(self, problem: Problem, spec: SsdFwdSpec) -> dict[str, object]:
        return chosen_keys(problem, spec, self.plan_fields)

    def validate(self, spec: SsdFwdSpec, target: Target) -> list[Reason]:
        return invalid_fields(spec, target)

    def mismatches(self, problem: Problem, spec: SsdFwdSpec, target: Target) -> list[Reason]:
        return list(_mismatches(problem, spec, self._fields(problem)))

    def kernels(self, target: Target) -> list[SsdFwdSpec]:
        everything = {"skip": "head", "gate": 1, "initial": 1}
        requests: list[dict[str, Any]] = [
            {"dtype": dtype, "layout": layout, **more}
            for dtype in DTYPES
            for layout in LAYOUTS
            for more in ({}, everything)
        ]
        requests += [{"n": n} for n in STATE_TILES]
        requests += [{"d": 128, "skip": "channel"}, {"d": 32}, {"d": 60, "n": 20}, {"d": 63, "final": 0}]
        specs = [self.spec(self.problem(**one), target) for one in requests]
        return [spec for spec in dict.fromkeys(specs) if not self.validate(spec, target)]

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return problem.arrays()

    def _values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Steps are positive, with decays from a thousandth to a few for each place, as Mamba's are when training
        begins; the rest is normal."""
        if array.name in STEPS:
            steps = np.exp(generator.uniform(np.log(1e-3), np.log(1.0), array.shape))
            return -steps * generator.uniform(0.1, 2.0) if array.name == "delta_a" else steps
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values

    def reference(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Y, and the last state where asked for, place by place in float64."""
        from ckmlir.ops.state_space.reference import recurrence

        return recurrence(problem, arrays)

    def tolerances(
        self, problem: Problem, arrays: Mapping[str, Array], reference: Mapping[str, Array], target: Target
    ) -> dict[str, Tolerance]:
        """See `ssd_tolerances`."""
        from ckmlir.ops.state_space.tolerance import ssd_tolerances

        return ssd_tolerances(problem, arrays, target)

    def flops(self, problem: Problem) -> int:
        """Those of the recurrence: a state is scaled, added to and multiplied with C at each place."""
        return 5 * problem.b * problem.h * problem.s * problem.d * problem.n

    def launch(self, problem: Problem, spec: SsdFwdSpec, target: Target) -> Launch:
        if self.writes_nothing(problem):
            return NOTHING
        arguments: list[Argument] = [array.name for array in self.arrays(problem)]
        arguments += map(i32, (problem.s, problem.d, problem.n, problem.h, problem.h // problem.g))
        for name in problem.names:
            batch, head, row = problem.strides(name)
            arguments += (i32(row), i64(head), i64(batch))
        batch, row = problem.delta_strides
        arguments += (i32(row), i64(batch))
        blocks = ceil_div(problem.d, spec.d_tile)
        return Launch((blocks * problem.h * problem.b, 1, 1), (spec.waves * WAVE_SIZE, 1, 1), tuple(arguments))


def _is_crowded(problem: Problem, *, pad: bool) -> bool:
    """Whether a block that is loaded ahead would leave scalar registers in lanes: conditions for each place or channel
    take some, and so does each array that Y meets. With the least tile of n it is one register, on gfx90a."""
    return pad or problem.columns or (problem.gate and problem.skip != "none") or problem.n <= STATE_TILES[0]


def _mismatches(problem: Problem, spec: SsdFwdSpec, fields: Mapping[str, Any]) -> Iterator[Reason]:
    yield from unlike(spec, schedule=problem.schedule, **fields)
    if problem.n > spec.n_tile:
        yield Reason("n_tile", spec.n_tile, f"a state has n={problem.n} channels", f"expected {problem.n} or more")
    if not spec.pad and not spec.fills(problem.d, problem.n):
        yield Reason("pad", spec.pad, f"d={problem.d}, n={problem.n} are not whole tiles", "expected 1")
    if problem.align % spec.align:
        why = "rows do not begin at multiples of so many elements"
        yield Reason("align", spec.align, why, f"expected a divisor of {problem.align}")


OPERATOR = SsdFwd()
