"""The timing model: what it says of operators' kernels on each chip, and what it costs beside a plain run.

    python benchmarks/timing.py [--arch gfx942] [--only gemm] [--cost]

Without --cost: GEMM and attention, defaults and what improves them, with the share of cycles in the steady loop in
which the matrix cores are busy, and the three largest reasons for stalls: every number is the model's. Where the
package `triton` is installed, the default GEMMs and attention have the cycles of Triton's fastest kernel beside them
(triton_in_time.py, triton_attention.py, triton_backward.py), and ours as a share of those. With --cost:
seconds of processor time of a plain run of some workgroups, of their recording, and of their simulation, each the least
of several in one process. Prints a table and a JSON line.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.simulator import Simulator
from ckmlir.sim.timing.compute_unit import simulate
from ckmlir.sim.timing.memory_shares import new_memory
from ckmlir.sim.timing.parameters import load
from ckmlir.sim.timing.recording import record
from ckmlir.targets import get_target

_GEMM = {"m": 4096, "n": 4096, "k": 4096}
_ATTENTION = {"b": 1, "h": 16, "sq": 4096, "d": 128}
_MEDIUM, _LARGE = {"block": (128, 128, 64)}, {"block": (256, 256, 64), "wave": (2, 4)}
_NEWER = ("gfx942", "gfx950")
KERNELS = {
    "gemm f16 4096^3": ("gemm", _GEMM, TARGETS),
    "gemm bf16 4096^3": ("gemm", {**_GEMM, "dtype": "bf16"}, _NEWER),
    "gemm fp8 4096^3": ("gemm", {**_GEMM, "dtype": "fp8"}, _NEWER),
    "attention f16 d128": ("fmha_fwd", _ATTENTION, TARGETS),
    "attention f16 d128, causal": ("fmha_fwd", {**_ATTENTION, "mask": "top_left"}, _NEWER),
    "attention fp8 d128": ("fmha_fwd", {**_ATTENTION, "dtype": "fp8"}, _NEWER),
    "attention backward f16 d128": ("fmha_bwd", _ATTENTION, _NEWER),
    "attention backward f16 d128, causal": ("fmha_bwd", {**_ATTENTION, "mask": "top_left"}, _NEWER),
    "gemm f16, 128x128x64, compv3": ("gemm", {**_GEMM, **_MEDIUM, "schedule": "compv3"}, TARGETS),
    "gemm f16, 128x128x64, compv4": ("gemm", {**_GEMM, **_MEDIUM, "schedule": "compv4"}, ("gfx950",)),
    "gemm f16, 256x256x64, compv3": ("gemm", {**_GEMM, **_LARGE, "schedule": "compv3"}, _NEWER),
    "gemm fp8, 128x128x128, compv3": (
        "gemm", {**_GEMM, "dtype": "fp8", "block": (128, 128, 128), "schedule": "compv3"}, _NEWER,
    ),
    "attention f16, qr": ("fmha_fwd", {**_ATTENTION, "schedule": "qr"}, ("gfx90a", "gfx942")),
    "attention f16, qr_async_ping_pong": ("fmha_fwd", {**_ATTENTION, "schedule": "qr_async_ping_pong"}, ("gfx950",)),
    "attention fp8, qr_async_pinned": (
        "fmha_fwd", {**_ATTENTION, "dtype": "fp8", "schedule": "qr_async_pinned"}, _NEWER,
    ),
}  # fmt: skip
"""The defaults of the operators, what they were compared with, and the chips for each."""
BESIDE_TRITON = (
    "gemm f16 4096^3", "gemm bf16 4096^3", "gemm fp8 4096^3", "attention f16 d128", "attention f16 d128, causal",
    "attention backward f16 d128", "attention backward f16 d128, causal",
)  # fmt: skip
"""Those that Triton's fastest kernel is compared with, on `_NEWER` chips."""
BOTH_HAVE = ("fmha_bwd_dot_do_o",)
"""Kernels in front of the operator's own that Triton's way has too; they are not counted."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what the timing model says, and what it costs")
    parser.add_argument("--arch", choices=TARGETS, help="one chip only")
    parser.add_argument("--cost", action="store_true", help="seconds of the model beside those of a plain run")
    parser.add_argument("--only", default="", help="kernels whose names have this")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    chips = (options.arch,) if options.arch else TARGETS
    if options.cost:
        print_costs(chips[-1] if options.arch else "gfx942", options.repeats)
        return
    rows, others = [], find_others()
    print("| kernel | chip | MFMA busy | largest stalls (share of waves' cycles) | model TFLOPS | Triton's cycles |")
    print("|---|---|---|---|---|---|")
    for name, (operator, keys, able) in KERNELS.items():
        for chip in chips:
            if chip in able and options.only in name:
                rows.append(said_of(name, operator, keys, chip))
                one = rows[-1]
                stalls = ", ".join(f"{reason} {share:.0%}" for reason, share in one["stalls"].items())
                if name in BESIDE_TRITON and chip in _NEWER:
                    one["triton"] = others(operator, keys, chip)
                said = f"{one['mfma']:.0%} | {stalls} | {one['teraflops']:.0f} | {beside(one)}"
                print(f"| {name} | {chip} | {said} |", flush=True)
    print(json.dumps({"model": rows}))


def find_others() -> Callable[[str, dict[str, Any], str], dict[str, Any] | None]:
    """What models Triton's fastest kernel of an operator's problem; nothing where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        print("triton is not installed: the column of its cycles is left out")
        return lambda operator, keys, chip: None
    import triton_attention
    import triton_backward
    import triton_in_time

    kernels = {"gemm": triton_in_time, "fmha_fwd": triton_attention, "fmha_bwd": triton_backward}
    return lambda operator, keys, chip: kernels[operator].fastest({"dtype": "f16", **keys}, chip, load(chip))._asdict()


