"""What the steady loops of products in 8 bits and fewer consist of: a table of docs/timing.md.

    python benchmarks/low_precision_loops.py [chip]

Default kernels for 4096 x 4096 x 4096 on gfx950, or on another chip. Instructions of a wave for each step along K, from
the machine code; registers that are spilled, of the kernel. Prints a table and one JSON line.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

COLUMNS = ("mfma", "valu", "moves", "salu", "lds", "vmem", "wait", "barrier")
SIZES = {"m": 4096, "n": 4096, "k": 4096}
TILES = {"a_major": "tiles", "b_major": "tiles"}
ROWS = {"a_scale": "1x128", "b_scale": "1x128"}
LOOPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemm", {"dtype": "fp8"}),
    ("gemm", {"dtype": "fp8", "b_dtype": "bf8"}),
    ("gemm", {"dtype": "i8"}),
    ("gemm_quant", {}),
    ("gemm_quant", {"dtype": "bf8"}),
    ("gemm_quant", ROWS),
    ("gemm_quant", {"a_scale": "row", "b_scale": "column"}),
    ("gemm_quant", {"b_dtype": "i4"}),
    ("gemm_int4", {}),
    ("gemm_int4", {"shuffled": 32}),
    ("gemm_fp4", {}),
    ("gemm_fp4", {"dtype": "bf16"}),
    ("mx_gemm", TILES),
    ("mx_gemm", {"dtype": "fp6", **TILES}),
    ("mx_gemm", {"dtype": "fp4", **TILES}),
    ("mx_gemm", {"dtype": "fp8", "b_dtype": "fp4", **TILES}),
    ("gemm_sparse", {"index_order": "pieces"}),
    ("gemm_sparse", {"dtype": "fp8", "index_order": "pieces"}),
)


def main() -> None:
    """Count and print."""
    chip = sys.argv[1] if len(sys.argv) > 1 else "gfx950"
    print(f"| product | block, waves, schedule | {' | '.join(COLUMNS)} | spilled |\n|{'---|' * (3 + len(COLUMNS))}")
    counted = {}
    for name, keys in LOOPS:
        what = " ".join((name, *(f"{key}={value}" for key, value in keys.items())))
        kernel, counts = counts_of(name, keys, chip)
        counted[what] = counts
        print(f"| `{what}` | {kernel} | {' | '.join(f'{one:g}' for one in counts.values())} |", flush=True)
    print(json.dumps(counted))


def counts_of(name: str, keys: dict[str, Any], chip: str) -> tuple[str, dict[str, float]]:
    """What kernel it is, and what stands in the columns."""
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**SIZES, **keys), target)
    kernel = compile_kernel(operator, spec, target)
    machine = steady_loop(kernel.code_object, kernel.kernel_name)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    steps = machine.mix["mfma"] * math.prod(spec.mfma) * spec.wave_count / math.prod(spec.block)
    counts = {**machine.mix, "moves": machine.mix["vmov"] + machine.mix["accvgpr_move"]}
    found = {column: round(counts[column] / steps, 1) for column in COLUMNS}
    found["spilled"] = metadata.vgpr_spill_count + metadata.sgpr_spill_count
    block, waves = ("x".join(map(str, one)) for one in (spec.block, spec.waves))
    return f"{block}, {waves}, `{spec.schedule}`", found


if __name__ == "__main__":
    main()
