"""Gradients under masks.

    python examples/dispatch/fmha/33_bwd_masks.py
"""

from shown import show


def main() -> None:
    for mask in ("top_left", "bottom_right", "window:8,2"):
        show("fmha_bwd", mask=mask, h=1, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
