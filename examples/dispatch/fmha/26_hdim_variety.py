"""Head sizes: small ones, such that fill no tile, other ones for V.

    python examples/dispatch/fmha/26_hdim_variety.py
"""

from shown import show


def main() -> None:
    for d, dv in ((32, 32), (40, 40), (64, 32)):
        show("fmha_fwd", d=d, dv=dv, h=1, sq=40, sk=70)


if __name__ == "__main__":
    main()
