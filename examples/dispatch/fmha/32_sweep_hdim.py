"""Which head sizes there are kernels for, on every chip; one of them runs.

    python examples/dispatch/fmha/32_sweep_hdim.py
"""

from shown import candidates, show

from ckmlir.targets import TARGETS


def main() -> None:
    for arch in TARGETS:
        sizes = [d for d in (32, 48, 64, 80, 96, 128, 160, 192, 256) if candidates("fmha_fwd", arch, sq=70, sk=70, d=d)]
        print(arch, *sizes)
    show("fmha_fwd", h=1, sq=33, sk=70, d=48)


if __name__ == "__main__":
    main()
