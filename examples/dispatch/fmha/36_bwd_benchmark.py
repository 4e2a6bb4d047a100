"""How long each kernel of the backward pass takes, by the model of time; no GPU is asked.

    python examples/dispatch/fmha/36_bwd_benchmark.py
"""

from shown import choose

from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target


def main() -> None:
    chosen = choose("fmha_bwd", h=2, sq=128, sk=128, d=64)
    parameters = load("gfx942")
    for kernel in model_kernels(chosen.query.operator, chosen.query.problem, get_target("gfx942"), parameters):
        print(f"{kernel.under(parameters).grid.microseconds:8.2f} µs by the model  {kernel.step.spec.name}")


if __name__ == "__main__":
    main()
