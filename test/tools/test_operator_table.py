"""README's operator table is what the registry says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckmlir.ops import OPERATORS
from ckmlir.tools.operator_table import operator_table, with_table

README = Path(__file__).resolve().parents[2] / "README.md"


def test_readme_is_current() -> None:
    """`python -m ckmlir.tools.operator_table README.md` would change nothing."""
    text = README.read_text()
    assert with_table(text) == text


def test_every_operator_has_a_row() -> None:
    rows = operator_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(OPERATORS)
    assert all(row.count("|") == 4 and not row.endswith("|  |") for row in rows)


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the lines"):
        with_table("# nothing\n")
