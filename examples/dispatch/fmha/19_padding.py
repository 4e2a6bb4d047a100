"""Sequences of several lengths: with gaps between batches, and one behind the other.

    python examples/dispatch/fmha/19_padding.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", b=2, h=1, sq=40, sk=70, seqlens_k="70,33", d=32)
    show("fmha_fwd", mode="group", seqlens_q="5,0,33", seqlens_k="70,8,33", h=1, d=32)
    show("fmha_fwd", mode="group", seqlens_q="5,33", seqlens_k="8,33", slots_q="8,40", slots_k="16,40", h=1, d=32)


if __name__ == "__main__":
    main()
