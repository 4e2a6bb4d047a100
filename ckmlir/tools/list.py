"""`ckmlir list`: the operators and the kernels that they have by default on each chip. Nothing is compiled."""

from __future__ import annotations

import argparse
import json

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.targets import TARGETS, all_targets
from ckmlir.tools.request import find_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arch", metavar="A", help=f"only this chip: {', '.join(TARGETS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def execute(options: argparse.Namespace) -> int:
    targets = all_targets() if options.arch is None else (find_target(options.arch),)
    operators = [find_operator(name) for name in OPERATORS]
    kernels = [
        {"arch": target.name, "op": operator.name, "name": spec.name, "spec": spec.to_dict()}
        for target in targets
        for operator in operators
        for spec in operator.kernels(target)
    ]
    if options.json:
        described = [
            {
                "name": operator.name,
                "summary": operator.summary,
                "keys": [{"name": key.name, "form": key.form, "help": key.help} for key in operator.keys],
            }
            for operator in operators
        ]
        print(json.dumps({"operators": described, "kernels": kernels}))
        return 0
    for operator in operators:
        print(f"{operator.name}: {operator.summary}")
        for kernel in kernels:
            if kernel["op"] == operator.name:
                print(f"  {kernel['arch']}  {kernel['name']}")
    return 0
