"""Which lines of printed IR a pass changed. Numbers of values do not count: MLIR counts anew whenever it prints."""

from __future__ import annotations

import difflib
import re

CONTEXT = 3
"""Unchanged lines around a change."""
NAME = re.compile(r"(?<!\w)[%^][\w$.-]+(?:[:#]\d+)?")
"""A value or a block; behind a word `%` is a modulus, in the text of a descriptor."""
FUNCTION = re.compile(r"\s*\w+\.func ")
"""Where names begin anew."""


def difference(before: str, after: str) -> list[str]:
    """Lines of a unified difference, without its head.

    Lines that are gone have the names of `after`, where their values are there still; others get a prime (`%7'`).
    """
    old, new = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(_renamed(old, new), new, lineterm="", n=CONTEXT))[2:]


def _renamed(old: list[str], new: list[str]) -> list[str]:
    """Old lines with new names: those of the same text where each value stands for the one that it always does."""
    partners = _partners(old, new)
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    renamed = []
    for number, line in enumerate(old):
        if FUNCTION.match(line):
            forth.clear()
            back.clear()
        partner = new[partners[number]] if number in partners else ""
        pairs = list(zip(NAME.findall(line), NAME.findall(partner), strict=False))
        for one, other in pairs:
            if one not in forth and other not in back:
                forth[one], back[other] = other, one
        same = partner and all(forth.get(one) == other for one, other in pairs)
        renamed.append(partner if same else NAME.sub(lambda name: forth.get(name[0], f"{name[0]}'"), line))
    return renamed


def _partners(old: list[str], new: list[str]) -> dict[int, int]:
    """Numbers of old lines -> of the new ones that they are but for names."""
    before, after = ([NAME.sub("%", line) for line in lines] for lines in (old, new))
    blocks = difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}
