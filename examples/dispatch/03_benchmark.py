"""Several kernels for one product: on a GPU the time of each, on the simulator what it does.

    python examples/dispatch/03_benchmark.py
"""

from contextlib import closing

from ckmlir.dispatch import Space
from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.bench import measure
from ckmlir.targets import get_target


def main() -> None:
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    fields = {"block": ((64, 64, 64), (128, 128, 64)), "schedule": ("v1", "compv3"), "mfma": ((16, 16, 16),)}
    kernels = Space(gemm, (gfx942,), {"m": (256,), "n": (256,), "k": (256,)}, fields).expand().kernels
    problem = gemm.problem(m=256, n=256, k=256)
    arrays = gemm.inputs(problem, gfx942)
    with closing(open_device("auto", gfx942)) as device:
        for kernel in kernels:
            found = measure(gemm, problem, arrays, gfx942, device, spec=kernel.spec)
            if found.times is not None:
                print(f"{1e6 * found.times.median:8.2f} µs  {found.tflops:7.1f} TFLOPS  {kernel.spec.name}")
            else:
                counts = found.counts or {}
                done, read = counts["wave_instructions"], counts["bytes_read"]
                print(f"{done:8} wave instructions  {read:9} bytes read  {kernel.spec.name}")


if __name__ == "__main__":
    main()
