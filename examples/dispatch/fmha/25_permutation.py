"""Heads before rows in memory, and rows before heads.

    python examples/dispatch/fmha/25_permutation.py
"""

from shown import show


def main() -> None:
    for layout in ("bhsd", "bshd"):
        show("fmha_fwd", layout=layout, b=2, h=2, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
