"""A bias for all, for heads, for batches and heads; ALiBi.

    python examples/dispatch/fmha/13_bias.py
"""

from shown import show


def main() -> None:
    for bias in ("one", "head", "batch"):
        show("fmha_fwd", bias=bias, b=2, h=2, sq=40, sk=70, d=32)
    show("fmha_fwd", alibi="head", h=2, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
