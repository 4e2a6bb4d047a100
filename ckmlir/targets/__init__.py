"""The chips as data: one module a chip, the matrix instructions in `mfma`, what not every chip has in `features`."""

import importlib
from functools import cache

from ckmlir.targets.mfma import MfmaInstruction
from ckmlir.targets.target import LdsAccess, Registers, Target, TargetError, UnsupportedTarget

TARGETS = ("gfx90a", "gfx942", "gfx950")
"""Names of the chips, oldest first."""


@cache
def get_target(name: str) -> Target:
    """The chip called `name`; target features after a colon, as in `gfx942:sramecc+`, are not looked at.

    Raises:
        UnsupportedTarget: no such chip; the message lists those there are.
    """
    base = name.partition(":")[0]
    if base not in TARGETS:
        raise UnsupportedTarget(f"unknown target '{name}'; there are {', '.join(TARGETS)}")
    target = importlib.import_module(f"ckmlir.targets.{base}").TARGET
    assert isinstance(target, Target)
    return target


def all_targets() -> tuple[Target, ...]:
    """Every chip, oldest first."""
    return tuple(get_target(name) for name in TARGETS)


__all__ = [
    "TARGETS",
    "LdsAccess",
    "MfmaInstruction",
    "Registers",
    "Target",
    "TargetError",
    "UnsupportedTarget",
    "all_targets",
    "get_target",
]
