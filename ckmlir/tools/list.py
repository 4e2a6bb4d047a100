"""`ckmlir list`: the operators; of one, or on one chip, the kernels that they have by default; of a request its steps.

Nothing is compiled. The operators are in the registry; which kernels they have takes their modules, and a choice for
each of their default problems, so that it is said where it is asked for.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.targets import TARGETS, Target, all_targets, get_target
from ckmlir.tools.kept_text import kept_text

if TYPE_CHECKING:
    from ckmlir.ops.operator import Operator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("operator", nargs="?", metavar="OP", help="this operator, with its kernels")
    add("keys", nargs="*", metavar="key=value", help="what is queued for this request, step by step")
    add("--arch", metavar="A", help=f"this chip, with the kernels of all operators: {', '.join(TARGETS)}")
    add("--json", action="store_true", help="one JSON object, with keys and kernels of all operators")


def execute(options: argparse.Namespace) -> int:
    if options.keys:
        from ckmlir.ops.request import parse_assignments
        from ckmlir.tools.request import find_target

        targets = all_targets() if options.arch is None else (find_target(options.arch),)
        operator = find_operator(options.operator)
        return _steps(operator, operator.problem(**parse_assignments(options.keys)), targets, as_json=options.json)
    if options.arch is not None and options.arch not in TARGETS:
        from ckmlir.tools.request import find_target

        find_target(options.arch)  # says which there are
    if options.operator is not None and options.operator not in OPERATORS:
        find_operator(options.operator)  # likewise
    if options.operator is None and options.arch is None and not options.json:
        print(_operators())
        return 0
    words = ("list", options.operator or "", options.arch or "", str(options.json))
    print(kept_text(words, lambda: _listed(options.operator, options.arch, as_json=options.json)))
    return 0


def _operators() -> str:
    """What there is, by the registry."""
    lines = [f"{name}: {entry.summary}" for name, entry in OPERATORS.items()]
    more = "ckmlir list OP names an operator's kernels, ckmlir list --arch A those of all on a chip."
    return "\n".join([*lines, "", more])


def _listed(name: str | None, arch: str | None, *, as_json: bool) -> str:
    """The operators, or one, with their kernels on all chips, or one."""
    targets = all_targets() if arch is None else (get_target(arch),)
    operators = [find_operator(one) for one in (OPERATORS if name is None else (name,))]
    kernels = [
        {"arch": target.name, "op": operator.name, "name": spec.name, "spec": spec.to_dict()}
        for target in targets
        for operator in operators
        for spec in operator.kernels(target)
    ]
    if as_json:
        about = [
            {
                "name": operator.name,
                "summary": operator.summary,
                "keys": [{"name": key.name, "form": key.form, "help": key.help} for key in operator.keys],
            }
            for operator in operators
        ]
        return json.dumps({"operators": about, "kernels": kernels})
    lines = []
    for operator in operators:
        lines.append(f"{operator.name}: {operator.summary}")
        lines += [f"  {one['arch']}  {one['name']}" for one in kernels if one["op"] == operator.name]
    return "\n".join(lines)


def _steps(operator: Operator[Any, Any], problem: Any, targets: tuple[Target, ...], *, as_json: bool) -> int:
    """What is queued for a problem on each chip."""
    from ckmlir.ops.plan import described, make_plan

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
