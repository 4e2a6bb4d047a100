"""Every hazard rule by example: too close is found, one wait state more is not, and other registers do not matter."""

from __future__ import annotations

import pytest
from assembly import flow_of

from ckmlir.sim.analysis.hazard_rules import RULES
from ckmlir.sim.analysis.hazards import Hazard, HazardAnalysis

ALL = ("gfx90a", "gfx942", "gfx950")
NEW = ("gfx942", "gfx950")
OLD = ("gfx90a",)
CDNA4 = ("gfx950",)

MFMA16 = "v_mfma_f32_16x16x16{} v[0:3], v[20:21], v[22:23], v[0:3]"
SCALING = "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:31], v[32:47]"
"""Of fp8 by fp8: 16 passes."""
MULTIPLIED = "v_mfma_f32_32x32x64_f8f6f4 v[48:63], v[0:7], v[24:31], v[32:47]"
MFMA32 = "v_mfma_f32_32x32x8{} v[0:15], v[20:21], v[22:23], v[0:15]"
SINGLE16 = "v_mfma_f32_16x16x4_f32 v[0:3], v20, v22, v[0:3]"
MFMA4 = "v_mfma_f32_4x4x4{} v[0:3], v[20:21], v[22:23], v[0:3]"
SINGLE = "v_mfma_f32_32x32x2{} v[0:15], v20, v22, v[0:15]"
DOUBLE16 = "v_mfma_f64_16x16x4{} v[0:7], v[20:21], v[22:23], v[0:7]"
DOUBLE4 = "v_mfma_f64_4x4x4{} v[0:1], v[20:21], v[22:23], v[0:1]"
FACTOR = "v_mfma_f32_16x16x16{} v[30:33], v[0:1], v[22:23], v[30:33]"
ELSEWHERE = "v_mfma_f32_16x16x16{} v[30:33], v[20:21], v[22:23], v[2:5]"
SAME = "v_mfma_f32_16x16x16{} v[30:33], v[20:21], v[22:23], v[0:3]"
DOUBLE4_ADD = "v_mfma_f64_4x4x4{} v[30:31], v[20:21], v[22:23], v[0:1]"
DOUBLE16_ADD = "v_mfma_f64_16x16x4{} v[30:37], v[20:21], v[22:23], v[4:11]"
ADD = "v_add_f32_e32 v59, v0, v0"
OVERWRITE = "v_mov_b32_e32 v0, 0"
STORE = "global_store_dword v[40:41], v0, off"
LDS_STORE = "ds_write_b32 v40, v0"
LOAD = "global_load_dword v0, v[40:41], off"
LIMIT = "v_cmp_lt_f32_e64 s[2:3], v1, v2"
EXEC = "v_cmpx_lt_f32_e32 vcc, v1, v2"
STORE4 = "global_store_dwordx4 v[40:41], v[0:3], off"

_SUFFIX = {
    "gfx90a": {
        "v_mfma_f32_16x16x16": "f16",
        "v_mfma_f32_32x32x8": "f16",
        "v_mfma_f32_4x4x4": "f16",
        "v_mfma_f32_32x32x2": "f32",
        "v_mfma_f64_16x16x4": "f64",
        "v_mfma_f64_4x4x4": "f64",
    },
    "gfx942": {
        "v_mfma_f32_16x16x16": "_f16",
        "v_mfma_f32_32x32x8": "_f16",
        "v_mfma_f32_4x4x4": "_16b_f16",
        "v_mfma_f32_32x32x2": "_f32",
        "v_mfma_f64_16x16x4": "_f64",
        "v_mfma_f64_4x4x4": "_4b_f64",
    },
}

