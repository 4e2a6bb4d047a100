"""Scores that a tanh keeps below a bound.

    python examples/dispatch/fmha/21_logits_soft_cap.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", soft_cap=3.0, h=1, sq=40, sk=70, d=32)


if __name__ == "__main__":
    main()
