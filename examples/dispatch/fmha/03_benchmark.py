"""How fast attention is: on a GPU its time, on the simulator what it does.

    python examples/dispatch/fmha/03_benchmark.py
"""

from contextlib import closing

from shown import choose

from ckmlir.runtime import open_device
from ckmlir.runtime.bench import measure
from ckmlir.targets import get_target


def main() -> None:
    gfx942 = get_target("gfx942")
    chosen = choose("fmha_fwd", h=1, sq=128, sk=128, d=64)
    operator, problem = chosen.query.operator, chosen.query.problem
    arrays = operator.inputs(problem, gfx942)
    with closing(open_device("auto", gfx942)) as device:
        found = measure(operator, problem, arrays, gfx942, device, spec=chosen.kernel.spec)
    if found.times is not None:
        print(f"{1e6 * found.times.median:.1f} µs, {found.tflops:.1f} TFLOPS")
    else:
        instructions = (found.counts or {})["mfma"]
        print(found.flops, "operations,", instructions, "matrix instructions; the simulator has no times")


if __name__ == "__main__":
    main()
