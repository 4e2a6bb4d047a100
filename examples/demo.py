"""Three operators from tile code to gfx942 code objects, run on the simulator and compared with NumPy.

    python examples/demo.py [--arch gfx942]

Nothing here needs a GPU: the code objects are those that a GPU would load, executed by ckmlir's own gfx9 simulator.
"""

import argparse
import sys
import time

from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

REQUESTS = (
    ("gemm", {"m": 512, "n": 384, "k": 1024, "dtype": "f16"}),
    ("gemm", {"m": 300, "n": 200, "k": 100, "dtype": "bf16", "out": "f32", "layout": "RRR"}),
    ("layernorm2d", {"m": 200, "n": 4096, "dtype": "f16"}),
    ("layernorm2d", {"m": 33, "n": 10000, "dtype": "bf16", "add": "store", "save_stats": 1}),
    ("fmha_fwd", {"b": 1, "h": 4, "hk": 2, "sq": 256, "sk": 512, "d": 128, "dtype": "f16", "mask": "bottom_right"}),
    ("fmha_fwd", {"b": 2, "h": 2, "sq": 77, "sk": 200, "d": 64, "dtype": "bf16", "mask": "window:64,0", "lse": 1}),
)


def main() -> int:
    """Run every request; 0 when all agree with their references."""
    parser = argparse.ArgumentParser(description="three operators on the simulator")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    target = get_target(parser.parse_args().arch)
    device = open_device("sim", target)
    print(f"{target.name} ({target.product}) code objects on the simulator; no GPU is involved\n")
    print(f"{'operator':12} {'kernel':96} {'compile':>9} {'run':>8}  {'largest error':>13}  result")
    agreed = True
    for name, keys in REQUESTS:
        operator = find_operator(name)
        problem = operator.problem(**keys)
        arrays = operator.inputs(problem, target)
        start = time.perf_counter()
        result = run_operator(operator, problem, arrays, target, device)
        elapsed = time.perf_counter() - start
        comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
        ok = all(comparison.ok for comparison in comparisons)
        agreed = agreed and ok
        error = max(comparison.max_abs_err for comparison in comparisons)
        kernel = result.kernel.kernel_name if result.kernel else "(nothing to launch)"
        run_seconds = elapsed - result.compile_seconds
        print(
            f"{name:12} {kernel:96} {1e3 * result.compile_seconds:6.0f} ms {run_seconds:6.2f} s  {error:13.3g}  "
            f"{'agrees with NumPy' if ok else 'DISAGREES'}",
            flush=True,
        )
    print("\nSee `ckmlir compile gemm --arch gfx942 -o gemm.hsaco --print-after all` for the IR at every step between.")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
