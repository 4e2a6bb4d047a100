"""Gradients without atomics: the same bits in every run.

    python examples/dispatch/fmha/37_bwd_deterministic.py
"""

from shown import show


def main() -> None:
    show("fmha_bwd", deterministic=1, h=1, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
