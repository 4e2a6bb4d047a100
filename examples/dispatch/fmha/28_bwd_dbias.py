"""The gradient of a bias.

    python examples/dispatch/fmha/28_bwd_dbias.py
"""

from shown import show


def main() -> None:
    show("fmha_bwd", bias="head", dbias=1, h=2, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
