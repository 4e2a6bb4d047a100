"""Gradients with grouped heads: those of K and V are summed over the group.

    python examples/dispatch/fmha/34_bwd_gqa.py
"""

from shown import show


def main() -> None:
    show("fmha_bwd", h=4, hk=2, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
