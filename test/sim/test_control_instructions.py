"""Program flow, hardware registers, forks, VGPR indexing and other instructions of the wave as a whole, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from instruction_registry import covers, register
from single_wave import CODE, SingleWave, imm, make, s, v, wave_with

from ckmlir.sim import state
from ckmlir.sim.control import NO_OPERATION
from ckmlir.sim.decode import Instruction, Operand
from ckmlir.sim.selected import Environment
from ckmlir.sim.selection import select, why_not
from ckmlir.sim.state import ErrorKind, Status

LANES = np.arange(64)
ALL = (1 << 64) - 1


def scalar(mnemonic: str, destinations: Sequence[Operand] = (), sources: Sequence[Operand] = (), **fields: int) -> Any:
    return make(mnemonic, destinations, sources, "SOP1", **fields)


def branch(mnemonic: str, target: int, *sources: Operand, **fields: int) -> Instruction:
    return make(mnemonic, (), sources, "SOPP", **fields)._replace(branch_target=target)


def mark(register: int) -> Instruction:
    """Leaves 1 in a scalar register: the path went by here."""
    return scalar("s_mov_b32", [s(register)], [imm(1)])


def path(wave: SingleWave, *instructions: Instruction) -> list[int]:
    """Which of s1, s2, s3 instructions marked."""
    wave.sgpr[1:4] = 0
    assert wave.run(instructions) == Status.ENDED
    return [number for number in (1, 2, 3) if wave.sgpr[number]]


# -- branches --------------------------------------------------------------------------------------------------------

CONDITIONS = {
    "s_cbranch_scc0": (lambda w, x: setattr(w, "scc", not x)), "s_cbranch_scc1": (lambda w, x: setattr(w, "scc", x)),
    "s_cbranch_vccz": (lambda w, x: w.set_pair(106, 0 if x else 1 << 40)),
    "s_cbranch_vccnz": (lambda w, x: w.set_pair(106, 1 << 40 if x else 0)),
    "s_cbranch_execz": (lambda w, x: setattr(w, "exec", 0 if x else 1 << 63)),
    "s_cbranch_execnz": (lambda w, x: setattr(w, "exec", 1 << 63 if x else 0)),
}  # fmt: skip
register(CONDITIONS, "test_conditional_branch")


@pytest.mark.parametrize("mnemonic", CONDITIONS)
@pytest.mark.parametrize("taken", [True, False])
def test_conditional_branch(mnemonic: str, taken: bool) -> None:
    wave = SingleWave()
    CONDITIONS[mnemonic](wave, taken)
    assert path(wave, branch(mnemonic, 2), mark(1), mark(2)) == ([2] if taken else [1, 2])


@covers("s_branch")
def test_branch() -> None:
    assert path(SingleWave(), branch("s_branch", 2), mark(1), mark(2)) == [2]


DEBUG_BITS = {
    "s_cbranch_cdbguser": lambda user, system: user,
    "s_cbranch_cdbgsys": lambda user, system: system,
    "s_cbranch_cdbgsys_or_user": lambda user, system: user or system,
    "s_cbranch_cdbgsys_and_user": lambda user, system: user and system,
}
register(DEBUG_BITS, "test_debugger_branch")


@pytest.mark.parametrize("mnemonic", DEBUG_BITS)
def test_debugger_branch(mnemonic: str) -> None:
    for user in (0, 1):
        for system in (0, 1):
            wave = SingleWave()
            wave.blocks.words(state.STATUS_REGISTER, 1)[:] = user << 20 | system << 21
            taken = DEBUG_BITS[mnemonic](user, system)
            assert path(wave, branch(mnemonic, 2), mark(1), mark(2)) == ([2] if taken else [1, 2])


@covers("s_getpc_b64 s_setpc_b64 s_swappc_b64 s_call_b64")
def test_jumps_to_addresses() -> None:
    wave = SingleWave()
    wave.set_pair(10, CODE + 8 * 3)
    assert path(wave, scalar("s_getpc_b64", [s(12, 2)]), scalar("s_setpc_b64", (), [s(10, 2)]), mark(1), mark(2)) == [2]
    assert wave.mask(12) == CODE + 8
    wave = SingleWave()
    wave.set_pair(10, CODE + 8 * 2)
    assert path(wave, scalar("s_swappc_b64", [s(12, 2)], [s(10, 2)]), mark(1), mark(2)) == [2]
    assert wave.mask(12) == CODE + 8
    wave = SingleWave()
    call = make("s_call_b64", [s(14, 2)], (), "SOPK", simm16=1)._replace(branch_target=2)
    assert path(wave, call, mark(1), mark(2)) == [2]
    assert wave.mask(14) == CODE + 8


def test_a_jump_out_of_the_code_is_an_error() -> None:
    for address in (CODE - 8, CODE + 4, CODE + 800, 0):
        wave = SingleWave()
        wave.set_pair(10, address)
        assert wave.run([scalar("s_setpc_b64", (), [s(10, 2)])]) == Status.FAILED
        assert wave.error()[0] == ErrorKind.BAD_BRANCH


@covers("s_endpgm s_endpgm_saved s_endpgm_ordered_ps_done")
def test_ends() -> None:
    for name in ("s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"):
        wave = SingleWave()
        assert path(wave, make(name, (), (), "SOPP"), mark(1)) == []


@covers("s_barrier s_trap")
def test_barrier_stops_the_wave_and_a_trap_is_an_error() -> None:
    wave = SingleWave()
    assert wave.run([make("s_barrier", (), (), "SOPP")]) == Status.BARRIER
    assert wave.run([make("s_trap", (), [imm(2)], "SOPP", simm16=2)]) == Status.FAILED
    assert wave.error()[0] == ErrorKind.TRAP


register(NO_OPERATION, "test_what_does_nothing")


@covers("s_sleep")
def test_a_pause_goes_on_or_gives_way() -> None:
    """Where workgroups wait for each other the wave stops there; elsewhere it does nothing."""
    sleep, wave = make("s_sleep", (), [imm(1)], "SOPP", simm16=1), SingleWave()
    assert path(wave, sleep, mark(1)) == [1]
    wave.context[state.PAUSES // 8] = 1
    wave.sgpr[1] = 0
    assert wave.run([sleep, mark(1)]) == Status.YIELDED and wave.sgpr[1] == 0


@pytest.mark.parametrize("mnemonic", sorted(NO_OPERATION))
def test_what_does_nothing(mnemonic: str) -> None:
    """No register, no LDS and no flag changes."""
    wave = wave_with()
    wave.sgpr[:] = np.arange(128)
    wave.exec = ALL
    wave.lds[:] = 7
    before = wave.blocks.bytes[:, : state.RESUME].copy(), wave.vgpr.copy()
    fields = {"simm16": 1} if mnemonic == "s_sendmsg" else {}
    assert wave.run([make(mnemonic, (), (), "SOPP", **fields)]) == Status.ENDED
    np.testing.assert_array_equal(wave.blocks.bytes[:, : state.RESUME], before[0])
    np.testing.assert_array_equal(wave.vgpr, before[1])
    assert (wave.lds == 7).all()


# -- forks -----------------------------------------------------------------------------------------------------------


def forked(mask: int, kind: str) -> SingleWave:
    """A fork to instruction 3 under `mask`, where each side adds to its own register, then both join."""
    wave = SingleWave()
    wave.exec = 0xFF
    wave.vgpr[0:2] = 0
    wave.set_pair(10, mask)
    wave.set_pair(12, CODE + 8 * 3)
    fork = (
        make("s_cbranch_g_fork", (), [s(10, 2), s(12, 2)], "SOP2")
        if kind == "g"
        else make("s_cbranch_i_fork", (), [s(10, 2)], "SOPK", simm16=2 * 2)
    )
    side = [make("v_add_u32", [v(n)], [v(n), imm(1)], "VOP2") for n in range(2)]
    program = [fork, side[0], branch("s_branch", 4), side[1], scalar("s_cbranch_join", (), [imm(0)])]
    assert wave.run(program) == Status.ENDED
    return wave


@covers("s_cbranch_g_fork s_cbranch_join")
def test_fork_to_a_register_runs_both_sides_and_joins() -> None:
    for mask in (0x0F, 0x01, 0xFE, 0x00, 0xFF):
        check_fork(forked(mask, "g"), mask)


@covers("s_cbranch_i_fork s_cbranch_join")
def test_fork_to_an_offset_runs_both_sides_and_joins() -> None:
    for mask in (0x0F, 0x01, 0xFE, 0x00, 0xFF):
        check_fork(forked(mask, "i"), mask)


def check_fork(wave: SingleWave, mask: int) -> None:
    passing = np.array([mask >> lane & 1 for lane in range(64)])
    active = LANES < 8
    np.testing.assert_array_equal(wave.vgpr[1], np.where(active, passing, 0))
    np.testing.assert_array_equal(wave.vgpr[0], np.where(active, 1 - passing, 0))
    assert wave.mode >> 29 == 0


# -- hardware registers ----------------------------------------------------------------------------------------------


def hwreg(number: int, first: int = 0, bits: int = 32) -> Operand:
    return Operand("imm", number | first << 6 | bits - 1 << 11, 1, f"hwreg({number})")


@covers("s_getreg_b32 s_setreg_b32 s_setreg_imm32_b32")
def test_hardware_register_fields() -> None:
    wave = SingleWave()
    wave.sgpr[4] = 0xABCD
    get = scalar("s_getreg_b32", [s(5)], [hwreg(1, 4, 4)])
    wave.run([scalar("s_setreg_b32", (), [hwreg(1, 12, 8), s(4)]), get], dynamic_mode=True)
    assert wave.mode == 0x3F0 & ~0xFF000 | 0xCD000 and wave.sgpr[5] == 0xF
    wave.run([scalar("s_setreg_imm32_b32", (), [hwreg(1, 0, 4), imm(5)])], dynamic_mode=True)
    assert wave.mode & 0xF == 5


@covers("s_getreg_b32")
def test_status_has_the_condition_bits() -> None:
    for scc, exec, vcc in ((1, 0, 1), (0, 5, 0)):
        wave = SingleWave()
        wave.scc, wave.exec = scc, exec
        wave.set_pair(106, vcc)
        wave.run([scalar("s_getreg_b32", [s(5)], [hwreg(2)])])
        assert wave.sgpr[5] & 0x601 == scc | (exec == 0) << 9 | (vcc == 0) << 10


@covers("s_memtime s_memrealtime")
def test_clocks_only_go_up() -> None:
    wave = SingleWave()
    clocks = ("s_memtime", "s_memrealtime", "s_memtime")
    wave.run([make(name, [s(4 + 2 * n, 2)], (), "SMEM") for n, name in enumerate(clocks)])
    assert wave.mask(4) < wave.mask(6) < wave.mask(8)


# -- registers chosen at run time ------------------------------------------------------------------------------------


def indexing(index: int, operands: int) -> Instruction:
    return make("s_set_gpr_idx_on", (), [imm(index), imm(operands)], "SOPC")


OFF = make("s_set_gpr_idx_off", (), (), "SOPP")


@covers("s_set_gpr_idx_on s_set_gpr_idx_off")
def test_indexing_moves_the_operands_that_it_names() -> None:
    wave = wave_with()
    before = wave.vgpr.copy()
    add = make("v_add_u32", [v(10)], [v(20), v(30)], "VOP2")
    wave.run(
        [indexing(3, 0b1001), add, indexing(5, 0b0010), add, OFF, make("v_mov_b32", [v(40)], [v(1)])], indexed=True
    )
    np.testing.assert_array_equal(wave.vgpr[13], before[23] + before[30])
    np.testing.assert_array_equal(wave.vgpr[10], before[20] + before[35])
    np.testing.assert_array_equal(wave.vgpr[40], before[1])
    assert wave.sgpr[124] == 5 | 0b0010 << 12


@covers("s_set_gpr_idx_idx s_set_gpr_idx_mode")
def test_index_and_operands_change_by_themselves() -> None:
    wave = wave_with()
    before = wave.vgpr.copy()
    wave.sgpr[7] = 0xFFFFFF04
    program = [
        indexing(1, 0b0001),
        scalar("s_set_gpr_idx_idx", (), [s(7)]),
        make("v_mov_b32", [v(0)], [v(20)]),
        make("s_set_gpr_idx_mode", (), [imm(0b1000)], "SOPP"),
        make("v_mov_b32", [v(50)], [v(20)]),
        OFF,
    ]
    wave.run(program, indexed=True)
    np.testing.assert_array_equal(wave.vgpr[0], before[24])
    np.testing.assert_array_equal(wave.vgpr[54], before[20])


@covers("v_mov_b64 v_mac_f32 v_readlane_b32 v_readfirstlane_b32 v_writelane_b32 v_pk_fma_f32")
def test_indexing_of_pairs_accumulators_and_lanes() -> None:
    wave = wave_with()
    wave.vgpr[60:80] = np.random.default_rng(2).standard_normal((20, 64)).astype(np.float32).view(np.uint32)
    before, floats = wave.vgpr.copy(), wave.vgpr[60:80].view(np.float32).copy()
    wave.sgpr[9] = 99
    program = [
        indexing(2, 0b1001),
        make("v_mov_b64", [v(0, 2)], [v(20, 2)]),
        make("v_mac_f32", [v(60)], [v(63), v(64)], "VOP2"),
        make("v_readlane_b32", [s(4)], [v(30), imm(5)]),
        make("v_readfirstlane_b32", [s(5)], [v(30)]),
        make("v_writelane_b32", [v(40)], [s(9), imm(7)]),
        make("v_pk_fma_f32", [v(90, 2)], [v(66, 2), v(68, 2), v(70, 2)], "VOP3P", op_sel=0, op_sel_hi=7, neg_lo=0,
             neg_hi=0),
        OFF,
    ]  # fmt: skip
    wave.run(program, indexed=True)
    np.testing.assert_array_equal(wave.vgpr[2:4], before[22:24])
    np.testing.assert_array_equal(wave.vgpr[62].view(np.float32), floats[5] * floats[4] + floats[2])
    assert (wave.sgpr[4], wave.sgpr[5], wave.vgpr[42, 7]) == (before[32, 5], before[32, 0], 99)
    for half in range(2):
        exact = floats[8 + half].astype(float) * floats[8 + half] + floats[10 + half]
        np.testing.assert_allclose(wave.vgpr[92 + half].view(np.float32), exact, rtol=1e-6)


def test_an_index_past_the_registers_reads_v0_and_writes_nothing() -> None:
    wave = wave_with()
    wave.context[state.USED_VGPR_BYTES // 8] = 32 * state.VGPR_BYTES
    before = wave.vgpr.copy()
    wave.run([indexing(30, 1), make("v_mov_b32", [v(5)], [v(2)]), indexing(30, 8), make("v_mov_b32", [v(6)], [v(2)])],
             indexed=True)  # fmt: skip
    np.testing.assert_array_equal(wave.vgpr[5], before[0])
    before[5] = wave.vgpr[5]
    np.testing.assert_array_equal(wave.vgpr, before)


@covers("s_movrels_b32 s_movrels_b64 s_movreld_b32 s_movreld_b64")
def test_relative_scalar_moves() -> None:
    wave = SingleWave()
    wave.sgpr[:100] = 1000 + np.arange(100)
    wave.sgpr[124] = 6
    moves = [
        scalar("s_movrels_b32", [s(1)], [s(10)]),
        scalar("s_movrels_b64", [s(2, 2)], [s(20, 2)]),
        scalar("s_movreld_b32", [s(30)], [s(5)]),
        scalar("s_movreld_b64", [s(40, 2)], [imm(0xFFFF_FFFF_FFFF_FFF0, 2)]),
    ]
    wave.run(moves)
    assert wave.sgpr[[1, 2, 3, 36]].tolist() == [1016, 1026, 1027, 1005]
    assert wave.mask(46) == 0xFFFF_FFFF_FFFF_FFF0
    wave.sgpr[124] = 4000
    before = wave.sgpr.copy()
    wave.run(moves)  # past the last register: s0 is read, nothing is written
    before[1:4] = 1000, 1000, before[1]
    before[2:4] = wave.sgpr[2:4]
    np.testing.assert_array_equal(wave.sgpr, before)


@covers("s_setvskip")
def test_vector_instructions_can_be_skipped() -> None:
    wave = wave_with()
    before = wave.vgpr.copy()
    wave.sgpr[3] = 1 << 9
    skip, keep = (make("s_setvskip", (), [s(3), imm(bit)], "SOPC") for bit in (9, 8))
    move = [make("v_mov_b32", [v(n)], [v(9)]) for n in range(3)]
    wave.run([skip, move[0], mark(1), keep, move[1]], skips=True)
    np.testing.assert_array_equal(wave.vgpr[0], before[0])
    np.testing.assert_array_equal(wave.vgpr[1], before[9])
    assert wave.sgpr[1] == 1 and list(wave.records[:5, 1]) == [1, 0, 1, 1, 1]


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "instruction,reason",
    [
        (make("ds_gws_barrier", (), [v(0)], "DS", gds=1, offset=0), "global wave sync"),
        (make("s_rfe_b64", (), [s(0, 2)], "SOP1"), "trap handlers"),
        (make("s_sendmsg", (), (), "SOPP", simm16=2), "message 2"),
        (make("s_sethalt", (), (), "SOPP", simm16=1), "halts the wave"),
        (make("v_screen_partition_4se_b32", [v(0)], [v(1)], "VOP1"), "graphics"),
        (make("ds_add_u32", (), [v(0), v(1)], "DS", gds=1, offset=0), "global data share"),
        (make("s_getreg_b32", [s(0)], [hwreg(40)], "SOPK"), "hardware register 40"),
        (make("v_mov_b32", [v(0)], [Operand("s", 254, 1, "src_lds_direct")], "VOP1"), "src_lds_direct"),
    ],
    ids=lambda value: getattr(value, "mnemonic", ""),
)
def test_what_cannot_run_is_refused_with_the_reason(instruction: Instruction, reason: str) -> None:
    environment = Environment("gfx942")
    assert select(instruction, environment) is None
    assert reason in why_not(instruction, environment)
