"""Families of instructions, first part: vector and scalar ALU, program flow, lanes to lanes, matrices.

What a family's `select` puts into slots, its `emit` or the function that emits the handler reads from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np

from ckmlir.sim import control, cross_lane, forks, relative_registers
from ckmlir.sim.control import NO_OPERATION
from ckmlir.sim.decode.instruction import Instruction, Operand
from ckmlir.sim.handler import HandlerBuilder, HandlerKey
from ckmlir.sim.matrix import Matrix, matrix_multiply, parse_matrix
from ckmlir.sim.operation import OPERATIONS, Operation
from ckmlir.sim.scalar_alu import emit_scalar
from ckmlir.sim.selected import Environment, Selected, Unsupported, constant, select_operands
from ckmlir.sim.sparse_matrix import parse_sparse, sparse_multiply
from ckmlir.sim.vector_alu import dpp_source_lanes, emit_vector

Emitted = tuple[str, set[str]]
"""A handler's text and the declarations it needs."""

# -- vector and scalar ALU -------------------------------------------------------------------------------------------


def _sixteen_bit_fields(operation: Operation, op_sel: int) -> int:
    """The op_sel bits that choose halves of this operation's 16-bit operands and result."""
    position, bits = 0, 0
    for place in operation.operands:
        if not place.implicit:
            bits |= (place.type.bits == 16) << position
            position += 1
    bits |= (operation.results[0].type.bits == 16) << 3
    return op_sel & bits


