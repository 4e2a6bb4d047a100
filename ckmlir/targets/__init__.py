"""The chips as data: one module a chip, the matrix instructions in `mfma`, what not every chip has in `features`."""

import importlib
from functools import cache
from typing import TYPE_CHECKING

from ckmlir.deferred import deferred
from ckmlir.errors import suggest
from ckmlir.targets.target import LdsAccess, Registers, Target, TargetError, UnsupportedTarget

if TYPE_CHECKING:
    from ckmlir.targets.mfma import MfmaInstruction

TARGETS = ("gfx90a", "gfx942", "gfx950")
"""Names of the chips, oldest first."""

ELSEWHERE = {
    ("gfx940", "gfx941"): "it was an early stepping of gfx942",
    ("gfx908",): "it is MI100, which has no bf16 matrix instructions of the 1k form",
    ("gfx9-",): "generic targets leave out what the chips differ in; name the chip",
    ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"): "it has no matrix instructions",
    ("gfx10", "gfx11", "gfx12"): "it is of the RDNA family, with waves of 32 lanes and other matrix instructions",
}
"""Beginnings of names that LLVM knows (AMDGPUUsage, "Processors") -> why they are not chips here."""


def get_target(name: str) -> Target:
    """The chip called `name`; target features after a colon, as in `gfx942:sramecc+`, are not looked at.

    Raises:
        UnsupportedTarget: no such chip; the message says what the name stands for elsewhere, and lists the known chips.
    """
    if not isinstance(name, str):
        raise UnsupportedTarget(f"a target is named by text such as 'gfx942', not by {type(name).__name__}")
    base = name.partition(":")[0]
    if base not in TARGETS:
        raise UnsupportedTarget(f"unknown target '{name}'; {_instead(base)}")
    return _load(base)


@cache
def _load(base: str) -> Target:
    target = importlib.import_module(f"ckmlir.targets.{base}").TARGET
    assert isinstance(target, Target)
    return target


def _instead(name: str) -> str:
    """What to take in place of an unknown chip."""
    there_are = "there are gfx90a (MI200), gfx942 (MI300) and gfx950 (MI350)"
    for prefixes, why in ELSEWHERE.items():
        if name.startswith(prefixes):
            return f"{why}; {there_are}"
    hint = suggest(name, TARGETS)
    return f"{there_are}; {hint}" if hint.startswith("did") else there_are


def all_targets() -> tuple[Target, ...]:
    """Every chip, oldest first."""
    return tuple(get_target(name) for name in TARGETS)


__getattr__ = deferred(__name__, {"mfma": "MfmaInstruction"})  # their table is not needed to run a kernel

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