def beside(row: dict[str, Any]) -> str:
    """Triton's cycles, its tile and waves, and ours as a share of them."""
    other = row.get("triton")
    if other is None:
        return ""
    tile = "x".join(map(str, other["tile"]))
    return f"{other['cycles']:.0f} ({tile}, {other['waves']} waves): {row['cycles'] / other['cycles']:.2f}"


def said_of(name: str, operator_name: str, keys: dict[str, Any], chip: str) -> dict[str, Any]:
    """What the model says of an operator's own kernel, with as many workgroups on a compute unit as fit; cycles are
    those of what rounds its results, too.
    """
    operator, target, parameters = find_operator(operator_name), get_target(chip), load(chip)
    found = model_kernels(operator, operator.problem(**keys), target, parameters, mode="sampled")
    grids = {one.step.is_own: one.under(parameters).grid for one in found if one.step.operator.name not in BOTH_HAVE}
    grid, loop = grids[True], grids[True].workgroup.steady
    assert loop is not None
    return {
        "kernel": name,
        "chip": chip,
        "mfma": min(1.0, loop.busy["mfma"]),
        "stalls": dict(list(loop.stalls.items())[:3]),
        "cycles": sum(one.cycles for one in grids.values()),
        "teraflops": grid.roofline.achieved / 1e12,
        "share_of_peak": grid.matrix_share,
    }


def print_costs(chip: str, repeats: int) -> None:
    """Seconds of a run of all workgroups, of what the model takes for the launch (`Simulator.time`, which records and
    simulates the workgroups it needs), and of recording and simulating all of them.
    """
    print(f"{'kernel':28}{'instructions':>14}{'plain':>10}{'model':>10}{'/ plain':>9}", end="")
    print(f"{'recording':>12}{'simulation':>12}{'both / plain':>14}")
    rows = {}
    for name, operator, keys, groups in (
        ("gemm f16 k 8192", "gemm", {"m": 256, "n": 256, "k": 8192}, 4),
        ("fmha_fwd f16 sk 4096", "fmha_fwd", {"b": 1, "h": 1, "sq": 256, "sk": 4096, "d": 128}, 2),
        ("softmax f16 n 8192", "softmax", {"m": 256, "n": 8192}, 256),
        ("layernorm2d f16 n 4096", "layernorm2d", {"m": 256, "n": 4096}, 256),
        ("transpose2d f16 1024", "transpose2d", {"m": 1024, "n": 1024}, 64),
    ):
        one = rows[name] = cost_of(operator, keys, chip, groups, repeats)
        print(
            f"{name:28}{one['instructions']:14,.0f}{1e3 * one['plain']:7.1f} ms{1e3 * one['model']:7.1f} ms"
            f"{one['model'] / one['plain']:9.1f}{1e3 * one['recording']:9.1f} ms{1e3 * one['simulation']:9.1f} ms"
            f"{one['factor']:14.1f}"
        )
    print(json.dumps({"arch": chip, "cost": rows}))


def cost_of(operator_name: str, keys: dict[str, object], chip: str, groups: int, repeats: int) -> dict[str, float]:
    """The least of several times, in seconds of processor time, after one that compiles."""
    operator, target, parameters = find_operator(operator_name), get_target(chip), load(chip)
    problem = operator.problem(**keys)
    spec = operator.spec(problem, target)
    kernel = compile_kernel(operator, spec, target)
    code_object, launch = CodeObject.parse(kernel.hsaco), operator.launch(problem, spec, target)
    simulator, inputs = Simulator(target=chip), operator.inputs(problem, target)
    memories = {
        array.name: simulator.upload(inputs.get(array.name, np.zeros(array.nbytes, np.uint8)))
        for array in operator.arrays(problem)
    }
    arguments = [memories[one] if isinstance(one, str) else one for one in launch.arguments]
    given = (code_object, kernel.kernel_name, launch.grid, launch.block, arguments)
    assert launch.grid[0] * launch.grid[1] * launch.grid[2] == groups
    rows = []
    for _ in range(repeats + 1):
        start = time.process_time()
        count = simulator.launch(*given).wave_instructions
        ran = time.process_time()
        trace = record(simulator, *given, workgroups=range(groups))
        recorded = time.process_time()
        simulate(trace, parameters, memory=new_memory(parameters, 1))
        simulated = time.process_time()
        simulator.time(*given, parameters=parameters)
        rows.append((ran - start, recorded - ran, simulated - recorded, time.process_time() - simulated))
    plain, recording, simulation, model = (min(column) for column in zip(*rows[1:]))
    return {
        "instructions": count,
        "plain": plain,
        "model": model,
        "recording": recording,
        "simulation": simulation,
        "factor": (recording + simulation) / plain,
    }


if __name__ == "__main__":
    main()
