"""The same instructions compiled for different processors give the same bits: what the simulator says of a kernel must
not depend on the machine it runs on. Sets of features that this machine lacks are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from single_wave import SingleWave, make, selection_of, v
from test_alu_operations import SCALAR, VECTOR, Case, cases

from ckmlir.errors import CkmlirError
from ckmlir.sim import library, processor
from ckmlir.sim.decode import Instruction
from ckmlir.sim.library import HandlerLibrary
from ckmlir.sim.operation import OPERATIONS
from ckmlir.sim.processor import LEVELS, Processor

PROCESSORS = [*LEVELS.values(), processor.host(), processor.host(without="avx512fp16")]

FAMILIES = """
    v_cvt_i16_f16 v_cvt_u16_f16 v_cvt_f16_i16 v_cvt_f16_u16 v_cvt_f16_f32 v_cvt_f32_f16 v_cvt_f32_u32 v_cvt_f32_i32
    v_cvt_u32_f32 v_cvt_i32_f32 v_cvt_u32_f64 v_cvt_i32_f64 v_cvt_f64_u32 v_cvt_f32_f64 v_cvt_norm_i16_f16
    v_cvt_pkrtz_f16_f32 v_cvt_pk_bf16_f32 v_cvt_pk_fp8_f32 v_cvt_sr_bf8_f32
    v_add_f16 v_add_f32 v_mul_f64 v_fma_f16 v_fma_f32 v_fma_f64 v_mac_f16 v_mad_f32 v_fma_mixlo_f16 v_dot2_f32_f16
    v_min_f16 v_max_f32 v_max_f64 v_med3_f16 v_minimum3_f32
    v_rndne_f16 v_floor_f32 v_fract_f64 v_ldexp_f16 v_ldexp_f64 v_frexp_mant_f16 v_cmp_lg_f16 v_cmp_class_f32
    v_sqrt_f16 v_sqrt_f32 v_rcp_f16 v_rsq_f32 v_exp_f32 v_log_f32 v_sin_f16
    v_div_scale_f32 v_div_fmas_f64 v_div_fixup_f16
    v_bcnt_u32_b32 v_ffbh_u32 v_bfrev_b32 v_mul_hi_i32 v_perm_b32 v_lshlrev_b64
"""
"""One operation or a few of each family; with -m full all of them are compared."""

MODES = [0x3F0, *(0x3F0 | field | field << 2 for field in (1, 2, 3)), 0x3C0]  # each rounding, then denormals flushed
ROUNDED = """
    v_cvt_f16_f32 v_cvt_f16_u16 v_cvt_f32_u32 v_cvt_f64_u32 v_cvt_f32_f64 v_add_f16 v_add_f32 v_mul_f64 v_fma_f32
    v_fma_f16 v_cvt_i16_f16
