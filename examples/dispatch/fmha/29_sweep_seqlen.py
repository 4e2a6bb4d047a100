"""Many lengths, few kernels.

    python examples/dispatch/fmha/29_sweep_seqlen.py
"""

from shown import choose, run


def main() -> None:
    kernels = set()
    for length in (1, 17, 63, 65, 100, 300):
        chosen = choose("fmha_fwd", h=1, sq=length, sk=length, d=32)
        run(chosen)
        kernels.add(chosen.kernel)
    print(len(kernels), "kernels")


if __name__ == "__main__":
    main()
