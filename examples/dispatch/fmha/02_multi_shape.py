"""One dispatcher and one registry for many shapes; which of them share a kernel.

    python examples/dispatch/fmha/02_multi_shape.py
"""

from shown import candidates, run

from ckmlir.dispatch import Dispatcher, Registry
from ckmlir.targets import get_target


def main() -> None:
    gfx942, shapes = get_target("gfx942"), [(1, 70, 70), (1, 70, 100), (2, 33, 70), (3, 64, 64)]
    registry = Registry(name="shapes")
    for _, sq, sk in shapes:
        for kernel in candidates("fmha_fwd", "gfx942", sq=sq, sk=sk, d=32):
            registry.add(kernel)
    dispatcher = Dispatcher(registry, gfx942, strict=True)
    chosen = [dispatcher.select("fmha_fwd", b=b, h=1, sq=sq, sk=sk, d=32) for b, sq, sk in shapes]
    for one in chosen:
        run(one)
    print(len({one.kernel for one in chosen}), "kernels for", len(shapes), "shapes")


if __name__ == "__main__":
    main()