EXAMPLES = [
    # rule, chips, first, second, wait states
    (
        "VALU writes SGPR, VMEM reads it",
        ALL,
        "v_readfirstlane_b32 s3, v1",
        "buffer_load_dword v0, v1, s[4:7], s3 offen",
        5,
    ),
    (
        "VALU writes SGPR, VMEM reads it",
        ALL,
        "v_readlane_b32 s5, v1, s9",
        "buffer_load_dword v0, v1, s[4:7], 0 offen",
        5,
    ),
    (
        "VALU writes SGPR, v_readlane or v_writelane selects a lane with it",
        ALL,
        "v_readfirstlane_b32 s3, v1",
        "v_readlane_b32 s5, v2, s3",
        4,
    ),
    ("VALU writes SGPR, v_readlane or v_writelane selects a lane with it", ALL, LIMIT, "v_writelane_b32 v5, 0, s3", 4),
    ("VALU writes vcc, v_div_fmas reads it", ALL, "v_cmp_lt_f32_e32 vcc, v1, v2", "v_div_fmas_f32 v3, v4, v5, v6", 4),
    ("VALU writes exec, DPP instruction", ALL, EXEC, "v_mov_b32_dpp v5, v6 row_shr:1 row_mask:0xf bank_mask:0xf", 5),
    ("VALU writes exec, matrix instruction", ALL, EXEC, MFMA16, 4),
    (
        "VALU writes vcc or exec, VALU reads vccz or execz",
        ALL,
        "v_cmp_lt_f32_e32 vcc, v1, v2",
        "v_mov_b32_e32 v3, src_vccz",
        5,
    ),
    ("VALU writes SGPR or vcc, VALU reads it", NEW, LIMIT, "v_add_u32_e32 v3, s2, v4", 2),
    (
        "VALU writes SGPR or vcc, VALU reads it as carry or mask",
        NEW,
        "v_cmp_lt_f32_e32 vcc, v1, v2",
        "v_cndmask_b32_e32 v3, v4, v5, vcc",
        2,
    ),
    ("VALU writes exec, v_readlane, v_readfirstlane or v_writelane", NEW, EXEC, "v_readfirstlane_b32 s3, v7", 4),
    ("v_cmpx writes exec, v_permlane swap", CDNA4, EXEC, "v_permlane32_swap_b32_e32 v5, v6", 4),
    (
        "a write of a VGPR, DPP instruction reads it",
        ALL,
        "v_mov_b32_e32 v6, 0",
        "v_mov_b32_dpp v5, v6 row_shr:1 row_mask:0xf bank_mask:0xf",
        2,
    ),
    ("transcendental result, another VALU instruction reads it", NEW, "v_exp_f32_e32 v0, v1", ADD, 1),
    (
        "transcendental result, another VALU instruction reads it",
        NEW,
        "v_rcp_f64_e32 v[0:1], v[2:3]",
        "v_mul_f64 v[4:5], v[0:1], v[0:1]",
        1,
    ),
    (
        "result moved by SDWA or OP_SEL, VALU uses its register",
        NEW,
        "v_add_f16_sdwa v0, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
        ADD,
        1,
    ),
    (
        "result moved by SDWA or OP_SEL, VALU uses its register",
        NEW,
        "v_fma_f16 v0, v1, v2, v3 op_sel:[0,0,0,1]",
        ADD,
        1,
    ),
    (
        "result moved by SDWA or OP_SEL, VALU uses its register",
        NEW,
        "v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1]",
        OVERWRITE,
        1,
    ),
    (
        "result moved by SDWA or OP_SEL, VALU uses its register",
        CDNA4,
        "v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3",
        ADD,
        1,
    ),
    ("VALU writes VGPR, v_readlane or v_readfirstlane reads it", NEW, OVERWRITE, "v_readfirstlane_b32 s3, v0", 1),
    ("VALU writes VGPR, v_permlane swap reads it", CDNA4, OVERWRITE, "v_permlane16_swap_b32_e32 v0, v6", 2),
    ("store of more than 64 bits, VALU overwrites its data", OLD, STORE4, OVERWRITE, 1),
    ("store of more than 64 bits, VALU overwrites its data", NEW, STORE4, OVERWRITE, 2),
    (
        "store of more than 64 bits, VALU overwrites its data",
        NEW,
        "buffer_store_dwordx4 v[0:3], v40, s[4:7], 0 offen",
        OVERWRITE,
        2,
    ),
    ("result of a dot product, another instruction uses it", ALL, "v_dot2_f32_f16 v0, v1, v2, v3", ADD, 3),
    (
        "result of a dot product, another instruction uses it",
        ALL,
        "v_dot2_f32_f16 v0, v1, v2, v3",
        "v_dot2_f32_f16 v4, v0, v2, v3",
        3,
    ),
    ("result of a dot product, another instruction uses it", ALL, "v_dot2_f32_f16 v0, v1, v2, v3", STORE, 3),
    ("result of a dot product, another instruction uses it", ALL, "v_dot2_f32_f16 v0, v1, v2, v3", OVERWRITE, 3),
    ("VALU writes VGPR, matrix instruction reads it", ALL, OVERWRITE, MFMA16, 2),
    ("VALU writes VGPR, matrix instruction reads it", ALL, "v_mov_b32_e32 v20, 0", MFMA16, 2),
    (
        "f64 matrix instruction, v_fma_f64 or v_fmac_f64",
        ALL,
        DOUBLE4,
        "v_fma_f64 v[50:51], v[52:53], v[54:55], v[56:57]",
        2,
    ),
    ("matrix result, matrix instruction multiplies it", OLD, MFMA4, FACTOR, 5),
    ("matrix result, matrix instruction multiplies it", OLD, MFMA16, FACTOR, 11),
    ("matrix result, matrix instruction multiplies it", OLD, MFMA32, FACTOR, 19),
    ("matrix result, matrix instruction multiplies it", ("gfx942",), MFMA4, FACTOR, 5),
    ("matrix result, matrix instruction multiplies it", ("gfx942",), MFMA16, FACTOR, 7),
    ("matrix result, matrix instruction multiplies it", ("gfx942",), MFMA32, FACTOR, 11),
    ("matrix result, matrix instruction multiplies it", ("gfx942",), SINGLE, FACTOR, 18),
    ("matrix result, matrix instruction multiplies it", CDNA4, MFMA16, FACTOR, 8),
    ("matrix result, matrix instruction multiplies it", CDNA4, MFMA32, FACTOR, 12),
    ("matrix result, matrix instruction multiplies it", ALL, DOUBLE4, FACTOR, 6),
    ("matrix result, matrix instruction multiplies it", ("gfx90a", "gfx942"), DOUBLE16, FACTOR, 11),
    ("matrix result, matrix instruction multiplies it", CDNA4, DOUBLE16, FACTOR, 19),
    ("matrix result, matrix instruction adds to it", OLD, MFMA16, ELSEWHERE, 8),
    ("matrix result, matrix instruction adds to it", ("gfx942",), MFMA16, ELSEWHERE, 5),
    ("matrix result, matrix instruction adds to it", ("gfx942",), MFMA4, SAME, 2),
    ("matrix result, matrix instruction adds to it", ("gfx942",), MFMA32, ELSEWHERE, 9),
    ("matrix result, matrix instruction adds to it", CDNA4, MFMA32, ELSEWHERE, 10),
    ("matrix result, matrix instruction adds to it", ALL, DOUBLE4, DOUBLE4_ADD, 4),
    ("matrix result, matrix instruction adds to it", OLD, DOUBLE16, DOUBLE16_ADD, 9),
    ("matrix result, matrix instruction adds to it", CDNA4, DOUBLE16, DOUBLE16_ADD, 17),
    ("matrix result, another kind of matrix instruction adds to it", ("gfx942",), MFMA16, SINGLE16, 5),
    ("matrix result, another kind of matrix instruction adds to it", CDNA4, MFMA16, SINGLE16, 6),
    ("store of more than 64 bits with an SGPR offset, VALU overwrites its data", NEW,
     "buffer_store_dwordx4 v[0:3], v40, s[4:7], s3 offen", OVERWRITE, 1),
    ("matrix result, VALU, memory or LDS reads it", OLD, MFMA16, ADD, 11),
    ("matrix result, VALU, memory or LDS reads it", ("gfx942",), MFMA32, ADD, 11),
    ("matrix result, VALU, memory or LDS reads it", ("gfx942",), SINGLE, STORE, 18),
    ("matrix result, VALU, memory or LDS reads it", CDNA4, MFMA32, LDS_STORE, 12),
    ("matrix result, VALU, memory or LDS reads it", CDNA4, SCALING, STORE, 20),  # LLVM 22 counts 19
    ("matrix result, matrix instruction multiplies it", CDNA4, SCALING, MULTIPLIED, 20),
    ("matrix result, VALU, memory or LDS overwrites it", CDNA4, SCALING, OVERWRITE, 20),
    ("matrix result, VALU, memory or LDS reads it", ALL, DOUBLE4, ADD, 6),
    ("matrix result, VALU, memory or LDS reads it", ALL, DOUBLE4, STORE, 9),
    ("matrix result, VALU, memory or LDS reads it", ALL, DOUBLE16, STORE, 18),
    ("matrix result, VALU, memory or LDS overwrites it", OLD, MFMA32, OVERWRITE, 19),
    ("matrix result, VALU, memory or LDS overwrites it", ("gfx942",), MFMA32, LOAD, 11),
    ("matrix result, VALU, memory or LDS overwrites it", ALL, DOUBLE16, OVERWRITE, 11),
    ("matrix instruction reads C, VALU, memory or LDS overwrites it", OLD, SAME, OVERWRITE, 7),
    ("matrix instruction reads C, VALU, memory or LDS overwrites it", NEW, SAME, OVERWRITE, 3),
    (
        "s_setreg, s_getreg or s_setreg of the same register",
        ALL,
        "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s3",
        "s_getreg_b32 s5, hwreg(HW_REG_MODE)",
        2,
    ),
    ("s_setreg of MODE.VSKIP, vector instruction", ALL, "s_setreg_b32 hwreg(HW_REG_MODE, 28, 1), s3", ADD, 2),
    ("s_setreg of TRAPSTS, s_rfe", ALL, "s_setreg_b32 hwreg(HW_REG_TRAPSTS, 0, 4), s3", "s_rfe_b64 s[4:5]", 1),
    (
        "SALU writes m0, copy to LDS uses it",
        ALL,
        "s_mov_b32 m0, s3",
        "buffer_load_dword v5, s[8:11], 0 offen lds",
        1,
    ),
    (
        "SALU writes m0, GDS, message or indexed move uses it",
        ALL,
        "s_mov_b32 m0, s3",
        "s_sendmsg sendmsg(MSG_INTERRUPT)",
        1,
    ),
]
CASES = [(rule, chip, first, second, states) for rule, chips, first, second, states in EXAMPLES for chip in chips]


