"""Gradients under dropout: the same random numbers again.

    python examples/dispatch/fmha/27_bwd_dropout.py
"""

from shown import show


def main() -> None:
    show("fmha_bwd", dropout=0.2, seed=7, h=1, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
