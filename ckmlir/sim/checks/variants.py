"""Which handlers have a checked variant: the key's modifier "checks" asks for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from ckmlir.sim.checks import layout
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.selected import Selected

_MEMORY = ("ds_", "buffer_", "global_", "flat_", "scratch_", "s_load_", "s_store_", "s_buffer_", "s_atomic_")
_ATOMIC_STORE = re.compile(r"(buffer|global|flat)_store_(byte|short|dword|dwordx2)")
_ATOMIC_LOAD = re.compile(r"(buffer|global|flat)_load_([us]byte(_d16(_hi)?)?|[us]?short(_d16(_hi)?)?|dword|dwordx2)")
_IN_REGISTERS = ("ds_permute", "ds_bpermute", "ds_swizzle")


def flags_of(checks: Iterable[str]) -> int:
    """The flags of checkers that are compiled into handlers or the scheduler."""
    return sum(layout.FLAGS.get(name, 0) for name in set(checks))


def accesses_memory(mnemonic: str) -> bool:
    """Whether an instruction reads or writes memory, LDS or scratch."""
    return mnemonic.startswith(_MEMORY) and not mnemonic.startswith(_IN_REGISTERS)


def is_atomic_load(instruction: Instruction) -> bool:
    """Whether a load of at most 8 bytes is how an atomic load of a scope of several workgroups is compiled.

    LLVM's AMDGPU user guide, "Memory Model" of gfx90a and gfx942, code sequences of `load atomic monotonic`: on gfx90a
    glc=1 at agent and system scope, on later chips sc1=1 at agent scope, sc0=1 at workgroup scope, both at system
    scope. Loads of narrower scopes have no bits there (nor has workgroup scope on gfx90a, or any load of LDS) and look
    like plain ones; a volatile load looks like one of system scope; nontemporal loads have nt=1 (slc=1), here plain.
    """
    if not _ATOMIC_LOAD.fullmatch(instruction.mnemonic) or instruction.modifiers.get("lds"):
        return False
    bits = ("sc0",) if instruction.target == "gfx90a" else ("sc0", "sc1")
    return any(instruction.modifiers.get(name) for name in bits) and not instruction.modifiers.get("nt")


def is_atomic_store(instruction: Instruction) -> bool:
    """Whether a store of at most 8 bytes is how an atomic store of agent scope is compiled, and nothing else.

    LLVM's AMDGPU user guide, "Memory Model gfx942", code sequences of `store atomic monotonic`: sc1=1 at agent scope.
    """
    return _stores(instruction) and instruction.target != "gfx90a" and _cache_bits(instruction) == {"sc1"}


def may_be_atomic_store(instruction: Instruction) -> bool:
    """Whether a store of at most 8 bytes looks the same, be it an atomic one or not.

    LLVM's AMDGPU user guide, code sequences of `store atomic monotonic`: on gfx90a it looks like any other ("Memory
    Model gfx90a"); on later chips one of system scope, sc0=1 sc1=1, looks like a volatile one ("Memory Model gfx942").
    """
    untold = set() if instruction.target == "gfx90a" else {"sc0", "sc1"}
    return _stores(instruction) and _cache_bits(instruction) == untold


def _stores(instruction: Instruction) -> bool:
    return _ATOMIC_STORE.fullmatch(instruction.mnemonic) is not None


def _cache_bits(instruction: Instruction) -> set[str]:
    """Those that are set, by gfx942's names."""
    return {name for name in ("sc0", "sc1", "nt") if instruction.modifiers.get(name)}


def checked(selected: Selected, instruction: Instruction, flags: int) -> Selected:
    """The variant of an instruction's handler that makes the checks in `flags`; the handler itself where there is
    nothing to check."""
    name = selected.key.mnemonic
    wanted = flags & layout.BARRIER if name == "s_barrier" else 0
    if accesses_memory(name):
        to_lds = name.startswith(("ds_", "flat_")) or selected.key.modifier("lds")
        wanted = flags & (layout.IN_HANDLERS if to_lds else layout.IN_HANDLERS & ~layout.WAIT)
    if not wanted:
        return selected
    is_atomic = is_atomic_load(instruction) or is_atomic_store(instruction)
    atomic = (("atomic", 1),) if wanted & layout.RACE and is_atomic else ()
    modifiers = tuple(sorted((*selected.key.modifiers, *atomic, ("checks", wanted))))
    return replace(selected, key=selected.key._replace(modifiers=modifiers))
