"""What LLVM need not look for in a kernel without branches, as options of LLVM's, for one compilation at a time.

A row or a tile that is taken once is one block: nothing repeats, and nothing can move to another block. Passes that
look for that find nothing, but each sets up what it would look with; together they take 5 to 10 percent of LLVM's time.
Options are a whole process's, so they are set while LLVM works, and taken back: others may use LLVM here as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from ckmlir.mlir import exchange_backend_option

ADDRESSES = "amdgpu-scalar-ir-passes"
"""Whether LLVM looks for sums and products of addresses that follow from others, in five passes."""

SPARED: Mapping[str, bool] = MappingProxyType({
    ADDRESSES: False,
    # What loops repeat.
    "disable-lsr": True,
    "disable-machine-licm": True,
    "disable-postra-machine-licm": True,
    # What only one of several ways needs.
    "disable-machine-sink": True,
    "disable-postra-machine-sink": True,
    # In which order blocks stand, and which of them are one.
    "disable-block-placement": True,
    "disable-branch-fold": True,
    "disable-early-taildup": True,
    "disable-tail-duplicate": True,
})  # fmt: skip
"""By name of an option of LLVM's (llvm/lib/CodeGen/TargetPassConfig.cpp, and lib/Target/AMDGPU/AMDGPUTargetMachine.cpp)
-> what it is in a kernel without branches; by default it is the other."""

FEW_SUMS = 90
"""Operations on integers up to which a kernel is spared ADDRESSES. Our sums begin with what they have in common already
(`sums.py`): of 264 kernels with so few none had other code. Of 123 with more 30 had, whose lanes have many rows: tiles
of bytes and 4-bit pieces that change places took .98 to 1.2 of the cycles by the model."""

_one_at_a_time = threading.Lock()


def wanted_options(branches: bool, integer_arithmetic: int) -> dict[str, bool]:
    """What each option of SPARED is to be in a kernel.

    Args:
        branches: whether it has any.
        integer_arithmetic: how many operations on integers it has.
    """
    found = {name: choice != branches for name, choice in SPARED.items()}
    return found if integer_arithmetic <= FEW_SUMS else {**found, ADDRESSES: not SPARED[ADDRESSES]}


@contextmanager
def backend_options(choices: Mapping[str, bool]) -> Iterator[None]:
    """Inside, LLVM's options are these, and no other thread is inside. Behind it they are what they were before.

    Options that the bindings' LLVM does not have, or cannot be set, stay as they are. Not for a copy of the process:
    the thread that is inside may have stayed behind.
    """
    with _one_at_a_time:
        before = {name: exchange_backend_option(name, choice) for name, choice in choices.items()}
        try:
            yield
        finally:
            for name, choice in before.items():
                if choice is not None:
                    exchange_backend_option(name, choice)
