"""Writing an instruction as LLVM does (`llvm-objdump -d`, without addresses and encodings).

Source: the spelling and order that llvm-mc prints; test_decode_llvm.py compares them.
"""

from collections.abc import Callable

from ckmlir.sim.decode.instruction import Instruction, Operand
from ckmlir.sim.decode.operands import WAIT_COUNTS, number_text
from ckmlir.sim.decode.swizzle_text import swizzle_text

_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_OUTPUT_SCALES = ("", " mul:2", " mul:4", " div:2")
_DPP_CONTROLS = {
    0x130: "wave_shl:1", 0x134: "wave_rol:1", 0x138: "wave_shr:1", 0x13C: "wave_ror:1", 0x140: "row_mirror",
    0x141: "row_half_mirror", 0x142: "row_bcast:15", 0x143: "row_bcast:31",
}  # fmt: skip
_DPP_ROWS = {0x10: "row_shl", 0x11: "row_shr", 0x12: "row_ror", 0x15: "row_newbcast"}
_MESSAGES = {
    1: "MSG_INTERRUPT", 4: "MSG_SAVEWAVE", 5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES", 7: "MSG_ORDERED_PS_DONE",
    8: "MSG_EARLY_PRIM_DEALLOC", 9: "MSG_GS_ALLOC_REQ", 10: "MSG_GET_DOORBELL",
}  # fmt: skip
_DATA_FORMATS = (
    "INVALID", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8",
    "32_32", "16_16_16_16", "32_32_32", "32_32_32_32", "RESERVED_15",
)  # fmt: skip
_NUMBER_FORMATS = ("UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT")
_DEFAULT_DATA_FORMAT = 1


def assembly(instruction: Instruction) -> str:
    """The instruction's text."""
    suffix = instruction.opcode.suffix if instruction.opcode else ""
    modifiers = _MODIFIERS.get(instruction.encoding, _no_modifiers)(instruction)
    operands = ", ".join(_operands(instruction))
    return f"{instruction.mnemonic}{suffix}{' ' if operands else ''}{operands}{modifiers}"


def operand_text(operand: Operand) -> str:
    """An operand with its input modifiers."""
    text = operand.text
    if operand.absolute:
        text = f"|{text}|"
    if operand.sext:
        text = f"sext({text})"
    if operand.negate:
        text = f"neg({text})" if operand.kind == "imm" and not operand.absolute else f"-{text}"
    return text


def _plain_text(operand: Operand) -> str:
    return operand.text


def _operands(instruction: Instruction) -> list[str]:
    """The texts between the mnemonic and the modifiers; a register that is read and written is named once."""
    row = instruction.opcode
    written = [item.field for item in row.destinations] if row and instruction.destinations else []
    destinations = list(instruction.destinations)
    sources = list(instruction.sources)
    if row and "vcc" not in written:
        fields = [item.field for item in row.sources]
        tied = [i for i, name in enumerate(fields) if name in written]
        if "returns" in row.flags and tied:  # the data is wider than the result of a compare-and-swap: name the data
            destinations = []
        else:
            sources = [item for i, item in enumerate(sources) if i not in tied]
    spell = _plain_text if instruction.encoding == "MFMA" else operand_text
    texts = [spell(item) for item in destinations + sources]
    special = _SPECIAL_OPERANDS.get(instruction.encoding)
    return special(instruction, texts) if special else texts


def _scalar_program_operands(instruction: Instruction, texts: list[str]) -> list[str]:
    value = instruction.words[0] & 0xFFFF
    name = instruction.mnemonic
    if instruction.branch_target is not None:
        return [*texts, str(value)]
    if name == "s_waitcnt":
        return [_waitcnt(instruction.modifiers)]
    if name in ("s_sendmsg", "s_sendmsghalt"):
        return [_message(value)]
    if name == "s_endpgm":
        return [str(value)] if value else []
    if name == "s_set_gpr_idx_mode":
        return [_index_mode(value)]
    return [number_text(value)] if texts and instruction.encoding == "SOPP" else texts


def _waitcnt(counts: dict[str, int]) -> str:
    every = all(counts[name] == value for name, value in WAIT_COUNTS.items())
    return " ".join(f"{name}({counts[name]})" for name, value in WAIT_COUNTS.items() if every or counts[name] != value)


def _message(value: int) -> str:
    identity, operation, stream = value & 0xF, value >> 4 & 7, value >> 8 & 3
    if identity in _MESSAGES and not operation and not stream:
        return f"sendmsg({_MESSAGES[identity]})"
    return f"sendmsg({identity}, {operation}, {stream})" if value & ~0x37F == 0 else str(value)