def text_for(line: str, chip: str) -> str:
    """Fill in how the chip's assembler names a matrix instruction."""
    name = line.partition("{")[0]
    return line.format(_SUFFIX["gfx90a" if chip == "gfx90a" else "gfx942"].get(name, ""))


def hazards(chip: str, *lines: str) -> list[Hazard]:
    text = "\n".join(text_for(line, chip) for line in lines)
    return list(HazardAnalysis(flow_of(text, chip)).hazards())


def nops(states: int) -> list[str]:
    return [f"s_nop {min(8, states - start) - 1}" for start in range(0, states, 8)]


@pytest.mark.parametrize(("rule", "chip", "first", "second", "states"), CASES)
def test_one_wait_state_too_few_is_found(rule: str, chip: str, first: str, second: str, states: int) -> None:
    for present in {0, states - 1}:
        named = {
            (found.rule.name, found.needed, found.present) for found in hazards(chip, first, *nops(present), second)
        }
        assert (rule, states, present) in named
    assert rule not in {found.rule.name for found in hazards(chip, first, *nops(states), second)}


def test_every_rule_has_an_example() -> None:
    shown = {(rule, chip) for rule, chip, *_ in CASES} | {
        ("VALU writes VGPR, f64 matrix instruction, memory or LDS reads the VGPR", "gfx90a")
    }
    assert {(rule.name, chip) for rule in RULES for chip in rule.chips} == shown


