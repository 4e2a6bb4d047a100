"""The chips' data: consistent with itself, with the published peaks, and a sentence for what a chip lacks."""

import subprocess
import sys

import pytest

from ckmlir.errors import CkmlirError
from ckmlir.targets import TARGETS, TargetError, UnsupportedTarget, all_targets, get_target
from ckmlir.targets.features import FEATURES
from ckmlir.targets.mfma import INSTRUCTIONS

gfx90a, gfx942, gfx950 = all_targets()


def test_names():
    assert TARGETS == ("gfx90a", "gfx942", "gfx950") and [target.name for target in all_targets()] == list(TARGETS)
    assert get_target("gfx942:sramecc+:xnack-") is gfx942


@pytest.mark.parametrize("name", ["gfx1100", "", "GFX942", "targets"])
def test_unknown_chips(name):
    with pytest.raises(UnsupportedTarget, match=f"unknown target '{name}'; .*there are gfx90a .MI200., gfx942"):
        get_target(name)


@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_instructions_and_features_exist(target):
    assert set(target.mfma_cycles) <= set(INSTRUCTIONS) and target.features <= set(FEATURES)
    assert all(cycles % 4 == 0 for cycles in target.mfma_cycles.values())
    assert (target.fp8 is None) == (not target.mfmas("fp8")) == (not target.has("fp8_convert"))


def test_every_instruction_and_feature_is_on_some_chip():
    assert set().union(*(target.mfma_cycles for target in all_targets())) == set(INSTRUCTIONS)
    assert set().union(*(target.features for target in all_targets())) == set(FEATURES)


@pytest.mark.parametrize(
    "target, shape, dtype, gigahertz, teraflops",
    [  # AMD Instinct data sheets, dense matrix peaks, at the boost clock; gfx90a: one die of two
        (gfx90a, "32x32x8", "f16", 1.7, 383.0 / 2),
        (gfx90a, "32x32x8", "bf16", 1.7, 383.0 / 2),
        (gfx90a, "16x16x4", "f64", 1.7, 95.7 / 2),
        (gfx942, "32x32x8", "f16", 2.1, 1307.4),
        (gfx942, "32x32x16", "fp8", 2.1, 2614.9),
        (gfx942, "32x32x16", "i8", 2.1, 2614.9),
        (gfx942, "16x16x8", "xf32", 2.1, 653.7),
        (gfx942, "32x32x2", "f32", 2.1, 163.4),
        (gfx942, "16x16x4", "f64", 2.1, 163.4),
        (gfx950, "16x16x32", "f16", 2.4, 2516.6),
        (gfx950, "32x32x64", "fp8", 2.4, 5033.2),
        (gfx950, "16x16x128", "fp4", 2.4, 10066.3),
        (gfx950, "16x16x4", "f64", 2.4, 78.6),
    ],
)
def test_published_peaks(target, shape, dtype, gigahertz, teraflops):
    rate = target.mfma_rate(target.find_mfma(shape, dtype))
    assert rate * target.compute_units * gigahertz / 1000 == pytest.approx(teraflops, rel=0.002)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_operand_types_hold_the_operands(name):
    instruction = INSTRUCTIONS[name]
    widths = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "i32": 32, "i16": 16, "i64": 64}
    widths |= {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}

    def bits(type_):
        count, _, element = type_.removeprefix("vector<").removesuffix(">").rpartition("x")
        return int(count) * widths[element] if type_.startswith("vector") else widths[type_]

    assert bits(instruction.a_type) == instruction.a_per_lane * widths[instruction.a]
    assert instruction.a_per_lane * (1 + instruction.sparse) == instruction.k_per_lane
    assert bits(instruction.b_type) == instruction.k_per_lane * widths[instruction.b]
    assert bits(instruction.acc_type) == instruction.acc_per_lane * widths[instruction.acc]


