"""The decoder against recorded text of LLVM: every mnemonic and form, and compiled kernels. Needs no other tool."""

import re
from pathlib import Path

import pytest

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import Instruction, Operand, UnknownInstruction, decode
from ckmlir.sim.decode.opcodes import opcode_table

CORPUS = Path(__file__).parent / "decode_corpus.txt"
REGISTER = re.compile(r"^(v|a|s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])$")
SPECIAL = {
    "vcc": (106, 2), "vcc_lo": (106, 1), "vcc_hi": (107, 1), "exec": (126, 2), "exec_lo": (126, 1),
    "exec_hi": (127, 1), "m0": (124, 1), "flat_scratch": (102, 2), "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1), "xnack_mask": (104, 2), "xnack_mask_lo": (104, 1), "xnack_mask_hi": (105, 1),
}  # fmt: skip


def corpus() -> list[tuple[str, bytes, str]]:
    lines: list[tuple[str, bytes, str]] = []
    for line in CORPUS.read_text().splitlines():
        if line.startswith("#"):
            continue
        match = re.match(r"(gfx\w+)((?: [0-9a-f]{8}){1,4}) (.*)$", line)
        assert match, f"malformed line: {line}"
        lines.append((match[1], b"".join(int(word, 16).to_bytes(4, "little") for word in match[2].split()), match[3]))
    return lines


def registers_named(text: str) -> set[tuple[str, int, int]]:
    """Kind, first register and count of every register range in LLVM's text."""
    found: set[tuple[str, int, int]] = set()
    for token in re.findall(r"[a-z]\w*(?:\[\d+:\d+\])?", re.sub(r"(?<=\s)[a-z]\w*:\S+|hwreg\([^)]*\)", "", text)):
        match = REGISTER.match(token)
        if match:
            first = int(match[2] or match[3])
            count = 1 if match[2] else int(match[4]) - first + 1
            kind, first = ("s", first + 108) if match[1] == "ttmp" else (match[1], first)
            found.add((kind, first, count))
        elif token in SPECIAL:
            found.add(("s", *SPECIAL[token]))
    return found


def test_every_line_of_the_corpus_decodes_to_llvms_text() -> None:
    wrong: list[str] = []
    for target, data, expected in corpus():
        try:
            text = decode(data, 0, target).text
        except UnknownInstruction:
            text = "none"
        if text != expected:
            wrong.append(f"{target} {data.hex()}: {text}, LLVM {expected}")
    assert not wrong, f"{len(wrong)} lines differ:\n" + "\n".join(wrong[:20])


def test_operands_are_the_registers_that_llvm_names() -> None:
    for target, data, expected in corpus():
        if expected == "none":
            continue
        instruction = decode(data, 0, target)
        operands = instruction.destinations + instruction.sources
        named = [item for item in operands if item.kind in "va" or (item.kind == "s" and item.index < 128)]
        found = {(item.kind, item.index, item.count) for item in named}
        if "cmpswap" in instruction.mnemonic:  # the result is half as wide as the data, which the text names
            continue
        assert found == registers_named(expected.split(None, 1)[-1]), f"{target} {expected}"


def test_corpus_has_every_mnemonic_and_form_of_the_table() -> None:
    forms = {(decode(data, 0, target).opcode, target) for target, data, text in corpus() if text != "none"}
    seen = {(opcode.mnemonic, opcode.suffix) for opcode, _ in forms if opcode}
    known = {(row.mnemonic, row.suffix) for target in TARGETS for row in opcode_table(target).values()}
    assert not known - seen


def instruction(target: str, *words: int) -> Instruction:
    return decode(b"".join(word.to_bytes(4, "little") for word in words), 0x100, target)


def test_operand_values_and_modifiers() -> None:
    add = instruction("gfx942", 0x68060681)  # v_add_u32_e32 v3, 1, v3
    assert add.destinations == (Operand("v", 3, 1, "v3"),)
    assert add.sources == (Operand("imm", 1, 1, "1"), Operand("v", 3, 1, "v3"))
    assert (add.mnemonic, add.encoding, add.size, add.address) == ("v_add_u32", "VOP2", 4, 0x100)

    half = instruction("gfx942", 0x020606F2), instruction("gfx942", 0x3E0606F2)  # v_add_f32 and v_add_f16 with 1.0
    assert [item.sources[0].index for item in half] == [0x3F800000, 0x3C00]

    wide = instruction("gfx942", 0xD2800004, 0x000208F3)  # v_add_f64 v[4:5], -1.0, v[4:5]
    assert wide.sources[0].index == 0xBFF0000000000000
    assert wide.sources[0].count == 2

    minus = instruction("gfx942", 0xBE8001C1)  # s_mov_b64 s[0:1], -1
    assert minus.sources[0].index == 0xFFFFFFFFFFFFFFFF

    fma = instruction("gfx942", 0xD1CB8200, 0x24060302)  # v_fma_f32 v0, -v2, |v1|, v1 clamp
    assert (fma.sources[0].negate, fma.sources[1].absolute, fma.modifiers["clamp"]) == (True, True, 1)


