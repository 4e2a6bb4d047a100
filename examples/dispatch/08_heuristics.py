"""Twenty-four kernels in six pools, and rules that choose among them: by size, by a table, by a function of one's own.

    python examples/dispatch/08_heuristics.py
"""

from ckmlir.dispatch import Dispatcher, Registry, SizeBuckets, Space, Table, request_of
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

POOLS = {
    "tiny": (32, 32, 64), "flat": (32, 128, 64), "small": (64, 64, 64), "wide": (64, 128, 64), "tall": (128, 64, 64),
    "large": (128, 128, 64),
}  # fmt: skip


def main() -> None:
    gemm, gfx942 = find_operator("gemm"), get_target("gfx942")
    sizes = {"m": (1000,), "n": (1000,), "k": (1000,)}
    pools = {}
    for name, block in POOLS.items():
        schedules = ("v1", "v2", "compv3", "compv4")
        fields = {"block": (block,), "mfma": ((16, 16, 16),), "schedule": schedules, "pad": ("mnk",)}
        pools[name] = Registry(Space(gemm, (gfx942,), sizes, fields).expand().kernels, name=name)
    whole = Registry(name="all")
    for pool in pools.values():
        whole.merge(pool)
    print(f"{len(whole)} kernels in {len(pools)} pools")

    def shaped(query, fitting):
        """The pool that has the product's shape; of it the kernel that loads furthest ahead."""
        m, n = query.value("m"), query.value("n")
        pool = "flat" if m <= 32 < n else "tall" if m > 4 * n else "wide" if n > 4 * m else None
        return None if pool is None else list(pools[pool])[::-1]

    tuned = Table({request_of(gemm, {"m": 5120, "n": 5120, "k": 8192}, gfx942): list(pools["large"])[2].identifier})
    dispatcher = Dispatcher(whole, gfx942, [tuned, shaped, SizeBuckets("m")], strict=True)
    for m, n, k in ((16, 4096, 1000), (64, 64, 512), (4096, 512, 512), (1000, 1000, 1000), (5120, 5120, 8192)):
        found = dispatcher.select("gemm", m=m, n=n, k=k)
        pool = next(name for name, one in pools.items() if found.kernel in one)
        print(f"{m:>5} x {n:<5} {pool:<6} {found.kernel.spec.schedule:<7} by {found.rule}")


if __name__ == "__main__":
    main()
