"""Head sizes of the backward pass.

    python examples/dispatch/fmha/38_bwd_sweep_hdim.py
"""

from shown import choose, run


def main() -> None:
    for d in (32, 64, 128):
        chosen = choose("fmha_bwd", h=1, sq=33, sk=64, d=d)
        print(d, len(chosen.plan().steps), "steps:", chosen.kernel.spec.name)
    run(chosen)


if __name__ == "__main__":
    main()
