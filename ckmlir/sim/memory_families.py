"""Families of instructions, second part: scalar memory, LDS, global, flat, scratch and buffer instructions."""

from __future__ import annotations

import re
from functools import partial

from ckmlir.sim import scalar_memory
from ckmlir.sim.access import ACCESSES, Access
from ckmlir.sim.alu_families import Emit, EmitterFamily
from ckmlir.sim.atomics import buffer_atomic, global_atomic, lds_atomic, lds_exchange_pair, parse_atomic
from ckmlir.sim.buffer_access import buffer_access
from ckmlir.sim.decode.instruction import Instruction
from ckmlir.sim.direct_to_lds import buffer_to_lds, global_to_lds, lds_to_buffer, scratch_to_lds
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.lds_by_m0 import count_lanes, lane_after_lane
from ckmlir.sim.memory_access import flat_access, global_access, lds_access, scratch_access
from ckmlir.sim.selected import OFF, Environment, Selected, constant, select_operands
from ckmlir.sim.typed_buffer import formatted_load, formatted_store, parse_formatted


class ScalarMemoryFamily(EmitterFamily):
    """s_load, s_store, s_scratch_*, s_buffer_*, s_atomic_*, s_buffer_atomic_*."""

    scalar = True
    pattern = re.compile(r"s_(buffer_|scratch_)?(load|store)_dword(?:x(\d+))?$")

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        match = self.pattern.match(i.mnemonic)
        if match:
            data, sources = (i.destinations[0], i.sources) if match[2] == "load" else (i.sources[0], i.sources[1:])
            modifiers = {}
        elif i.encoding == "SMEM" and parse_atomic(i.mnemonic):
            data, sources = i.sources[0], i.sources[1:]
            modifiers = {"returns": 1} if i.destinations else {}
        else:
            return None
        offset = sources[1] if len(sources) > 1 else OFF
        slots = (data, sources[0], offset, constant(i.modifiers.get("offset", 0)), constant(0))
        return select_operands(i.mnemonic, slots, modifiers, remembered=4)

    def emitter(self, key: HandlerKey) -> Emit | None:
        if match := self.pattern.match(key.mnemonic):
            dwords, store = int(match[3] or 1), match[2] == "store"
            if match[1] == "buffer_":
                return partial(scalar_memory.buffer_access, dwords=dwords, store=store)
            return partial(scalar_memory.access, dwords=dwords, store=store, scratch=bool(match[1]))
        if not key.mnemonic.startswith(("s_atomic", "s_buffer_atomic")):
            return None
        atomic = parse_atomic(key.mnemonic)
        buffer = key.mnemonic.startswith("s_buffer")
        return partial(scalar_memory.atomic, atomic=atomic, buffer=buffer) if atomic else None


class LdsFamily(EmitterFamily):
    """ds_read*, ds_write*, LDS atomics and exchanges, and the instructions that take their address from M0."""

    pattern = re.compile(r"ds_(read|write)(2?)(st64)?_(\w+)$")
    pair = re.compile(r"ds_wrxchg2(st64)?_rtn_b(32|64)$")
    by_m0: dict[str, Emit] = {
        "ds_append": partial(count_lanes, sign=1),
        "ds_consume": partial(count_lanes, sign=-1),
        "ds_read_addtid_b32": partial(lane_after_lane, store=False),
        "ds_write_addtid_b32": partial(lane_after_lane, store=True),
    }

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.encoding != "DS":
            return None
        if i.mnemonic in self.by_m0:
            return select_operands(i.mnemonic, (*i.destinations, *i.sources, constant(i.modifiers["offset"])))
        if self.pair.match(i.mnemonic):
            first, second = (constant(i.modifiers[name]) for name in ("offset0", "offset1"))
            return select_operands(i.mnemonic, (*i.destinations, *i.sources, first, second))
        match = self.pattern.match(i.mnemonic)
        if match and match[4] in ACCESSES:
            offsets = ("offset0", "offset1") if match[2] else ("offset",)
            address, *data = i.sources
            registers = data if match[1] == "write" else list(i.destinations)
            return select_operands(
                i.mnemonic, (*registers, address, *(constant(i.modifiers[name]) for name in offsets))
            )
        atomic = parse_atomic(i.mnemonic)
        if atomic is None or len(i.sources) != 1 + atomic.data_count:
            return None
        result = i.destinations[0] if i.destinations else OFF
        second = i.sources[2] if len(i.sources) > 2 else OFF
        return select_operands(
            i.mnemonic, (result, i.sources[0], i.sources[1], second, constant(i.modifiers["offset"]))
        )

    def emitter(self, key: HandlerKey) -> Emit | None:
        if key.mnemonic in self.by_m0:
            return self.by_m0[key.mnemonic]
        if match := self.pair.match(key.mnemonic):
            bytes = int(match[2]) // 8
            return partial(lds_exchange_pair, bytes=bytes, spacing=bytes * (64 if match[1] else 1))
        match = self.pattern.match(key.mnemonic)
        if match and match[4] in ACCESSES:
            access = ACCESSES[match[4]]
            spacing = access.bytes * (64 if match[3] else 1) if match[2] else 1
            return partial(
                lds_access, access=access, store=match[1] == "write", pairs=2 if match[2] else 1, spacing=spacing
            )
        atomic = parse_atomic(key.mnemonic) if key.mnemonic.startswith("ds_") else None
        return partial(lds_atomic, atomic=atomic) if atomic else None


