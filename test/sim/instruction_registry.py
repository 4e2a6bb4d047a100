"""Which test exercises which instruction.

A test says so with `covers`; while it runs, the mnemonics it names have to be executed by `SingleWave`, or it fails.
`test_instruction_coverage.py` compares the names with the opcode table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

COVERED: dict[str, str] = {}
"""Mnemonic to the name of (one of) its tests."""

EXECUTED: set[str] = set()
"""Mnemonics that `SingleWave` ran since the last `covers` test began."""


def register(mnemonics: Iterable[str], test: str) -> None:
    """Note instructions whose tests are parametrised by mnemonic and check by construction that it ran."""
    for mnemonic in mnemonics:
        COVERED.setdefault(mnemonic, test)


def covers(*mnemonics: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test of these instructions (names, several to a string). Not for parametrised tests whose cases run
    different ones."""
    names = [name for text in mnemonics for name in text.split()]

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        register(names, test.__name__)

        @functools.wraps(test)
        def run(*arguments: Any, **keywords: Any) -> None:
            EXECUTED.clear()
            test(*arguments, **keywords)
            missing = set(names) - EXECUTED
            assert not missing, f"{test.__name__} claims to test {sorted(missing)}, but never ran them"

        return run

    return mark
