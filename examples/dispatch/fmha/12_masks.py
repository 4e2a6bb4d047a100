"""Masks: causal from either corner, a window, and keys that all may see before it.

    python examples/dispatch/fmha/12_masks.py
"""

from shown import show


def main() -> None:
    for mask in ("top_left", "bottom_right", "window:8,0", "window_bottom_right:8,2,3"):
        show("fmha_fwd", mask=mask, h=1, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