_VMEM = re.compile(r"(global|flat|scratch|buffer)_(load|store)_(lds_)?(\w+)$")


def _vector_access(mnemonic: str) -> tuple[str, bool, bool, Access] | None:
    """(segment, store, to or from LDS by name, access) of a vector memory instruction."""
    match = _VMEM.match(mnemonic)
    if not match or match[4] not in ACCESSES:
        return None
    return match[1], match[2] == "store", bool(match[3]), ACCESSES[match[4]]


class FlatFamily(EmitterFamily):
    """global, flat and scratch instructions, their atomics, and global_load_lds."""

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.encoding not in ("FLAT", "GLOBAL", "SCRATCH"):
            return None
        offset, remember = constant(i.modifiers["offset"]), constant(0)
        found = _vector_access(i.mnemonic)
        if found:
            segment, store, to_lds, _ = found
            to_lds = to_lds or (environment.target == "gfx90a" and segment != "flat" and bool(i.modifiers.get("lds")))
            address, *rest = i.sources
            data = rest.pop(0) if store else i.destinations[0] if i.destinations else OFF
            scalar = rest[0] if rest else OFF
            return select_operands(
                i.mnemonic, (data, address, scalar, offset, remember), {"lds": 1} if to_lds else {}, remembered=4
            )
        if parse_atomic(i.mnemonic) is None:
            return None
        address, data, *rest = i.sources
        result = i.destinations[0] if i.destinations else OFF
        return select_operands(
            i.mnemonic, (data, address, rest[0] if rest else OFF, offset, remember, result), remembered=4
        )

    def emitter(self, key: HandlerKey) -> Emit | None:
        found = _vector_access(key.mnemonic)
        if found and found[0] != "buffer":
            segment, store, _, access = found
            if key.modifier("lds"):
                return partial(scratch_to_lds if segment == "scratch" else global_to_lds, access=access)
            emitters = {"global": global_access, "flat": flat_access, "scratch": scratch_access}
            return partial(emitters[segment], access=access, store=store)
        atomic = parse_atomic(key.mnemonic) if key.mnemonic.startswith(("global", "flat")) else None
        return partial(global_atomic, atomic=atomic) if atomic else None


class BufferFamily(EmitterFamily):
    """MUBUF and MTBUF."""

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.encoding not in ("MUBUF", "MTBUF"):
            return None
        modifiers = {name: 1 for name in ("offen", "idxen", "lds") if i.modifiers.get(name)}
        sources = list(i.sources)
        if (formatted := parse_formatted(i.mnemonic)) is not None:
            data = sources.pop(0) if formatted.store else i.destinations[0] if i.destinations else OFF
            modifiers |= {name: i.modifiers[name] for name in ("dfmt", "nfmt") if name in i.modifiers}
        elif (found := _vector_access(i.mnemonic)) is not None:
            if found[1] and found[2]:  # a store from LDS names no registers
                sources.insert(0, OFF)
                data = OFF
            else:
                data = sources.pop(0) if found[1] else i.destinations[0] if i.destinations else OFF
        elif parse_atomic(i.mnemonic) is not None:
            data = sources.pop(0)
            modifiers |= {"returns": 1} if i.destinations else {}
        else:
            return None
        address, resource, scalar = sources
        slots = (data, address, resource, scalar, constant(i.modifiers["offset"]), constant(0))
        return select_operands(i.mnemonic, slots, modifiers, remembered=5)

    def emitter(self, key: HandlerKey) -> Emit | None:
        if not key.mnemonic.startswith(("buffer", "tbuffer")):
            return None
        if (formatted := parse_formatted(key.mnemonic)) is not None:
            return partial(formatted_store if formatted.store else formatted_load, access=formatted)
        if (found := _vector_access(key.mnemonic)) is not None:
            if key.modifier("lds"):
                return partial(lds_to_buffer if found[1] else buffer_to_lds, access=found[3])
            return partial(buffer_access, access=found[3], store=found[1])
        atomic = parse_atomic(key.mnemonic)
        return partial(buffer_atomic, atomic=atomic) if atomic else None
