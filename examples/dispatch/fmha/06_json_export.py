"""A registry of attention's kernels as JSON, and back.

    python examples/dispatch/fmha/06_json_export.py
"""

import json

from ckmlir.dispatch import Registry, Space
from ckmlir.ops import find_operator
from ckmlir.targets import all_targets


def main() -> None:
    keys = {"d": (64, 128), "dtype": ("f16", "bf16"), "mask": ("none", "bottom_right")}
    registry = Registry(Space(find_operator("fmha_fwd"), all_targets(), keys).expand().kernels, name="attention")
    text = json.dumps(registry.to_dict(), indent=1)
    print(json.dumps(registry.statistics()), len(text), "bytes")
    assert list(Registry.from_dict(json.loads(text))) == list(registry)


if __name__ == "__main__":
    main()
