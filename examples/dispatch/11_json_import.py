"""A space in JSON becomes kernels, as `ckmlir build` reads it; a registry in JSON is read, whole or in part.

    python examples/dispatch/11_json_import.py
"""

import json

from ckmlir.dispatch import Registry, Space
from ckmlir.ops.request import RequestError

SPACE = """
{"schema": 1, "op": "fmha_fwd", "arch": ["gfx942", "gfx950"],
 "keys": {"d": [64, 128], "dtype": ["f16", "bf16"], "mask": ["none", "top_left"], "sq": 1024},
 "algorithm": {"schedule": ["qr", "qr_async", "qr_async_trload"]}}
"""


def main() -> None:
    found = Space.from_dict(json.loads(SPACE)).expand()
    print(found)  # gfx942 has no reads of LDS that transpose
    values = Registry(found.kernels, name="attention").to_dict()
    values["kernels"][0]["algorithm"]["waves"] = "four"
    try:
        Registry.from_dict(values)
    except RequestError as error:
        print(error)
    print(len(Registry.from_dict(values, partial=True)), "of", len(found.kernels), "can be read")


if __name__ == "__main__":
    main()
