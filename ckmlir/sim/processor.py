"""What handlers are compiled for: a stated set of the host processor's features; results depend on nothing else.

The sets are the levels of the x86-64 psABI (section 3.1.1, "Processor Architecture"). A host runs the highest level
that it has; what it has beyond that stays unused. AVX512-FP16 is one reason: with it, LLVM's saturating conversion of a
half gives another integer for NaN. Tests run the same instructions compiled for every level that the machine has, and
for all that it has, and compare bits (`test/sim/test_processors.py`).
"""

from __future__ import annotations

import os
from functools import lru_cache

import llvmlite.binding as llvm
from msgspec import Struct

from ckmlir.errors import CkmlirError, suggest

VARIABLE = "CKMLIR_SIMULATOR_PROCESSOR"
"""Names a lower level than the host's, to see another machine's results."""


class Processor(Struct, frozen=True):
    """A processor as LLVM's code generator is told of it: name of the processor, and the features by name."""

    name: str
    cpu: str
    features: tuple[str, ...]

    @property
    def feature_text(self) -> str:
        """In LLVM's notation."""
        return ",".join(name if name[0] in "+-" else f"+{name}" for name in self.features)

    def has(self, feature: str) -> bool:
        return feature in self.features or f"+{feature}" in self.features

    def missing(self) -> list[str]:
        """The features that this machine lacks."""
        present = host_features()
        return [name for name in self.features if name[0] != "-" and not present.get(name.lstrip("+"), False)]


_V1 = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_V2 = (*_V1, "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

LEVELS = {
    name: Processor(name, name, features)
    for name, features in (("x86-64", _V1), ("x86-64-v2", _V2), ("x86-64-v3", _V3), ("x86-64-v4", _V4))
}
"""By name, the lowest first."""


@lru_cache(maxsize=1)
def host_features() -> dict[str, bool]:
    """The features that LLVM finds this machine to have, those that the operating system does not enable left out."""
    return dict(llvm.get_host_cpu_features())


def host(without: str = "") -> Processor:
    """This machine with all that it has, or all but a feature: to compare with, and where no level is known."""
    flattened = [f"{'+' if present and name != without else '-'}{name}" for name, present in host_features().items()]
    return Processor(f"host without {without}" if without else "host", llvm.get_host_cpu_name(), tuple(flattened))


def chosen() -> Processor:
    """What handlers are compiled for: the highest level that this machine has, or the lower one that
    $CKMLIR_SIMULATOR_PROCESSOR names. Other machines than x86-64 have no levels; there it is the host as it is.

    Raises CkmlirError for a name that is not a level, and for one that this machine does not have.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return _highest()
    if named not in LEVELS:
        raise CkmlirError(f"{VARIABLE}={named}: there is no such level; {suggest(named, LEVELS)}")
    if missing := LEVELS[named].missing():
        raise CkmlirError(f"{VARIABLE}={named}: this machine lacks {', '.join(missing)}")
    return LEVELS[named]


@lru_cache(maxsize=1)
def _highest() -> Processor:
    available = [level for level in LEVELS.values() if not level.missing()]
    return available[-1] if available else host()