@pytest.mark.parametrize(
    ("chip", "lines"),
    [
        ("gfx942", (MFMA32, MFMA32)),  # the same accumulator is forwarded
        ("gfx90a", (DOUBLE16, DOUBLE16)),
        ("gfx942", ("v_exp_f32_e32 v0, v1", "v_exp_f32_e32 v2, v0")),
        ("gfx942", ("v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v0, v1, v2, v0")),
        ("gfx90a", (LIMIT, "v_cndmask_b32_e64 v3, v4, v5, s[2:3]")),  # interlocked before gfx942
        ("gfx90a", ("buffer_store_dwordx4 v[0:3], v40, s[4:7], s3 offen", OVERWRITE)),  # an SGPR offset takes longer
        ("gfx942", ("v_mov_b32_e32 v7, 0", "v_add_f32_dpp v5, v6, v7 row_shr:1 row_mask:0xf bank_mask:0xf")),
        ("gfx942", ("global_store_dwordx2 v[40:41], v[0:1], off", OVERWRITE)),
        ("gfx942", ("s_mov_b32 s3, 0", "buffer_load_dword v0, v1, s[4:7], s3 offen")),  # SALU is interlocked
        ("gfx942", (MFMA32, "v_add_f32_e32 v60, v61, v62", "v_add_f32_e32 v63, v64, v65")),
        ("gfx942", ("v_add_f32_e32 v0, v1, v2", ADD)),
        # a comparison writes its mask whole, also in the SDWA form
        ("gfx942", ("v_mad_u64_u32 v[4:5], s[26:27], v4, s7, v[2:3]",
                    "v_cmp_lt_i32_sdwa s[26:27], v3, s21 src0_sel:BYTE_3 src1_sel:DWORD")),
    ],
)
def test_what_the_hardware_takes_care_of_is_clean(chip: str, lines: tuple[str, ...]) -> None:
    assert hazards(chip, *lines) == []


