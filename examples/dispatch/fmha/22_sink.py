"""A logit of each head that takes part in the sum; keys at the beginning that windows keep.

    python examples/dispatch/fmha/22_sink.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", sink=1, h=2, sq=40, sk=70, d=32)
    show("fmha_fwd", sink=1, mask="window_bottom_right:8,0,4", h=1, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
