"""Which handlers have a checked variant: the key's modifier "checks" asks for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ckmlir.sim.checks import layout
from ckmlir.sim.selected import Selected

_MEMORY = ("ds_", "buffer_", "global_", "flat_", "scratch_", "s_load_", "s_store_", "s_buffer_", "s_atomic_")
_IN_REGISTERS = ("ds_permute", "ds_bpermute", "ds_swizzle")


def flags_of(checks: Iterable[str]) -> int:
    """The flags of checkers that are compiled into handlers or the scheduler."""
    return sum(layout.FLAGS.get(name, 0) for name in set(checks))


def checked(selected: Selected, flags: int) -> Selected:
    """The variant of a handler that makes the checks in `flags`; the handler itself where there is nothing to check."""
    name = selected.key.mnemonic
    wanted = flags & layout.BARRIER if name == "s_barrier" else 0
    if name.startswith(_MEMORY) and not name.startswith(_IN_REGISTERS):
        to_lds = name.startswith(("ds_", "flat_")) or selected.key.modifier("lds")
        wanted = flags & (layout.IN_HANDLERS if to_lds else layout.IN_HANDLERS & ~layout.WAIT)
    if not wanted:
        return selected
    modifiers = tuple(sorted((*selected.key.modifiers, ("checks", wanted))))
    return replace(selected, key=selected.key._replace(modifiers=modifiers))