def test_an_f64_matrix_instruction_hides_a_dependency_of_gfx90a() -> None:
    between = text_for("v_mfma_f64_4x4x4{} v[50:51], v[20:21], v[22:23], v[50:51]", "gfx90a")
    assert hazards("gfx90a", OVERWRITE, between, STORE)
    assert not hazards("gfx90a", OVERWRITE, between, "s_nop 0", STORE)
    assert not hazards("gfx90a", OVERWRITE, STORE)


def test_the_shortest_path_counts() -> None:
    lines = (MFMA32, "s_cbranch_scc0 near", *nops(16), "near:", ADD)
    [found] = hazards("gfx942", *lines)
    assert found.present == 1


def test_distances_go_around_loops() -> None:
    loop = ("top:", ADD, *nops(6), MFMA32, "s_cbranch_scc1 top")
    found = [item for item in hazards("gfx942", *loop) if item.rule.name.endswith("reads it")]
    assert found and found[0].present == 1
    assert not hazards("gfx942", "top:", ADD, MFMA32, *nops(11), "s_cbranch_scc1 top")


def test_another_write_ends_the_danger_and_starts_its_own() -> None:
    lines = ("v_readfirstlane_b32 s3, v1", "s_mov_b32 s3, 0", "buffer_load_dword v0, v1, s[4:7], s3 offen")
    assert hazards("gfx942", *lines) == []
