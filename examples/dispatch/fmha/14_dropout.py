"""Dropout, with the random bytes that decided.

    python examples/dispatch/fmha/14_dropout.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", dropout=0.2, seed=7, randval=1, lse=1, h=1, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