def test_spelling():
    assert gfx942.find_mfma("32x32x8", "bf16").op == "rocdl.mfma.f32.32x32x8bf16.1k"
    assert gfx950.find_mfma("16x16x32", "bf16").op == "rocdl.mfma.f32.16x16x32.bf16"
    scaled = gfx950.find_mfma("16x16x128", "fp8", "fp4")
    assert scaled.op == "rocdl.mfma.scale.f32.16x16x128.f8f6f4" and scaled.scaled
    assert scaled.intrinsic == "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4"
    assert gfx90a.find_mfma("32x32x8", "i8").a_type == "i32" and gfx942.find_mfma("32x32x16", "i8").a_type == "i64"


@pytest.mark.parametrize("target", all_targets(), ids=str)
@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("width", [4, 8, 12, 16])
def test_lds_phases_cover_the_wave_and_fill_the_banks(target, kind, width):
    access = target.lds_access(kind, width)
    assert sorted(lane for phase in access.phases for lane in phase) == list(range(64))
    assert all(len(phase) * width <= access.banks * 4 for phase in access.phases)
    assert access.source


def test_lds_access_of_published_phases():
    read = gfx942.lds_access("read", 16)
    assert read.phases[0] == (0, 1, 2, 3, 20, 21, 22, 23) and not read.assumed and len(read.phases) == 8
    assert gfx950.lds_access("read", 16).phases[0] == (0, 1, 2, 3, 12, 13, 14, 15, *range(20, 28))
    assert gfx942.lds_access("write", 16).phases[1] == tuple(range(8, 16))
    assert gfx942.lds_access("read", 2) == gfx942.lds_access("read", 4)


@pytest.mark.parametrize(
    "ask, words",
    [
        (
            lambda: gfx90a.find_mfma("32x32x16", "fp8"),
            r"^gfx90a has no fp8 MFMA \(fp8 matrix instructions start with gfx942\)$",
        ),
        (lambda: gfx950.find_mfma("16x16x8", "xf32"), "xf32 matrix instructions exist on gfx942 only"),
        (lambda: gfx942.find_mfma("32x32x16", "f16"), "has no 32x32x16 MFMA for f16 x f16; it has 32x32x8, 16x16x16"),
        (lambda: gfx942.find_mfma("32x32x8", "f16", "bf16"), "no chip has an MFMA for f16 x bf16"),
        (lambda: gfx942.mfma("f32.16x16x32.f16"), "its matrix instructions for f16 x f16 are f32.32x32x8f16"),
        (lambda: gfx942.mfma("f32.7x7x7f16"), "there is no matrix instruction 'f32.7x7x7f16'"),
        (
            lambda: gfx942.require("lds_transpose_read", "fmha_fwd"),
            r"^fmha_fwd: gfx942 has no transposing LDS read .*gfx950 has",
        ),
        (lambda: gfx942.require_direct_to_lds(16, "copy"), "copy: gfx942 loads 4 bytes a lane straight to LDS, not 16"),
        (lambda: gfx942.lds_access("read", 5), "no LDS read of 5 bytes"),
    ],
)
def test_what_a_chip_lacks(ask, words):
    with pytest.raises(TargetError, match=words):
        ask()


def test_what_a_chip_has():
    gfx950.require("lds_transpose_read", "fmha_fwd")
    gfx950.require_direct_to_lds(16, "copy")
    assert gfx950.mfma("f32.16x16x32.f16").k_per_lane == 8
    with pytest.raises(KeyError):
        gfx950.has("no such feature")


def test_targets_import_nothing_else():
    program = (
        "import sys, ckmlir.targets as t; t.all_targets(); print([m for m in sys.modules if m in ('numpy', 'flydsl')])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.parametrize("name", [None, 942, b"gfx942"])
def test_a_target_is_named_by_text(name):
    with pytest.raises(CkmlirError, match="a target is named by text such as 'gfx942', not by"):
        get_target(name)
