"""The proof of waits on short programs: what is reported, what is not, and what the state is where paths meet."""

from __future__ import annotations

import pytest
from assembly import flow_of

from ckmlir.sim.analysis.registers import names
from ckmlir.sim.analysis.waits import MissingWait, WaitAnalysis

LOAD = "buffer_load_dword v1, v0, s[4:7], 0 offen"
LOAD2 = "buffer_load_dword v2, v0, s[4:7], 0 offen"
STORE = "buffer_store_dword v3, v0, s[4:7], 0 offen"
USE = "v_add_f32_e32 v9, v1, v1"
USE2 = "v_add_f32_e32 v9, v2, v2"
READ = "ds_read_b32 v1, v0"
READ2 = "ds_read_b32 v2, v0"
WRITE = "ds_write_b32 v0, v3"
SCALAR = "s_load_dword s8, s[4:5], 0x0"
USE_SCALAR = "s_add_u32 s9, s8, s8"
FLAT = "flat_load_dword v1, v[2:3]"
COPY = "buffer_load_dword v5, s[8:11], 0 offen lds"


def missing(*lines: str, target: str = "gfx942") -> list[MissingWait]:
    return list(WaitAnalysis(flow_of("\n".join(lines), target)).missing())


def wait(text: str) -> str:
    return f"s_waitcnt {text}"


CLEAN = {
    "waited for": (LOAD, wait("vmcnt(0)"), USE),
    "older of two": (LOAD, LOAD2, wait("vmcnt(1)"), USE),
    "stores count": (LOAD, STORE, STORE, wait("vmcnt(2)"), USE),
    "LDS in order": (READ, READ2, wait("lgkmcnt(1)"), USE),
    "LDS in order, writes count": (READ, WRITE, wait("lgkmcnt(1)"), USE),
    "scalar": (SCALAR, wait("lgkmcnt(0)"), USE_SCALAR),
    "the other counter does not matter": (LOAD, READ2, wait("vmcnt(0)"), USE),
    "load over load": (LOAD, LOAD, wait("vmcnt(0)"), USE),
    "addresses are read at issue": (LOAD, "v_mov_b32_e32 v0, 0"),
    "data of a store is read at issue": (STORE, "v_mov_b32_e32 v3, 0"),
    "flat, both": (FLAT, wait("vmcnt(0) lgkmcnt(0)"), USE),
    "message": ("s_sendmsg sendmsg(MSG_INTERRUPT)", READ, wait("lgkmcnt(0)"), USE),
    "gds source, expcnt": ("ds_gws_init v0 gds", wait("expcnt(0)"), "v_mov_b32_e32 v0, 0"),
    "more than the counter counts": (LOAD, *[STORE] * 63, USE),
    "largest count is not a wait but harmless": (LOAD, wait("vmcnt(0)"), wait("vmcnt(63)"), USE),
}


@pytest.mark.parametrize("lines", CLEAN.values(), ids=CLEAN)
def test_what_is_waited_for_is_clean(lines: tuple[str, ...]) -> None:
    assert missing(*lines) == []


EARLY = {
    "no wait": ((LOAD, USE), "vmcnt(0) v1"),
    "count too high": ((LOAD, LOAD2, wait("vmcnt(1)"), USE2), "vmcnt(0) v2"),
    "younger events allow more": ((LOAD, STORE, STORE, USE), "vmcnt(2) v1"),
    "all that the counter counts": ((LOAD, *[STORE] * 62, USE), "vmcnt(62) v1"),
    "wrong counter": ((LOAD, wait("lgkmcnt(0)"), USE), "vmcnt(0) v1"),
    "overwritten": ((LOAD, "v_mov_b32_e32 v1, 0"), "vmcnt(0) v1"),
    "overwritten through another counter": ((LOAD, READ, wait("lgkmcnt(0)"), USE), "vmcnt(0) v1"),
    "as an address": ((LOAD, "buffer_load_dword v2, v1, s[4:7], 0 offen"), "vmcnt(0) v1"),
    "as data of a store": ((LOAD, "buffer_store_dword v1, v0, s[4:7], 0 offen"), "vmcnt(0) v1"),
    "as a resource": ((SCALAR, "buffer_load_dword v2, v0, s[8:11], 0 offen"), "lgkmcnt(0) s8"),
    "scalar loads return in any order": (
        (SCALAR, "s_load_dword s12, s[4:5], 0x0", wait("lgkmcnt(1)"), USE_SCALAR),
        "lgkmcnt(0) s8",
    ),
    "scalar over scalar": ((SCALAR, SCALAR, wait("lgkmcnt(0)"), USE_SCALAR), "lgkmcnt(0) s8"),
    "LDS and scalar mixed": ((READ, SCALAR, wait("lgkmcnt(1)"), USE), "lgkmcnt(0) v1"),
    "LDS and message mixed": (
        (READ, "s_sendmsg sendmsg(MSG_INTERRUPT)", wait("lgkmcnt(1)"), USE),
        "lgkmcnt(0) v1",
    ),
    "flat, vmcnt alone": ((FLAT, wait("vmcnt(0)"), USE), "lgkmcnt(0) v1"),
    "flat, lgkmcnt alone": ((FLAT, wait("lgkmcnt(0)"), USE), "vmcnt(0) v1"),
    "flat makes vmcnt unordered": (
        (LOAD, "flat_load_dword v4, v[2:3]", wait("vmcnt(1) lgkmcnt(0)"), USE),
        "vmcnt(0) v1",
    ),
    "largest count waits for nothing": ((LOAD, wait("vmcnt(63)"), USE), "vmcnt(0) v1"),
    "gds source overwritten": (("ds_gws_init v0 gds", "v_mov_b32_e32 v0, 0"), "expcnt(0) v0"),
    "half of a register kept": ((LOAD, "buffer_load_short_d16_hi v1, v0, s[4:7], 0 offen"), "vmcnt(0) v1"),
    "matrix operand": (
        ("ds_read_b64 v[20:21], v0", "v_mfma_f32_32x32x8_f16 v[0:15], v[20:21], v[22:23], v[0:15]"),
        "lgkmcnt(0) v[20:21]",
    ),
    "accumulation register": (
        ("buffer_load_dword a1, v0, s[4:7], 0 offen", "v_accvgpr_read_b32 v2, a1"),
        "vmcnt(0) a1",
    ),
    "exec by a scalar load": (
        ("s_load_dwordx2 vcc, s[4:5], 0x0", "v_cndmask_b32_e32 v1, v2, v3, vcc"),
        "lgkmcnt(0) vcc",
    ),
}


