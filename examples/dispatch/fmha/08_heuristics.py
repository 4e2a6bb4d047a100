"""Rules that choose: the smallest block of queries that is enough, and a function of one's own.

    python examples/dispatch/fmha/08_heuristics.py
"""

from ckmlir.dispatch import Dispatcher, Registry, SizeBuckets, Space
from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def main() -> None:
    gfx942 = get_target("gfx942")
    keys = {"sq": (1000,), "sk": (1000,), "d": (64,), "h": (1,)}
    fields = {"block": "*", "mfma": "*", "waves": "*", "schedule": ("qr",)}
    found = Space(find_operator("fmha_fwd"), (gfx942,), keys, fields).expand()
    registry = Registry(found.kernels, name="blocks")

    def long_rows(query, fitting):
        """With many keys the largest block."""
        return max(fitting, key=lambda one: one.spec.block) if query.value("sk") > 4000 else None

    dispatcher = Dispatcher(registry, gfx942, [long_rows, SizeBuckets("sq")], strict=True)
    for sq, sk in ((16, 500), (64, 500), (100, 500), (1000, 500), (16, 5000)):
        chosen = dispatcher.select("fmha_fwd", h=1, sq=sq, sk=sk, d=64)
        print(f"{sq:>5} queries, {sk:>5} keys: {chosen.kernel.spec.block} by {chosen.rule}")


if __name__ == "__main__":
    main()
