"""What makes numbers of channels from the sums of all parts: the specification and launch of such kernels.

A workgroup has CHANNELS channels, and adds their sums of all parts in a fixed order, in f64. It is a wave: what it
reads of arrays that it writes, such as running statistics in place, no other wave has written.
"""

from __future__ import annotations

from typing import TypedDict

from ckmlir.ops.arrays import ALIGNMENT
from ckmlir.ops.batchnorm.batchnorm2d_sums import OUTPUTS, SumsProblem
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.operator import Argument, Launch
from ckmlir.ops.rows.arrays import FLOATS
from ckmlir.ops.scalars import ceil_div, gcd, i32
from ckmlir.ops.spec import Algorithm, Reason, Spec, not_a_choice
from ckmlir.ops.steps import Workspace
from ckmlir.targets.cdna import WAVE_SIZE

CHANNELS, ROWS = 8, 64
"""Of a workgroup's tile: channels, which are 64 bytes of a row of sums, and parts."""
F64, F32_BYTES = find_dtype("f64"), find_dtype("f32").bytes
VECTOR = ALIGNMENT // F64.bytes
PARTS = tuple(f"{name}_parts" for name in OUTPUTS)
"""Workspaces with the sums of parts."""


class ChannelsSpec(Spec):
    """What such kernels depend on.

    Attributes:
        dtype: of x.
        params: of gamma and beta, and of their gradients.
        align: elements that divide the number of channels (a power of two, at most 2).
        base: bytes that divide the addresses of arrays.
    """

    dtype: str
    params: str
    align: Algorithm[int]
    base: Algorithm[int]

    def base_of(self, dtype: str) -> int:
        """Bytes that divide the address of an array."""
        return max(self.base, find_dtype(dtype).bytes)


class Fields(TypedDict):
    """Those fields that follow from what is summed up."""

    dtype: str
    params: str
    align: int
    base: int


def fields(problem: SumsProblem, params: str) -> Fields:
    """The fields of a specification that follow from what is summed up."""
    align, base = gcd(VECTOR, problem.images.c or VECTOR), min(problem.images.align, ALIGNMENT)
    return {"dtype": problem.dtypes[0], "params": params, "align": align, "base": base}


def invalid_channels(spec: ChannelsSpec) -> list[Reason]:
    """What is wrong with a specification's common part."""
    bases = tuple(1 << power for power in range(ALIGNMENT.bit_length()))
    return list(not_a_choice(spec, dtype=FLOATS, params=FLOATS, align=(1, VECTOR), base=bases))


def uncovered_channels(spec: ChannelsSpec, problem: SumsProblem) -> list[Reason]:
    """Why a kernel does not take these sums."""
    reasons, images = [], problem.images
    if images.c % spec.align:
        why = f"c={images.c} is not a multiple of it"
        reasons.append(Reason("align", spec.align, why, "expected a number that divides it"))
    if images.align % spec.base:
        why = f"addresses are multiples of {images.align} bytes"
        reasons.append(Reason("base", spec.base, why, f"expected at most {images.align}"))
    return reasons


def sums_workspaces(problem: SumsProblem) -> tuple[Workspace, ...]:
    """Those of the sums of all parts."""
    size = problem.parts * problem.images.c * F64.bytes
    return tuple(Workspace(name, size) for name in PARTS)


def channels_launch(problem: SumsProblem, arrays: tuple[str, ...], numbers: tuple[Argument, ...]) -> Launch:
    """A kernel's launch: arrays, then channels and parts, then what it takes besides."""
    grid = (ceil_div(problem.images.c, CHANNELS), 1, 1)
    sizes = (i32(problem.images.c), i32(problem.parts))
    return Launch(grid, (WAVE_SIZE, 1, 1), (*PARTS, *arrays, *sizes, *numbers))