def _alu_modifiers(i: Instruction, operation: Operation, environment: Environment) -> dict[str, int]:
    given, kept = i.modifiers, {}
    for name in ("clamp", "omod"):
        if given.get(name):
            kept[name] = given[name]
    if i.encoding == "SDWA":
        kept |= {name: given[name] for name in ("dst_sel", "dst_unused", "src0_sel", "src1_sel") if name in given}
    elif i.encoding == "DPP":
        kept |= {name: given[name] for name in ("dpp_ctrl", "row_mask", "bank_mask", "bound_ctrl")}
        dpp_source_lanes(kept["dpp_ctrl"])
    if operation.packed:
        kept |= {name: given[name] for name in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")}
    elif given.get("op_sel") and (op_sel := _sixteen_bit_fields(operation, given["op_sel"])):
        kept["op_sel"] = op_sel
    for name in operation.modifiers:
        kept[name] = int(environment.target != "gfx950") if name == "fnuz" else given.get(name, 0)
    if environment.dynamic_mode and operation.uses_float_mode:
        kept["mode"] = 1
    return kept | _indexing(i, environment)


def _indexing(i: Instruction, environment: Environment) -> dict[str, int]:
    """The modifier of a vector instruction in a kernel that indexes registers."""
    names_registers = any(item.kind in "va" for item in (*i.destinations, *i.sources))
    return {"indexed": 1} if environment.indexed and names_registers and i.mnemonic.startswith("v_") else {}


def _sources(i: Instruction) -> tuple[Operand, ...]:
    """The sources as the operation's semantics takes them.

    fma_mix has its signs in the modifiers neg_lo and neg_hi, which its semantics applies; the text shows them at the
    operands. Its inline constants that op_sel_hi makes f16 have the f16 of their value.
    """
    if "_mix" not in i.mnemonic:
        return i.sources
    as_half = i.modifiers.get("op_sel_hi", 0)
    sources = []
    for position, source in enumerate(i.sources):
        plain = source.replace(negate=False, absolute=False)
        if source.kind == "imm" and as_half >> position & 1 and not source.literal and source.index >> 23:
            half = np.float16(np.uint32(source.index).view(np.float32)).view(np.uint16)
            plain = plain.replace(index=int(half))
        sources.append(plain)
    return tuple(sources)


class AluFamily:
    """Instructions in the table of simple operations."""

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        operation = OPERATIONS.get(i.mnemonic)
        if operation is None:
            return None
        operands = (*i.destinations, *_sources(i))
        if len(operands) != operation.named_operands:
            raise Unsupported(f"{len(operands)} operands where {operation.named_operands} are expected")
        return select_operands(i.mnemonic, operands, _alu_modifiers(i, operation, environment))

    def emit(self, key: HandlerKey, name: str) -> Emitted | None:
        operation = OPERATIONS.get(key.mnemonic)
        if operation is None:
            return None
        return emit_vector(key, operation, name) if operation.is_vector else emit_scalar(key, operation, name)


# -- everything that emits a whole handler ---------------------------------------------------------------------------

Emit = Callable[[HandlerBuilder], None]


class EmitterFamily(ABC):
    """A family whose handlers are emitted by functions; `scalar` ones build scalars."""

    scalar = False

    @abstractmethod
    def emitter(self, key: HandlerKey) -> Emit | None:
        """What emits the handler; None where the key is not of this family."""

    def emit(self, key: HandlerKey, name: str) -> Emitted | None:
        emitter = self.emitter(key)
        if emitter is None:
            return None
        b = HandlerBuilder(key, 0) if self.scalar else HandlerBuilder(key)
        emitter(b)
        return b.function(name), b.text.declarations


CONTROL_EMITTERS = {**control.EMITTERS, **forks.EMITTERS, **relative_registers.EMITTERS}


def _select_plain(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, (*i.destinations, *i.sources))


def _select_alone(i: Instruction) -> Selected:
    return Selected(HandlerKey(i.mnemonic))


def _select_branch(i: Instruction) -> Selected:
    return Selected(HandlerKey(i.mnemonic), (0,), branch=0)


def _select_fork(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, (*i.sources, constant(0)), after=2)


def _select_near_fork(i: Instruction) -> Selected:
    distance = ((i.modifiers["simm16"] ^ 0x8000) - 0x8000) * 4
    return select_operands(i.mnemonic, (i.sources[0], constant(distance), constant(0)), after=2)


def _select_address(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, (*i.destinations, constant(0)), after=1)


def _select_swap(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, (*i.destinations, *i.sources, constant(0)), after=2)


def _select_call(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, (*i.destinations, constant(0), constant(0)), branch=1, after=2)


def _select_read(i: Instruction) -> Selected:
    return select_operands(i.mnemonic, i.destinations, {"register": i.sources[-1].index})


def _select_write(i: Instruction) -> Selected:
    source = next(item for item in i.sources if not item.text.startswith("hwreg"))
    register = next(item for item in i.sources if item.text.startswith("hwreg"))
    return select_operands(i.mnemonic, (source,), {"register": register.index})


def _select_trap(i: Instruction) -> Selected:
    number = i.sources[0].index if i.sources else i.modifiers.get("simm16", 0)
    return Selected(HandlerKey(i.mnemonic, ("i",)), (number,))


_SELECTORS: dict[str, Callable[[Instruction], Selected]] = {
    "s_cbranch_g_fork": _select_fork,
    "s_cbranch_i_fork": _select_near_fork,
    "s_cbranch_join": _select_plain,
    "s_getpc_b64": _select_address,
    "s_swappc_b64": _select_swap,
    "s_call_b64": _select_call,
    "s_getreg_b32": _select_read,
    **dict.fromkeys(("s_setreg_b32", "s_setreg_imm32_b32"), _select_write),
    "s_trap": _select_trap,
    **dict.fromkeys(("s_endpgm", "s_barrier", "s_sleep"), _select_alone),
}
"""Of control instructions whose operands are not simply all of them; other branches have a target."""


class ControlFamily(EmitterFamily):
    """Branches, barriers, the end, hardware and relative registers, and what does nothing."""

    scalar = True

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.mnemonic in NO_OPERATION:
            return Selected(HandlerKey("no_operation"))
        if i.mnemonic not in CONTROL_EMITTERS:
            return None
        branches = i.mnemonic == "s_branch" or i.mnemonic.startswith("s_cbranch")
        return _SELECTORS.get(i.mnemonic, _select_branch if branches else _select_plain)(i)

    def emitter(self, key: HandlerKey) -> Emit | None:
        return CONTROL_EMITTERS.get(key.mnemonic)


class CrossLaneFamily(EmitterFamily):
    """Lanes to lanes."""

    emitters: dict[str, Emit] = {
        "v_readlane_b32": cross_lane.read_lane,
        "v_readfirstlane_b32": cross_lane.read_first_lane,
        "v_writelane_b32": cross_lane.write_lane,
        "v_permlane16_swap_b32": partial(cross_lane.swap_rows, row=16),
        "v_permlane32_swap_b32": partial(cross_lane.swap_rows, row=32),
        "ds_bpermute_b32": cross_lane.backward_permute,
        "ds_permute_b32": cross_lane.forward_permute,
        "ds_swizzle_b32": cross_lane.swizzle,
        "ds_read_b64_tr_b16": partial(cross_lane.transposed_read, bits=16),
        "ds_read_b64_tr_b8": partial(cross_lane.transposed_read, bits=8),
        "ds_read_b64_tr_b4": partial(cross_lane.transposed_read, bits=4),
        "ds_read_b96_tr_b6": partial(cross_lane.transposed_read, bits=6),
    }

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.mnemonic not in self.emitters:
            return None
        operands = (*i.destinations, *i.sources)
        if i.mnemonic == "ds_swizzle_b32":
            return select_operands(i.mnemonic, operands, {"offset": i.modifiers["offset"]})
        if i.mnemonic.startswith("v_permlane"):
            return select_operands(i.mnemonic, i.destinations)
        if i.mnemonic.startswith("ds_"):
            return select_operands(i.mnemonic, (*operands, constant(i.modifiers["offset"])))
        return select_operands(i.mnemonic, operands, _indexing(i, environment))

    def emitter(self, key: HandlerKey) -> Emit | None:
        return self.emitters.get(key.mnemonic)


class MatrixFamily(EmitterFamily):
    """MFMA and SMFMAC."""

    def select(self, i: Instruction, environment: Environment) -> Selected | None:
        if i.mnemonic.startswith("v_smfmac"):
            return self._select_sparse(i, environment)
        if not i.mnemonic.startswith("v_mfma"):
            return None
        fields = {name: i.modifiers.get(name, 0) for name in ("cbsz", "abid", "blgp")}
        matrix = parse_matrix(i.mnemonic, fields["cbsz"], fields["blgp"])
        if matrix is None:
            return None
        d, c = i.destinations[0], i.sources[2]
        modifiers = {name: number for name, number in fields.items() if number} | _formats(matrix, environment)
        if c.kind != "imm" and c != d and c.kind == d.kind and abs(c.index - d.index) < d.count and c.index != d.index:
            modifiers["overlap"] = 1
        if environment.target == "gfx90a" and matrix.a[:4] in ("f16", "bf16"):
            # CDNA2 flushes denormal operands and results of its f16 and bf16 MFMA (PyTorch, "Numerical accuracy",
            # MI200).
            modifiers["flush"] = 1
        if len(i.sources) > 3:
            modifiers |= {name: i.modifiers.get(name, 0) for name in ("op_sel", "op_sel_hi")}
        sources = [source.replace(negate=False) for source in i.sources]  # f64 negates by BLGP
        return select_operands(i.mnemonic, (d, *sources), modifiers)

    def _select_sparse(self, i: Instruction, environment: Environment) -> Selected | None:
        matrix = parse_sparse(i.mnemonic)
        if matrix is None:
            return None
        modifiers = {name: i.modifiers.get(name, 0) for name in ("cbsz", "abid")} | _formats(matrix, environment)
        return select_operands(i.mnemonic, (i.destinations[0], *i.sources), modifiers)

    def emitter(self, key: HandlerKey) -> Emit | None:
        if sparse := parse_sparse(key.mnemonic):
            return partial(sparse_multiply, matrix=sparse)
        if not key.mnemonic.startswith("v_mfma"):
            return None
        matrix = parse_matrix(key.mnemonic, key.modifier("cbsz"), key.modifier("blgp"))
        return partial(matrix_multiply, matrix=matrix) if matrix else None


def _formats(matrix: Matrix, environment: Environment) -> dict[str, int]:
    """Which variant of the 8-bit floats the chip has, where it matters."""
    uses_them = any(name in ("fp8", "bf8") for name in (matrix.a, matrix.b))
    return {"fnuz": int(environment.target != "gfx950")} if uses_them else {}