@pytest.mark.parametrize(("lines", "expected"), EARLY.values(), ids=EARLY)
def test_what_comes_too_early_is_found(lines: tuple[str, ...], expected: str) -> None:
    found = {f"{item.counter.value}({item.needed}) {names(item.registers)}" for item in missing(*lines)}
    assert expected in found and len(found) == 1


def test_a_path_without_the_wait_is_found() -> None:
    assert missing(LOAD, "s_cbranch_scc0 skip", wait("vmcnt(0)"), "skip:", USE)
    assert not missing(LOAD, "s_cbranch_scc0 skip", "s_nop 0", "skip:", wait("vmcnt(0)"), USE)


def test_where_paths_meet_the_fewest_younger_events_count() -> None:
    branches = ("s_cbranch_scc0 other", STORE, STORE, "other:")
    [found] = missing(LOAD, *branches, wait("vmcnt(2)"), USE)
    assert found.needed == 0
    assert not missing(LOAD, STORE, *branches, wait("vmcnt(1)"), USE)


def test_a_loop_that_loads_ahead() -> None:
    """The load of the next step is in flight while this step's result is used: only vmcnt(0) would do at the top of
    the second step if the load came last, and vmcnt(1) does when another load follows it."""
    body = ("top:", wait("vmcnt(1)"), USE, LOAD, LOAD2, "s_cbranch_scc1 top")
    assert missing(LOAD, LOAD2, *body) == []
    [found] = missing(LOAD, LOAD2, "top:", wait("vmcnt(1)"), USE, LOAD2, LOAD, "s_cbranch_scc1 top")
    assert found.needed == 0


def test_a_load_in_flight_around_a_loop_is_found() -> None:
    assert missing("top:", USE, LOAD, "s_cbranch_scc1 top")


def test_lds_written_before_a_barrier() -> None:
    [found] = missing(WRITE, "s_barrier", READ)
    assert found.barrier is not None and (found.counter.value, found.needed) == ("lgkmcnt", 0)
    assert not missing(WRITE, wait("lgkmcnt(0)"), "s_barrier", READ)
    assert not missing(WRITE, READ), "a wave's own accesses are in order"
    assert not missing(WRITE, "s_barrier"), "nobody reads"


def test_the_count_that_a_barrier_needs_is_counted_before_it() -> None:
    found = missing(WRITE, READ2, "s_barrier", READ2, READ2)
    assert found and all(item.barrier is not None and item.needed == 1 for item in found)


def test_waiting_after_the_barrier_is_too_late_until_the_next() -> None:
    assert missing(WRITE, "s_barrier", wait("lgkmcnt(0)"), READ)
    assert not missing(WRITE, "s_barrier", wait("lgkmcnt(0)"), "s_barrier", READ)


def test_lds_read_before_a_barrier_and_overwritten_after() -> None:
    [found] = missing(READ, "s_barrier", WRITE)
    assert found.barrier is not None
    assert not missing(READ, wait("lgkmcnt(0)"), "s_barrier", WRITE)


def test_copies_to_lds_count_in_vmcnt() -> None:
    assert missing(COPY, wait("lgkmcnt(0)"), "s_barrier", READ, target="gfx90a")
    assert not missing(COPY, wait("vmcnt(0)"), "s_barrier", READ, target="gfx90a")
    [own] = missing(COPY, READ, target="gfx90a")
    assert own.barrier is None and own.counter.value == "vmcnt"


def test_global_copies_do_not_count_in_lgkmcnt() -> None:
    """LLVM up to version 22 takes them for that, and waits for one event too few."""
    copy = "global_load_lds_dword v[2:3], off"
    [found] = missing(READ, copy, wait("lgkmcnt(1)"), "v_add_f32_e32 v9, v1, v1")
    assert (found.counter.value, found.needed) == ("lgkmcnt", 0)
    assert not missing(READ, copy, wait("lgkmcnt(0)"), "v_add_f32_e32 v9, v1, v1")


def test_two_copies_in_order() -> None:
    assert not missing(COPY, LOAD, wait("vmcnt(1)"), "s_barrier", READ2, target="gfx90a")
    [found] = missing(COPY, COPY, wait("vmcnt(1)"), "s_barrier", READ, target="gfx90a")
    assert found.needed == 0
