"""Few queries and many keys: several workgroups share the keys, a second kernel combines.

    python examples/dispatch/fmha/16_splitkv.py
"""

from shown import choose, run


def main() -> None:
    chosen = choose("fmha_fwd_splitkv", splits=4, h=1, sq=3, sk=500, d=32, lse=1)
    for step in chosen.plan().steps:
        print(step)
    run(chosen)


if __name__ == "__main__":
    main()
