"""Any number of batches by one kernel.

    python examples/dispatch/fmha/30_sweep_batch.py
"""

from shown import choose, run


def main() -> None:
    chosen = [choose("fmha_fwd", b=b, h=1, sq=33, sk=70, d=32) for b in (1, 2, 5)]
    for one in chosen:
        run(one)
    print(len({one.kernel for one in chosen}), "kernel")


if __name__ == "__main__":
    main()
