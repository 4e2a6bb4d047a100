"""The reference of docs/calls.md, from docstrings: `python -m ckmlir.tools.calls_table docs/calls.md` renews it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ckmlir import nn
from ckmlir.tools.made_text import MadeText


def functions() -> dict[str, Callable[..., Any]]:
    """The functions on arrays by name, sorted."""
    return {name: getattr(nn, name) for name in sorted(nn.__all__) if inspect.isfunction(getattr(nn, name))}


def calls_table() -> str:
    """Every function in Markdown: how it is called, and what its docstring says."""
    parts = []
    for name, function in functions().items():
        parts.append(f"#### {name}\n\n```text\n{name}{_parameters(function)}\n\n{inspect.getdoc(function)}\n```")
    return "\n\n".join(parts)


def _parameters(function: Callable[..., Any]) -> str:
    """The parameters without their types."""
    given = inspect.signature(function)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in given.parameters.values()]
    return str(given.replace(parameters=bare, return_annotation=inspect.Signature.empty))


MADE = MadeText("functions", "ckmlir.tools.calls_table", calls_table)

if __name__ == "__main__":
    MADE.main()
