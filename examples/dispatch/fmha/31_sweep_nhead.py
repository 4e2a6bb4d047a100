"""Any number of heads by one kernel.

    python examples/dispatch/fmha/31_sweep_nhead.py
"""

from shown import show


def main() -> None:
    for h in (1, 3, 8):
        show("fmha_fwd", h=h, sq=33, sk=70, d=32)


if __name__ == "__main__":
    main()