def test_literals_follow_the_type_of_their_operand() -> None:
    assert instruction("gfx942", 0xBE8000FF, 0x80000001).sources[0] == Operand(
        "imm", 0x80000001, 1, "0x80000001", literal=True
    )
    assert instruction("gfx942", 0x7E084AFF, 0x3FF00000).sources[0].index == 0x3FF0000000000000  # v_rcp_f64
    assert instruction("gfx942", 0x3E0606FF, 0x12345678).sources[0].index == 0x5678  # v_add_f16
    fmamk = instruction("gfx942", 0x2E060602, 0x40000000)
    assert fmamk.text == "v_fmamk_f32 v3, s2, 0x40000000, v3" and fmamk.size == 8


def test_memory_operands() -> None:
    load = instruction("gfx942", 0xDC5D9FF8, 0x047F0004)  # global_load_dwordx4 v[4:7], v[4:5], off offset:-8
    assert load.sources[1].kind == "off" and load.modifiers["offset"] == -8
    to_lds = instruction("gfx950", 0xE05D1000, 0x05050004)
    assert to_lds.text == "buffer_load_dwordx4 v4, s[20:23], s5 offen lds" and to_lds.destinations == ()
    atomic = instruction("gfx942", 0xDD098000, 0x007F0200)
    assert atomic.destinations and atomic.modifiers["sc0"] == 1
    scalar = instruction("gfx942", 0xC0060002, 0x00000010)
    assert [item.kind for item in scalar.sources] == ["s", "off"] and scalar.modifiers["offset"] == 16


def test_branch_targets_are_byte_addresses() -> None:
    assert instruction("gfx90a", 0xBF820003).branch_target == 0x100 + 4 + 12
    assert instruction("gfx90a", 0xBF84FFFE).branch_target == 0x100 + 4 - 8
    assert instruction("gfx90a", 0xBF800003).branch_target is None


def test_wait_counts() -> None:
    wait = instruction("gfx942", 0xBF8C4F72)
    assert [wait.modifiers[name] for name in ("vmcnt", "expcnt", "lgkmcnt")] == [18, 7, 15]


def test_scaled_matrix_product_is_one_instruction() -> None:
    words = (0xD3AC0800, 0x10023318, 0xD3AD0800, 0x04521904)
    product = instruction("gfx950", *words)
    assert product.mnemonic == "v_mfma_scale_f32_16x16x128_f8f6f4" and product.size == 16
    assert [item.text for item in product.sources[3:]] == ["v24", "v25"]
    assert (product.modifiers["op_sel"], product.modifiers["op_sel_hi"]) == (1, 2)
    with pytest.raises(UnknownInstruction):
        instruction("gfx942", *words)


def test_chips_differ() -> None:
    packed = (0xD2080002, 0x04010004)  # v_lshl_add_u64, which gfx90a lacks
    assert instruction("gfx942", *packed).mnemonic == "v_lshl_add_u64"
    with pytest.raises(UnknownInstruction):
        instruction("gfx90a", *packed)
    with pytest.raises(ValueError, match="gfx1100"):
        instruction("gfx1100", 0xBF800000)


def test_unknown_words_name_the_words_the_address_and_the_reason() -> None:
    with pytest.raises(
        UnknownInstruction, match="gfx942: unknown instruction: ffffffff ffffffff at address 0x100"
    ) as e:
        instruction("gfx942", 0xFFFFFFFF, 0xFFFFFFFF)
    assert (e.value.address, e.value.words) == (0x100, (0xFFFFFFFF, 0xFFFFFFFF))
    with pytest.raises(UnknownInstruction, match="with operand number 3, which is not an operand of type b64"):
        instruction("gfx942", 0xBE800103)
    with pytest.raises(UnknownInstruction, match="cut off"):
        instruction("gfx942", 0xD1CB0000)
    with pytest.raises(UnknownInstruction, match="literal constant is cut off"):
        instruction("gfx942", 0xBE8000FF)
    with pytest.raises(UnknownInstruction, match="no words"):
        instruction("gfx942")
