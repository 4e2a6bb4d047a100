"""Grouped heads: one head of K and V for several of Q, for all, for each.

    python examples/dispatch/fmha/15_gqa.py
"""

from shown import show


def main() -> None:
    for hk in (1, 2, 4):
        show("fmha_fwd", b=1, h=4, hk=hk, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
