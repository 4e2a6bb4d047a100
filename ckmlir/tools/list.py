"""`ckmlir list`: the operators and the kernels that they have by default on each chip; of a request its steps.

Nothing is compiled.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.plan import described, make_plan
from ckmlir.ops.request import parse_assignments
from ckmlir.targets import TARGETS, Target, all_targets
from ckmlir.tools.request import find_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("operator", nargs="?", metavar="OP", help="only this operator")
    add("keys", nargs="*", metavar="key=value", help="what is queued for this request, step by step")
    add("--arch", metavar="A", help=f"only this chip: {', '.join(TARGETS)}")
    add("--json", action="store_true", help="one JSON object")


def execute(options: argparse.Namespace) -> int:
    targets = all_targets() if options.arch is None else (find_target(options.arch),)
    if options.keys:
        operator = find_operator(options.operator)
        return _steps(operator, operator.problem(**parse_assignments(options.keys)), targets, as_json=options.json)
    operators = [find_operator(name) for name in (OPERATORS if options.operator is None else (options.operator,))]
    kernels = [
        {"arch": target.name, "op": operator.name, "name": spec.name, "spec": spec.to_dict()}
        for target in targets
        for operator in operators
        for spec in operator.kernels(target)
    ]
    if options.json:
        about = [
            {
                "name": operator.name,
                "summary": operator.summary,
                "keys": [{"name": key.name, "form": key.form, "help": key.help} for key in operator.keys],
            }
            for operator in operators
        ]
        print(json.dumps({"operators": about, "kernels": kernels}))
        return 0
    for operator in operators:
        print(f"{operator.name}: {operator.summary}")
        for kernel in kernels:
            if kernel["op"] == operator.name:
                print(f"  {kernel['arch']}  {kernel['name']}")
    return 0


def _steps(operator: Operator[Any, Any], problem: Any, targets: tuple[Target, ...], *, as_json: bool) -> int:
    """What is queued for a problem on each chip."""
    plans = {target.name: make_plan(operator, problem, target) for target in targets}
    if as_json:
        found = {
            name: {
                "steps": [described(step) for step in plan.steps],
                "workspaces": [{"name": one.name, "bytes": one.nbytes} for one in plan.workspaces],
            }
            for name, plan in plans.items()
        }
        print(json.dumps({"op": operator.name, "plans": found}))
        return 0
    for name, plan in plans.items():
        print(f"{operator.name} on {name}: " + ("nothing to launch" if not plan.steps else "what is queued"))
        for number, step in enumerate(plan.steps, 1):
            print(f"  step {number}: {step}")
        for workspace in plan.workspaces:
            print(f"  workspace {workspace.name}: {workspace.nbytes} bytes")
    return 0
