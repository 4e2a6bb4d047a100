"""Registries side by side, for prompts and for single tokens; merged, with a priority.

    python examples/dispatch/fmha/09_multi_registry.py
"""

from shown import candidates

from ckmlir.dispatch import Dispatcher, Registry
from ckmlir.targets import get_target


def main() -> None:
    prompts = Registry(candidates("fmha_fwd", "gfx942", sq=1000, sk=1000, d=64), name="prompts")
    tokens = Registry(candidates("fmha_fwd", "gfx942", sq=1, sk=1000, d=64), name="tokens")
    both = Registry(name="both")
    both.merge(prompts)
    both.merge(tokens, priority=1)
    for one in (prompts, tokens, both):
        chosen = Dispatcher(one, get_target("gfx942")).select("fmha_fwd", sq=1, sk=1000, d=64)
        print(f"{one.name:<8} {chosen}")


if __name__ == "__main__":
    main()