"""
MATRICES = (
    "v_mfma_f32_16x16x16_f16 v_mfma_f32_32x32x4_bf16 v_mfma_f32_4x4x4_16b_f16 v_mfma_f32_16x16x4_f32 "
    "v_mfma_i32_16x16x32_i8 v_mfma_f64_16x16x4_f64 v_mfma_f32_16x16x32_fp8_fp8"
)


@dataclass
class Prepared:
    """Instructions with the registers that they find, and under which MODE they run."""

    instruction: Instruction
    wave: SingleWave
    target: str
    mode: int | None = None

    @property
    def key(self) -> Any:
        return selection_of(self.instruction, self.target, self.mode is not None).key

    def outcome(self, handlers: HandlerLibrary) -> tuple[bytes, ...]:
        """All that the instruction leaves behind."""
        self.wave.handlers = handlers
        self.wave.mode = 0x3F0 if self.mode is None else self.mode
        assert self.wave.run([self.instruction], self.target, dynamic_mode=self.mode is not None) == 0
        wave = self.wave
        return wave.vgpr.tobytes(), wave.sgpr.tobytes(), wave.exec.to_bytes(8, "little"), bytes([wave.scc])


def of_operation(case: Case, mode: int | None = None) -> Prepared:
    return Prepared(case.instruction(), case.wave, "gfx942" if case.fields.get("fnuz", 1) else "gfx950", mode)


def of_matrix(mnemonic: str, seed: int) -> Prepared:
    """A matrix product of random words, many of which are NaNs of some format, with a random C."""
    wave = SingleWave()
    wave.vgpr[:] = np.random.default_rng(seed).integers(0, 1 << 32, (512, 64), np.uint32)
    m = int(re.search(r"_(\d+)x", mnemonic)[1])  # type: ignore[index]
    double = "_f64_" in mnemonic
    registers = max(1, m * m // 64) * (2 if double else 1) * (2 if "32x32x4_" in mnemonic else 1)
    width = {"f32": 1, "f64": 2, "i8": 2, "fp8": 2, "f16": 2, "bf16": 1}[mnemonic.split("_")[-1]]
    sources = [v(100, width), v(120, width), v(0, registers)]
    return Prepared(make(mnemonic, [v(0, registers)], sources, "MFMA"), wave, "gfx942")


def negated(mnemonic: str, seed: int) -> Prepared:
    """A multiply-add with negated operands, every second lane of each a NaN of its own."""
    wave, rng = SingleWave(), np.random.default_rng(seed)
    words = rng.standard_normal((512, 64)).astype(np.float32).view(np.uint32)
    nan = rng.integers(0, 2, words.shape).astype(bool)
    wave.vgpr[:] = np.where(nan, rng.integers(0x7F800001, 1 << 31, words.shape, np.uint32), words)
    width = 2 if mnemonic.endswith("f64") else 1
    sources = [v(10 * k, width, negate=bool(seed >> k & 1), absolute=k == 1) for k in range(3)]
    return Prepared(make(mnemonic, [v(40, width)], sources), wave, "gfx942")


def prepared(chosen: str) -> Iterator[Prepared]:
    names = set(FAMILIES.split())
    for operation in VECTOR + SCALAR:
        if chosen == "all" or (chosen == "families" and operation.mnemonic in names):
            rng = np.random.default_rng(7)
            yield from (of_operation(case) for case in cases(operation, rng, 4))
    for name in ROUNDED.split() if chosen == "modes" else ():
        for mode in MODES:
            rng = np.random.default_rng(9)
            yield from (of_operation(case, mode) for case in cases(OPERATIONS[name], rng, 2))
    for name in ("v_fma_f32", "v_fma_f64", "v_fma_f16", "v_mad_f32") if chosen == "modes" else ():
        yield from (negated(name, seed) for seed in range(8))
    for name in MATRICES.split() if chosen == "matrices" else ():
        yield from (of_matrix(name, seed) for seed in range(2))


@lru_cache(maxsize=2)
def outcomes(chosen: str, made_for: Processor) -> list[tuple[str, tuple[bytes, ...]]]:
    handlers, all_prepared = HandlerLibrary(None, made_for), list(prepared(chosen))
    handlers.addresses(dict.fromkeys(one.key for one in all_prepared))
    return [(one.instruction.mnemonic, one.outcome(handlers)) for one in all_prepared]


def compare(chosen: str, made_for: Processor) -> None:
    if missing := made_for.missing():
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    reference = outcomes(chosen, processor.chosen())
    different = {name for (name, expected), (_, got) in zip(reference, outcomes(chosen, made_for)) if expected != got}
    assert len(reference) > 10
    assert not different, f"{made_for.name} and {processor.chosen().name} differ in {', '.join(sorted(different))}"


def slow_first_level(made_for: Processor) -> Any:
    """Compiling for the first level takes longest, and no processor of the last fifteen years stops there."""
    return pytest.param(made_for, id=made_for.name, marks=[pytest.mark.full] if made_for.name == "x86-64" else [])


def test_names_are_operations() -> None:
    assert {*FAMILIES.split(), *ROUNDED.split()} <= {operation.mnemonic for operation in VECTOR + SCALAR}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("made_for", [*map(slow_first_level, PROCESSORS)])
@pytest.mark.parametrize("chosen", ["families", "modes", "matrices"])
def test_every_processor_gives_the_same_bits(chosen: str, made_for: Processor) -> None:
    compare(chosen, made_for)


@pytest.mark.full
@pytest.mark.parametrize("made_for", PROCESSORS, ids=lambda made_for: made_for.name)
def test_every_processor_gives_the_same_bits_for_all_operations(made_for: Processor) -> None:
    compare("all", made_for)


def test_no_arithmetic_on_halves_is_left_to_the_processor() -> None:
    """Also where it could be done: with AVX512-FP16, LLVM 22 makes 0x8000 of NaN as a 16-bit integer."""
    newer = Processor("with AVX512-FP16", "sapphirerapids", ("+avx512fp16",))
    keys = {one.key for one in prepared("families") if "f16" in one.instruction.mnemonic}
    machine = library.target_machine(newer)
    assembly = machine.emit_assembly(llvm.parse_assembly(library.module_text(keys)))
    mnemonics = set(re.findall(r"^\t(v\w+)", assembly, re.M))
    of_halves = {name for name in mnemonics if re.fullmatch(r"v(?!mov)\w+[ps]h|v\w*(ph2|2ph)\w*", name)}
    assert {"vcvtph2psx", "vcvtps2phx"} <= of_halves <= {"vcvtph2psx", "vcvtps2phx", "vcvtph2ps", "vcvtps2ph"}


def test_the_choice_is_a_level_that_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(processor.VARIABLE, raising=False)
    highest = processor.chosen()
    assert highest in LEVELS.values() and not highest.missing()
    assert "avx512fp16" not in highest.feature_text
    monkeypatch.setenv(processor.VARIABLE, "x86-64")
    assert processor.chosen() == LEVELS["x86-64"]
    kept_elsewhere = library.cache_directory
    monkeypatch.setenv("CKMLIR_CACHE", "on")
    low = kept_elsewhere()
    monkeypatch.delenv(processor.VARIABLE)
    assert kept_elsewhere() != low
    monkeypatch.setenv(processor.VARIABLE, "x86-64-v5")
    with pytest.raises(CkmlirError, match="CKMLIR_SIMULATOR_PROCESSOR=x86-64-v5: there is no such level; did you mean"):
        processor.chosen()
    monkeypatch.setattr(processor, "host_features", lambda: {"64bit": True})
    monkeypatch.setenv(processor.VARIABLE, "x86-64-v2")
    with pytest.raises(CkmlirError, match="this machine lacks cmov, "):
        processor.chosen()
