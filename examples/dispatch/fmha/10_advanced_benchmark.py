"""Candidates ranked by the model of time, where its packages are installed; no GPU is asked.

    python examples/dispatch/fmha/10_advanced_benchmark.py
"""

from shown import choose

from ckmlir.dispatch import FastestByModel


def main() -> None:
    policy = FastestByModel(most=2)
    chosen = choose("fmha_fwd", policies=[policy], h=2, sq=256, sk=256, d=64)
    for (kernel, _), microseconds in sorted(policy.microseconds.items(), key=lambda one: one[1]):
        print(f"{microseconds:8.2f} µs by the model  {kernel.spec.name}")
    print("chosen by", chosen.rule)


if __name__ == "__main__":
    main()
