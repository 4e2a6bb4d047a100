"""A registry of a space's kernels, written as JSON: signature and algorithm of each, and numbers of all.

    python examples/dispatch/06_json_export.py [FILE]
"""

import json
import sys
from pathlib import Path

from ckmlir.dispatch import Registry, Space
from ckmlir.ops import find_operator
from ckmlir.targets import all_targets


def main() -> None:
    space = Space(
        find_operator("gemm"),
        all_targets(),
        {"dtype": ("f16", "bf16", "fp8"), "m": (1024,), "n": (1024,), "k": (1024,)},
        {"schedule": ("compv3", "compv4"), "pad": ("", "mnk")},
    )
    found = space.expand()
    print(found)  # gfx90a has no 8-bit floats
    registry = Registry(found.kernels, name="gemm_example")
    text = json.dumps(registry.to_dict(), indent=1)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    print(json.dumps(registry.statistics()), len(text), "bytes")
    assert list(Registry.from_dict(json.loads(text))) == list(registry)


if __name__ == "__main__":
    main()
