"""8-bit floats with a scale for each tensor; O in bf16.

    python examples/dispatch/fmha/20_fp8.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", dtype="fp8", out="bf16", q_scale=0.5, k_scale=0.25, v_scale=2.0, h=1, sq=40, sk=64, d=64)


if __name__ == "__main__":
    main()
