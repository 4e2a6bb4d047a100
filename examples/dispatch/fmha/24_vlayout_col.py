"""V by columns: the keys of a channel side by side.

    python examples/dispatch/fmha/24_vlayout_col.py
"""

from shown import show


def main() -> None:
    show("fmha_fwd", v_layout="columns", h=1, sq=40, sk=64, d=32)


if __name__ == "__main__":
    main()
