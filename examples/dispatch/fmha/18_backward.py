"""Gradients of Q, K and V: three kernels, listed and run.

    python examples/dispatch/fmha/18_backward.py
"""

from shown import choose, run


def main() -> None:
    chosen = choose("fmha_bwd", h=1, sq=70, sk=64, d=32)
    for step in chosen.plan().steps:
        print(step)
    run(chosen)


if __name__ == "__main__":
    main()
