"""Gradients in bf16.

    python examples/dispatch/fmha/35_bwd_bf16.py
"""

from shown import show


def main() -> None:
    show("fmha_bwd", dtype="bf16", h=1, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
