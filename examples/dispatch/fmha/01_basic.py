"""One kernel, chosen for a problem, run and compared with NumPy.

    python examples/dispatch/fmha/01_basic.py
"""

from shown import choose, run


def main() -> None:
    chosen = choose("fmha_fwd", b=2, h=2, sq=70, sk=70, d=64)
    print(chosen)
    run(chosen)


if __name__ == "__main__":
    main()
