"""Our kernels and those of others in one run, by the model of time: the ratio of each, what the loops consist of, and
which of the model's assumed numbers would turn the comparison around.

    python benchmarks/peers.py FOLDER [--chip gfx942] [--only attention] [--assumed]

FOLDER has code objects of AITER, which are no part of this project, under names that say what they are:
`gfx942_fmha_fwd_hd128_bf16….co`, with `causal` where they are, and `gfx950_bf16gemm_tn_256x256….co`. The kernel of any
other compiler is taken from a file `NAME.json`:

    {"code": "softmax.hsaco", "launch": "launch.json", "operator": "softmax", "keys": {"m": 4096, "n": 4096}}

with a description of the launch as for `ckmlir time --launch`, and the request of ours that does the same work;
`triton_peers.py` writes such files of Triton's kernels.
Everything is sampled, at the peak clock. Prints tables and a JSON line.
"""

import argparse
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.runtime.timing import OperatorModel
from ckmlir.scheduling.machine_loop import MachineLoop, steady_loop
from ckmlir.sim.memory import DeviceMemory
from ckmlir.sim.simulator import Simulator
from ckmlir.sim.timing.launch_model import model_launch
from ckmlir.sim.timing.measure import record_launch
from ckmlir.sim.timing.parameters import Parameters, load
from ckmlir.targets import get_target
from ckmlir.tools.foreign_timing import record_foreign
from ckmlir.tools.launch_description import read_launch

ATTENTION = re.compile(r"(gfx\w+?)_fmha_fwd_hd(\d+)_bf16(_causal)?")
PRODUCT = re.compile(r"(gfx\w+?)_bf16gemm_tn_(\d+)x(\d+)")
HEADS = ((16, 16), (16, 2))
"""Heads of Q, and of K and V."""
SIZES = (2048, 4096, 8192)
COLUMNS = ("valu", "wait", "barrier", "vmov", "nop", "salu", "lds", "vmem")
ASSUMED = (0.7, 1.3)
MADE_OF = ("banks", "bytes", "ways")
"""Units of parameters that are left as they are."""

Under = Callable[[Parameters], float]
"""Microseconds of a launch that was recorded, with these numbers."""


@dataclass(frozen=True)
class Comparison:
    """One piece of work, by a peer's kernel and by ours; recorded when it is asked for."""

    name: str
    chip: str
    peer: Callable[[Parameters], tuple[Under, MachineLoop]]
    operator: str
    keys: dict[str, Any]

    def own(self, parameters: Parameters) -> tuple[Under, MachineLoop]:
        """Our kernel, by default choices."""
        operator, target = find_operator(self.operator), get_target(self.chip)
        problem = operator.problem(**self.keys)
        compiled = compile_kernel(operator, operator.spec(problem, target), target)
        model = OperatorModel(operator, problem, target, parameters, mode="sampled", compiled=compiled)
        loop = steady_loop(compiled.code_object, compiled.kernel_name)
        return lambda one: model.under(one).grid.microseconds, loop


class Arguments:
    """Arguments of AITER's assembly kernels, each of which takes 16 bytes; their order is that of the structures in its
    `csrc/include/asm_fmha_fwd_*.h` and `asm_gemm_*` (ROCm/aiter, MIT licence).
    """

    def __init__(self) -> None:
        self.raw = b""
        self.memories: list[DeviceMemory] = []

    def point(self, *memories: DeviceMemory) -> "Arguments":
        """Add addresses of memory, which lives as long as this does."""
        self.memories += memories
        return self.add("Q", *(one.address for one in memories))

    def add(self, kind: str, *values: float) -> "Arguments":
        """Append some of one kind of `struct`: Q for addresses, I for sizes, f for factors."""
        self.raw += b"".join(struct.pack(f"<{kind}", value).ljust(16, b"\0") for value in values)
        return self

    def of(self, code_object: CodeObject) -> list[int]:
        """As the kernel's metadata divides them."""
        fields = [self.raw[one.offset : one.offset + one.size] for one in code_object.kernel(None).arguments]
        return [int.from_bytes(field, "little") for field in fields]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="our kernels beside those of others, by the model of time")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", help="one chip only")
    parser.add_argument("--only", default="", help="comparisons whose names have this")
    parser.add_argument("--assumed", action="store_true", help="scale each assumed number by 0.7 and 1.3")
    options = parser.parse_args()
    rows = []
    print("| work | chip | theirs, us | ours, us | ours / theirs | " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * (5 + len(COLUMNS)))
    for one in comparisons(options.folder):
        if options.chip not in (None, one.chip) or options.only not in one.name:
            continue
        rows.append(compared(one, options.assumed))
        row = rows[-1]
        counts = " | ".join(f"{row['their loop'][name]:g}, {row['our loop'][name]:g}" for name in COLUMNS)
        print(f"| {one.name} | {one.chip} | {row['theirs']:.1f} | {row['ours']:.1f} | {row['ratio']:.2f} | {counts} |",
              flush=True)  # fmt: skip
    if options.assumed:
        print_assumed(rows)
    print(json.dumps({"peers": rows}))


