"""README's operator table is what the registry says; the language's names are what their docstrings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckmlir import lang
from ckmlir.ops import OPERATORS
from ckmlir.tools import calls_table, language_table
from ckmlir.tools.operator_table import MADE, operator_table

ROOT = Path(__file__).resolve().parents[2]


def test_readme_is_current() -> None:
    """`python -m ckmlir.tools.operator_table README.md` would change nothing."""
    text = (ROOT / "README.md").read_text()
    assert MADE.renewed(text) == text


def test_the_list_of_the_languages_names_is_current() -> None:
    """`python -m ckmlir.tools.language_table docs/writing_kernels.md` would change nothing."""
    text = (ROOT / "docs" / "writing_kernels.md").read_text()
    assert language_table.MADE.renewed(text) == text


def test_every_name_of_the_language_has_a_line() -> None:
    rows = [row for row in language_table.language_table().splitlines() if row.startswith("| `")]
    names = {row.split("`")[1] for row in rows}
    assert set(lang.__all__) <= names and len(names) == len(rows)
    assert not [row for row in rows if row.endswith("|  |")]


def test_the_reference_of_functions_is_current() -> None:
    """`python -m ckmlir.tools.calls_table docs/calls.md` would change nothing; every function says what it raises."""
    text = (ROOT / "docs" / "calls.md").read_text()
    assert calls_table.MADE.renewed(text) == text
    assert len(calls_table.functions()) > 15
    assert all(function.__doc__ for function in calls_table.functions().values())


def test_every_operator_has_a_row() -> None:
    rows = operator_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(OPERATORS)
    assert all(row.count("|") == 4 and not row.endswith("|  |") for row in rows)


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the lines"):
        MADE.renewed("# nothing\n")
