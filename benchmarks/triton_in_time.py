"""GEMM in Triton under the model of time, beside ours in timing.py. Needs the package `triton`; nothing runs on a GPU.

Triton's kernel is that of `triton_kernels.py` for whole tiles, with several tiles, numbers of waves and widths of what
it packs for LDS, pipelined by two stages; the fastest counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton_kernels import gemm

from ckmlir.codeobject import CodeObject
from ckmlir.sim.simulator import Simulator
from ckmlir.sim.timing.launch_model import model_launch
from ckmlir.sim.timing.measure import record_launch
from ckmlir.sim.timing.parameters import Parameters
from ckmlir.targets import get_target

TILES = ((128, 128, 4), (128, 256, 8), (256, 128, 8), (256, 256, 4), (256, 256, 8))
"""Rows, columns, waves; 128 bytes along K."""
PACKED = (1, 2)
"""Of `kpack`, which Triton ignores on gfx950."""
DEPTH = 128
TYPES = {"f16": ("fp16", "fp16"), "bf16": ("bf16", "bf16"), "fp8": ("fp8e4b8", "fp16")}
"""Triton's names of what our dtypes hold, and of what C is; of fp8 before gfx950."""
BYTES = {"f16": 2, "bf16": 2, "fp8": 1}


class Found(NamedTuple):
    """What the model says of Triton's fastest kernel."""

    cycles: float
    tile: tuple[int, int, int]
    waves: int
    packed: int


class Launch(NamedTuple):
    """A kernel of Triton's on arrays of so many bytes.

    Attributes:
        numbers: its other arguments, behind the arrays.
        waves: of a workgroup.
        order: sizes of the axes along which consecutive workgroups go, fastest first.
    """

    compiled: Any
    chip: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    numbers: Sequence[Any]
    waves: int
    grid: tuple[int, int, int]
    order: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """Whether the chip has as much LDS."""
        return bool(self.compiled.metadata.shared <= get_target(self.chip).lds_bytes)


def fastest(keys: dict[str, Any], chip: str, parameters: Parameters) -> Found:
    """Of A (m, k) times the transpose of B (n, k), whole tiles."""
    found = []
    for (rows, columns, waves), packed in itertools.product(TILES, PACKED if chip != "gfx950" else PACKED[:1]):
        tile = rows, columns, DEPTH // BYTES[keys["dtype"]]
        cycles = cycles_of(keys, chip, parameters, tile, waves, packed)
        if cycles is not None:
            found.append(Found(cycles, tile, waves, packed))
    return min(found)


def cycles_of(
    keys: dict[str, Any], chip: str, parameters: Parameters, tile: tuple[int, int, int], waves: int, packed: int
) -> float | None:
    """Of one kernel; None where its tiles do not fit LDS."""
    return modelled(launch_of(keys, chip, tile, waves, packed), parameters)


def launch_of(keys: dict[str, Any], chip: str, tile: tuple[int, int, int], waves: int, packed: int) -> Launch:
    """One kernel on A (m, k) and B (n, k)."""
    m, n, k = keys["m"], keys["n"], keys["k"]
    taken, out = TYPES[keys["dtype"]]
    if chip == "gfx950":
        taken = taken.replace("fp8e4b8", "fp8e4nv")
    types = (*(f"*{one}" for one in (taken, taken, out)), *["i32"] * 6)
    constants = {**dict(zip("MNK", tile, strict=True)), "WHOLE": 1}
    compiled = compiled_for(gemm, types, constants, chip, num_warps=waves, num_stages=2, kpack=packed)
    inputs = [count * BYTES[keys["dtype"]] for count in (m * k, n * k)]
    order = (-(-n // tile[1]), -(-m // tile[0]))  # its tiles are numbered row by row
    grid = order[0] * order[1], 1, 1
    return Launch(compiled, chip, inputs, [2 * m * n], (m, n, k, k, k, n), waves, grid, order)


def compiled_for(function: Any, types: Sequence[str], constants: dict[str, int], chip: str, **options: int) -> Any:
    """A kernel of Triton, for pointers and integers that 16 divides."""
    signature = dict(zip(function.arg_names, types, strict=False)) | dict.fromkeys(constants, "constexpr")
    divisible = {(place,): [["tt.divisibility", 16]] for place, kind in enumerate(types) if kind != "fp32"}
    source = ASTSource(function, signature, constants, divisible)
    return compile(source, target=GPUTarget("hip", chip, 64), options=options)


def modelled(launch: Launch, parameters: Parameters) -> float | None:
    """Cycles, the inputs being zeros; None where it takes more LDS than there is."""
    if not launch.fits:
        return None
    code_object, simulator = CodeObject.parse(launch.compiled.asm["hsaco"]), Simulator(launch.chip)
    arrays = [simulator.upload(np.zeros(size, np.uint8), read_only=True) for size in launch.inputs]
    arrays += [simulator.allocate(size) for size in launch.outputs]
    given = [*(one.address for one in arrays), *launch.numbers, 0, 0]  # the last: scratch memory, which it has none of
    trace = record_launch(
        simulator, code_object, code_object.kernel(None).name, launch.grid, (64 * launch.waves, 1, 1), given,
        launch.compiled.metadata.shared, parameters=parameters, mode="sampled", shape=launch.order,
    )  # fmt: skip
    return model_launch(trace, parameters, "sampled", launch.order).grid.cycles
