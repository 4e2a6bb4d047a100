"""The operator table of README.md, from the registry: `python -m ckmlir.tools.operator_table README.md` renews it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import Choice

BEGIN, END = "<!-- operators: made by ckmlir.tools.operator_table -->", "<!-- end of operators -->"


def operator_table() -> str:
    """The table in Markdown: a row for every operator in the registry's order."""
    rows = ["| operator | what it computes | element types |", "|---|---|---|"]
    for name in OPERATORS:
        operator = find_operator(name)
        rows.append(f"| `{name}` | {operator.summary} | {', '.join(_types(operator))} |")
    return "\n".join(rows)


def _types(operator: Operator[Any, Any]) -> tuple[str, ...]:
    """What the key `dtype` may be; "fixed" without one."""
    return next((key.choices for key in operator.keys if key.name == "dtype" and isinstance(key, Choice)), ("fixed",))


def with_table(text: str) -> str:
    """A document with the table between its two marks renewed. Raises ValueError when it does not have them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for the operator table: expected the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{operator_table()}\n{END}{after}"


def main() -> None:
    """Renew the table in the file named, or print it."""
    if len(sys.argv) == 1:
        print(operator_table())
        return
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    main()