def compared(one: Comparison, assumed: bool) -> dict[str, Any]:
    """Both kernels' time, and what their loops have per 64 matrix instructions."""
    parameters = load(one.chip)
    (theirs, their_loop), (ours, our_loop) = one.peer(parameters), one.own(parameters)
    times = theirs(parameters), ours(parameters)
    ratios = {name: ours(changed) / theirs(changed) for name, changed in scaled(parameters)} if assumed else {}
    return {
        "work": one.name,
        "chip": one.chip,
        "theirs": times[0],
        "ours": times[1],
        "ratio": times[1] / times[0],
        "their loop": shares(their_loop),
        "our loop": shares(our_loop),
        "assumed": ratios,
    }


def shares(loop: MachineLoop) -> dict[str, float]:
    """Instructions of each kind per 64 matrix instructions."""
    return {name: round(64 * loop.mix[name] / max(loop.mix["mfma"], 1), 1) for name in COLUMNS}


def scaled(parameters: Parameters) -> Iterator[tuple[str, Parameters]]:
    """Each assumed duration, rate, efficiency and depth of a queue, smaller and larger. What caches and banks are
    made of is not a matter of degree.
    """
    for name, entry in parameters.items():
        if entry.status == "assumed" and not isinstance(entry.value, str) and entry.unit not in MADE_OF:
            for factor in ASSUMED:
                value = round(entry.value * factor) if isinstance(entry.value, int) else min(entry.value * factor, 1.0)
                yield f"{name} {entry.value:g} -> {value:g}", parameters.with_values({name: value})


def print_assumed(rows: list[dict[str, Any]]) -> None:
    """Of each comparison: the assumed numbers that move it most, and those that turn it around."""
    print("\n| work | chip | ratio | least | most | turned around by |\n|---|---|---|---|---|---|")
    for row in rows:
        found = row["assumed"]
        least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
        turned = [name for name, ratio in found.items() if (ratio < 1) != (row["ratio"] < 1)]
        print(f"| {row['work']} | {row['chip']} | {row['ratio']:.2f} | {found[least]:.2f}: {least} "
              f"| {found[most]:.2f}: {most} | {'; '.join(turned) or 'none'} |")  # fmt: skip


def comparisons(folder: Path) -> Iterator[Comparison]:
    """What the folder has something for."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json" and "operator" in (described := json.loads(path.read_text())):
            code_object = CodeObject.parse((folder / described["code"]).read_bytes())
            peer = partial(described_peer, folder / described["launch"], code_object)
            name = path.stem.removeprefix(f"{code_object.target} ")
            yield Comparison(name, code_object.target, peer, described["operator"], described["keys"])
        elif path.suffix == ".co" and (match := ATTENTION.match(path.name)):
            chip, channels, causal = match[1], int(match[2]), bool(match[3])
            for heads, of_keys in HEADS:
                keys = {"b": 2, "h": heads, "hk": of_keys, "sq": 4096, "d": channels, "dtype": "bf16", "lse": 1,
                        "layout": "bshd", "mask": "bottom_right" if causal else "none"}  # fmt: skip
                name = f"attention bf16 d{channels}{' causal' if causal else ''}, {heads} and {of_keys} heads"
                yield Comparison(name, chip, partial(attention_peer, path, keys), "fmha_fwd", keys)
        elif path.suffix == ".co" and (match := PRODUCT.match(path.name)):
            tile = int(match[2]), int(match[3])
            for size in SIZES:
                keys = {"m": size, "n": size, "k": size, "dtype": "bf16"}
                yield Comparison(f"gemm bf16 {size}^3", match[1], partial(product_peer, path, tile, keys), "gemm", keys)


def recorded(
    simulator: Simulator,
    code_object: CodeObject,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    values: list[int],
    parameters: Parameters,
) -> tuple[Under, MachineLoop]:
    """A peer's launch, to be modelled under any numbers."""
    name = code_object.kernel(None).name
    trace = record_launch(simulator, code_object, name, grid, block, values, 0,
                          parameters=parameters, mode="sampled", shape=grid)  # fmt: skip
    loop = steady_loop(code_object, name)
    return lambda one: model_launch(trace, one, "sampled", grid).grid.microseconds, loop


