"""What the kernels that `ckmlir list --arch` names cost: registers, spills, LDS, instructions and their steady loops.

    python benchmarks/listed_kernels.py --save before.json        # in one checkout
    python benchmarks/listed_kernels.py --against before.json     # in another: the kernels that changed, and totals

One in `--every` kernels is compiled, chosen by its name, so that two checkouts choose the same ones. Compile time is
processor time of the whole set, of each kernel the least of `--repeats` (an operator's first one loads modules), to be
compared between runs side by side only; all other figures are counts.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckmlir.compiler import compile_kernel
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import all_targets

COUNTS = ("vgprs", "sgprs", "vector_spills", "scalar_spills", "lds", "code", "loop", "loop_valu", "loop_salu")
Costs = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description="what listed kernels cost")
    parser.add_argument("--every", type=int, default=5, metavar="N", help="one kernel in N, by name")
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="compilations of each, the least counts")
    parser.add_argument("--operators", default=",".join(OPERATORS), metavar="NAME,…")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--against", type=Path, metavar="FILE", help="what an earlier run saved")
    options = parser.parse_args()
    measured = dict(kernels(options.operators.split(","), options.every, options.repeats))
    if options.save:
        options.save.write_text(json.dumps(measured))
    if options.against:
        compare(json.loads(options.against.read_text()), measured)
    else:
        print(json.dumps({"kernels": len(measured), **totals(measured)}))


def kernels(operators: list[str], every: int, repeats: int) -> Iterator[tuple[str, Costs]]:
    """The costs of each kernel by `chip operator name`."""
    for target in all_targets():
        for operator in map(find_operator, operators):
            for spec in operator.kernels(target):
                if zlib.crc32(f"{target.name} {spec.name}".encode()) % every:
                    continue
                seconds = float("inf")
                for _ in range(repeats):
                    start = time.process_time()
                    compiled = compile_kernel(operator, spec, target)
                    seconds = min(seconds, time.process_time() - start)
                metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
                loop = steady_loop(compiled.code_object, compiled.kernel_name)
                yield (
                    f"{target.name} {operator.name} {spec.name}",
                    {
                        "vgprs": metadata.vgpr_count,
                        "sgprs": metadata.sgpr_count,
                        "vector_spills": metadata.vgpr_spill_count,
                        "scalar_spills": metadata.sgpr_spill_count,
                        "lds": metadata.group_segment_size,
                        "code": compiled.code_object.kernel(compiled.kernel_name).size,
                        "loop": len(loop.instructions),
                        "loop_valu": loop.mix["valu"] + loop.mix["vmov"],
                        "loop_salu": loop.mix["salu"],
                        "seconds": seconds,
                    },
                )


def totals(measured: dict[str, Costs]) -> dict[str, Any]:
    return {count: sum(costs[count] for costs in measured.values()) for count in (*COUNTS, "seconds")}


def compare(before: dict[str, Costs], now: dict[str, Costs]) -> None:
    """Print the kernels whose counts differ, then totals of those that both runs have."""
    both = [name for name in now if name in before]
    for name in both:
        was, is_ = before[name], now[name]
        changed = [f"{one} {was[one]:g} → {is_[one]:g}" for one in COUNTS if was[one] != is_[one]]
        if changed:
            print(f"{name}: {', '.join(changed)}")
    old, new = totals({name: before[name] for name in both}), totals({name: now[name] for name in both})
    print(f"\n{len(both)} kernels in both, {len(now) - len(both)} new, {len(before) - len(both)} gone")
    print("| | before | now | ratio |\n|---|---|---|---|")
    for count in (*COUNTS, "seconds"):
        print(f"| {count} | {old[count]:g} | {new[count]:g} | {new[count] / max(old[count], 1e-9):.3f} |")


if __name__ == "__main__":
    main()