def _index_mode(value: int) -> str:
    names = ("SRC0", "SRC1", "SRC2", "DST")
    if value >> len(names):
        return f"0x{value:x}"
    return f"gpr_idx({','.join(name for bit, name in enumerate(names) if value >> bit & 1)})"


def _compare_index_operands(instruction: Instruction, texts: list[str]) -> list[str]:
    if instruction.mnemonic == "s_set_gpr_idx_on":
        return [texts[0], _index_mode(instruction.words[0] >> 8 & 0xFF)]
    return texts


def _scalar_memory_operands(instruction: Instruction, texts: list[str]) -> list[str]:
    """The offset is an operand when it is the only one, and a modifier after a register."""
    if len(texts) < 2:
        return texts
    offset = instruction.modifiers.get("offset", 0)
    immediate = f"-0x{-offset:x}" if offset < 0 else f"0x{offset:x}"
    if texts[-1] == "off":
        return [*texts[:-1], immediate]
    has_both = instruction.words[0] >> 17 & 1
    return [*texts[:-1], f"{texts[-1]} offset:{immediate}"] if has_both else texts


def _no_modifiers(instruction: Instruction) -> str:
    return ""


def _flags(instruction: Instruction, *names: str) -> str:
    return "".join(f" {name}" for name in names if instruction.modifiers.get(name))


def _cache_policy(instruction: Instruction) -> str:
    """gfx90a names the cache bits glc, slc, scc; gfx942 and gfx950 name them sc0, nt, sc1."""
    if instruction.encoding == "SMEM" and instruction.mnemonic.startswith(("s_dcache", "s_atc", "s_mem")):
        return ""
    older = instruction.target == "gfx90a" or instruction.encoding == "SMEM"
    names = ("glc", "slc", "scc") if older else ("sc0", "nt", "sc1")
    bits = (instruction.modifiers.get(name) for name in ("sc0", "nt", "sc1"))
    return "".join(f" {name}" for name, bit in zip(names, bits) if bit)


def _offset(instruction: Instruction) -> str:
    offset = instruction.modifiers.get("offset", 0)
    return f" offset:{offset}" if offset else ""


def _bit_list(name: str, value: int, count: int, default: int = 0) -> str:
    bits = ",".join(str(value >> bit & 1) for bit in range(count))
    return "" if value & (1 << count) - 1 == default else f" {name}:[{bits}]"


def _vop3(instruction: Instruction) -> str:
    modifiers, row = instruction.modifiers, instruction.opcode
    text = ""
    if modifiers.get("bitop3"):
        value = modifiers["bitop3"]
        text += f" bitop3:{value}" if value <= 10 else f" bitop3:0x{value:x}"
    if row and "op_sel4" in row.flags:
        text += _bit_list("op_sel", modifiers["op_sel"], 4)
    elif row and "op_sel" in row.flags:
        count = len(instruction.sources)
        selected = modifiers["op_sel"] & (1 << count) - 1 | modifiers["op_sel"] >> 3 << count
        text += _bit_list("op_sel", selected, count + 1)
    text += "".join(f" {name}:1" for name in ("bound_ctrl", "fi") if modifiers.get(name))
    if row is None or "clamp" in row.flags:
        text += _flags(instruction, "clamp")
    return text + (_OUTPUT_SCALES[modifiers["omod"]] if row is None or "omod" in row.flags else "")


def _packed(instruction: Instruction) -> str:
    modifiers, row = instruction.modifiers, instruction.opcode
    if row and "plain" in row.flags:
        return ""
    count = len(instruction.sources)
    every = (1 << count) - 1
    mixed = row is not None and "mix" in row.flags  # op_sel_hi selects f16 here, so its default is none
    text = ""
    if row is None or "op_sel" in row.flags:
        text += _bit_list("op_sel", modifiers["op_sel"], count)
        text += _bit_list("op_sel_hi", modifiers["op_sel_hi"], count, 0 if mixed else every)
    if not mixed:
        text += _bit_list("neg_lo", modifiers["neg_lo"], count) + _bit_list("neg_hi", modifiers["neg_hi"], count)
    return text + _flags(instruction, "clamp")


def _matrix(instruction: Instruction) -> str:
    modifiers = instruction.modifiers
    scaled = "op_sel" in modifiers
    text = _bit_list("op_sel", modifiers["op_sel"], 3) + _bit_list("op_sel_hi", modifiers["op_sel_hi"], 3, 7) \
        if scaled else ""  # fmt: skip
    text += "".join(f" {name}:{modifiers[name]}" for name in ("cbsz", "abid") if modifiers[name])
    if any(operand.negate for operand in instruction.sources):  # BLGP of an f64 product
        return text + f" neg:[{','.join(str(int(operand.negate)) for operand in instruction.sources)}]"
    return text + (f" blgp:{modifiers['blgp']}" if modifiers["blgp"] else "")