def described_peer(launch: Path, code_object: CodeObject, parameters: Parameters) -> tuple[Under, MachineLoop]:
    """The kernel of any compiler, with a description of its launch."""
    description = read_launch(launch, code_object, None)
    case = record_foreign(code_object, description, parameters, "sampled")
    loop = steady_loop(code_object, description.kernel)
    return lambda one: model_launch(case.trace, one, "sampled", case.shape).grid.microseconds, loop


def attention_peer(path: Path, keys: dict[str, Any], parameters: Parameters) -> tuple[Under, MachineLoop]:
    """256 rows of Q a workgroup of eight waves; of a causal mask two blocks, one from each end."""
    b, h, hk, s, d = (keys[name] for name in ("b", "h", "hk", "sq", "d"))
    code_object, simulator, causal = CodeObject.parse(path.read_bytes()), Simulator(), keys["mask"] != "none"
    generator = np.random.default_rng(0)
    q, k, v = (bf16(generator.standard_normal((b, s, n, d), np.float32)) for n in (h, hk, hk))
    inputs = [simulator.upload(one, read_only=True) for one in (q, k, v)]
    out, lse = simulator.allocate(q.nbytes), simulator.allocate(4 * b * h * s)
    row, key_row, rows = 2 * h * d, 2 * hk * d, 256
    options = 5 - 2 * (causal and h % 8 != 0)
    given = Arguments().point(out, *inputs, lse).add("f", d**-0.5)
    given.add("I", s, row, rows * row, 2 * d, s * row, h // hk, key_row, 2 * d, s * key_row)
    given.add("I", options, 1, s, d, d, h, key_row, 2 * d, s * key_row, row, 2 * d, s * row)
    given.add("Q", 0, 0).add("I", 4 * s).add("Q", *[0] * 5).add("I", *[0] * 6)
    blocks = -(-s // rows)
    grid = (-(-blocks // 2) if causal else blocks, h, b)
    return recorded(simulator, code_object, grid, (512, 1, 1), given.of(code_object), parameters)


def product_peer(
    path: Path, tile: tuple[int, int], keys: dict[str, Any], parameters: Parameters
) -> tuple[Under, MachineLoop]:
    """D = A Bᵀ, a tile a workgroup of four waves."""
    m, n, k = keys["m"], keys["n"], keys["k"]
    code_object, simulator = CodeObject.parse(path.read_bytes()), Simulator()
    generator = np.random.default_rng(0)
    a, b = (bf16(generator.standard_normal((rows, k), np.float32)) for rows in (m, n))
    inputs = [simulator.upload(one, read_only=True) for one in (a, b)]
    out, flags = simulator.allocate(2 * m * n), simulator.upload(np.zeros(1 << 14, np.uint32))
    given = Arguments().point(out).add("Q", 0).point(*inputs).add("f", 1.0, 0.0)
    given.add("I", 2 * n, 0, 2 * n, 0, 2 * k, 0, 2 * k, 0, m, n, k, 1, 1).add("Q", 0).add("I", 0).point(flags)
    grid = (-(-n // tile[1]), -(-m // tile[0]), 1)
    return recorded(simulator, code_object, grid, (256, 1, 1), given.of(code_object), parameters)


def bf16(values: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Their upper halves, which is near enough for time."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


if __name__ == "__main__":
    main()
