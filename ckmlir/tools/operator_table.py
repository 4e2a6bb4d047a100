"""The operator table of README.md, from the registry: `python -m ckmlir.tools.operator_table README.md` renews it."""

from __future__ import annotations

from typing import Any

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import Choice
from ckmlir.tools.made_text import MadeText


def operator_table() -> str:
    """The table in Markdown: a row for every operator in the registry's order."""
    rows = ["| operator | what it computes | element types |", "|---|---|---|"]
    for name, entry in OPERATORS.items():
        rows.append(f"| `{name}` | {entry.summary} | {', '.join(_types(find_operator(name)))} |")
    return "\n".join(rows)


def _types(operator: Operator[Any, Any]) -> tuple[str, ...]:
    """What the key `dtype` may be; "fixed" without one."""
    return next((key.choices for key in operator.keys if key.name == "dtype" and isinstance(key, Choice)), ("fixed",))


MADE = MadeText("operators", "ckmlir.tools.operator_table", operator_table)

if __name__ == "__main__":
    MADE.main()
