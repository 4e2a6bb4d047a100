"""Several registries side by side: for compute, for latency, for everything; merged with priorities and explained.

    python examples/dispatch/09_registries.py
"""

from ckmlir.dispatch import Dispatcher, NoKernel, Registry, Space
from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def registry(name, block, schedule):
    fields = {"block": (block,), "schedule": (schedule,), "pad": ("mnk",), "mfma": ((16, 16, 16),)}
    sizes = {"m": (512,), "n": (512,), "k": (512,)}
    return Registry(Space(find_operator("gemm"), (get_target("gfx942"),), sizes, fields).expand().kernels, name=name)


def main() -> None:
    gfx942 = get_target("gfx942")
    compute = registry("compute", (128, 128, 64), "compv4")
    latency = registry("latency", (64, 64, 64), "v1")
    both = Registry(name="both")
    both.merge(compute)
    both.merge(latency, priority=1)  # of kernels that do, these come first
    for one in (compute, latency, both):
        chosen = Dispatcher(one, gfx942, strict=True).select("gemm", m=500, n=304, k=200)
        print(f"{one.name:<8} {chosen.kernel.spec.name}")
    try:
        Dispatcher(both, gfx942, strict=True).select("gemm", m=500, n=304, k=200, dtype="bf16")
    except NoKernel as error:
        print(error)
    print(both.explain(find_operator("gemm"), find_operator("gemm").problem(m=500, n=304, k=201), gfx942))


if __name__ == "__main__":
    main()