def _lds(instruction: Instruction) -> str:
    offsets = "".join(
        f" {name}:{instruction.modifiers[name]}" for name in ("offset0", "offset1") if instruction.modifiers.get(name)
    )
    if instruction.mnemonic == "ds_swizzle_b32" and instruction.modifiers["offset"]:
        return f" offset:{swizzle_text(instruction.modifiers['offset'])}"
    gds = " gds" if instruction.opcode and "gds" in instruction.opcode.flags else ""  # these chips have no other GDS
    return _offset(instruction) + offsets + gds


def _flat(instruction: Instruction) -> str:
    lds = _flags(instruction, "lds") if instruction.target == "gfx90a" else ""
    return _offset(instruction) + _cache_policy(instruction) + lds


def _buffer(instruction: Instruction) -> str:
    if not instruction.sources:  # cache maintenance, which has no nt, and no scopes at all on gfx90a
        return "" if instruction.target == "gfx90a" else _flags(instruction, "sc0", "sc1")
    addresses = _flags(instruction, "idxen", "offen")
    more = _cache_policy(instruction), _flags(instruction, "lds")
    from_lds = "_store_lds_" in instruction.mnemonic  # LLVM prints its LDS bit, which is always set, first
    return addresses + _offset(instruction) + "".join(reversed(more) if from_lds else more)


def _typed_buffer(instruction: Instruction) -> str:
    data, number = instruction.modifiers["dfmt"], instruction.modifiers["nfmt"]
    names = []
    if data != _DEFAULT_DATA_FORMAT:
        names.append(f"BUF_DATA_FORMAT_{_DATA_FORMATS[data]}")
    if number:
        names.append(f"BUF_NUM_FORMAT_{_NUMBER_FORMATS[number]}")
    return (f" format:[{','.join(names)}]" if names else "") + _buffer(instruction)


def _sdwa(instruction: Instruction) -> str:
    modifiers = instruction.modifiers
    if instruction.mnemonic.endswith(("_fp8", "_bf8")):
        modifiers = {name: value for name, value in modifiers.items() if not name.startswith("dst")}
    scale = _OUTPUT_SCALES[modifiers.get("omod", 0)]
    parts = ("dst_sel", "src0_sel", "src1_sel")
    selections = {name: _name(_SELECTIONS, modifiers[name]) for name in parts if name in modifiers}
    if "dst_unused" in modifiers:
        selections["dst_unused"] = _name(_UNUSED, modifiers["dst_unused"])
    order = ("dst_sel", "dst_unused", "src0_sel", "src1_sel")
    listed = "".join(f" {name}:{selections[name]}" for name in order if name in selections)
    return _flags(instruction, "clamp") + scale + listed


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)


def _dpp(instruction: Instruction) -> str:
    modifiers = instruction.modifiers
    control = modifiers["dpp_ctrl"]
    if control <= 0xFF:
        lanes = ",".join(str(control >> shift & 3) for shift in (0, 2, 4, 6))
        text = f" quad_perm:[{lanes}]"
    elif control in _DPP_CONTROLS:
        text = f" {_DPP_CONTROLS[control]}"
    else:
        text = f" {_DPP_ROWS.get(control >> 4, 'dpp_ctrl')}:{control & 0xF}"
    masks = f" row_mask:0x{modifiers['row_mask']:x} bank_mask:0x{modifiers['bank_mask']:x}"
    return text + masks + (" bound_ctrl:1" if modifiers["bound_ctrl"] else "")


_SPECIAL_OPERANDS: dict[str, Callable[[Instruction, list[str]], list[str]]] = {
    "SOPP": _scalar_program_operands,
    "SOPK": _scalar_program_operands,
    "SOPC": _compare_index_operands,
    "SMEM": _scalar_memory_operands,
}
_MODIFIERS: dict[str, Callable[[Instruction], str]] = {
    "VOP3": _vop3,
    "VOP3P": _packed,
    "MFMA": _matrix,
    "DS": _lds,
    "FLAT": _flat,
    "GLOBAL": _flat,
    "SCRATCH": _flat,
    "MUBUF": _buffer,
    "MTBUF": _typed_buffer,
    "SMEM": _cache_policy,
    "SDWA": _sdwa,
    "DPP": _dpp,
}
