"""What a launch promises around the kernel: the order of waves by seed, errors that name everything, little memory and
time of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from assembled_kernels import assembled

from ckmlir import files
from ckmlir.codeobject import CodeObject
from ckmlir.sim import SimulationError, Simulator, UnsupportedInstruction
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.library import HandlerLibrary

LINKED = Path(__file__).parents[1] / "codeobject" / "data"
# Each wave adds 1 to a counter behind each of two barriers and stores the count it found at its own place.
ARRIVAL = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, 0
v_mov_b32_e32 v3, 1
s_waitcnt lgkmcnt(0)
s_mov_b64 s[4:5], exec
s_mov_b64 exec, 1
global_atomic_add v4, v2, v3, s[2:3] sc0
s_waitcnt vmcnt(0)
s_mov_b64 exec, s[4:5]
v_readfirstlane_b32 s6, v4
v_mov_b32_e32 v4, s6
global_store_dword v1, v4, s[2:3] offset:4
"""


def order_of_waves(seed: int) -> tuple[int, int]:
    """The turns in which waves 0 and 1 of a workgroup came to the counter."""
    simulator = Simulator(seed=seed)
    memory = simulator.upload(np.zeros(129, np.uint32))
    simulator.launch(assembled(ARRIVAL, "gfx942"), "k", (1, 1, 1), (128, 1, 1), [memory])
    turns = memory.read(np.uint32)[1:]
    assert (turns[:64] == turns[0]).all() and (turns[64:] == turns[64]).all()
    return int(turns[0]), int(turns[64])


def test_the_seed_decides_the_order_of_waves() -> None:
    orders = [order_of_waves(seed) for seed in range(8)]
    assert set(orders) == {(0, 1), (1, 0)}
    assert orders == [order_of_waves(seed) for seed in range(8)]


def test_a_trap_is_an_error_with_its_place() -> None:
    simulator = Simulator()
    where = r"s_trap 3 \(kernel k, s_trap 3 at 0x4, workgroup \(1, 0, 0\), wave 0\)"
    text = "s_cmp_eq_u32 s2, 0\ns_cbranch_scc1 end\ns_trap 3\nend:\ns_nop 0"
    with pytest.raises(SimulationError, match=where.replace("0x4", "0x8")):
        simulator.launch(assembled(text, "gfx942"), "k", (2, 1, 1), (64, 1, 1), [simulator.allocate(4)])


def test_what_no_decoder_knows_is_named_with_its_line() -> None:
    known = CodeObject.parse(LINKED / "kernels_gfx942.hsaco")
    kernel = known.kernel("scale_add")
    code = known.code(kernel)
    at = known.data.index(code) + len(code) // 2 // 8 * 8
    broken = CodeObject.parse(known.data[:at] + b"\xff" * 8 + known.data[at + 8 :])
    with pytest.raises(UnsupportedInstruction) as caught:
        Simulator().launch(broken, "scale_add", arguments=[0, 0, 1.0, 0])
    message = str(caught.value)
    address = kernel.address + len(code) // 2 // 8 * 8
    assert "kernel scale_add has 1 instruction that" in message
    assert f"unknown instruction (encoding 0xffffffff 0xffffffff, at 0x{address:x}, from /source/kernels.py:" in message


MEMORY = """
import numpy as np
from assembled_kernels import assembled
from peak_memory import peak_memory
from ckmlir.sim import Simulator, parse_checks
before = peak_memory()
simulator = Simulator(checks=parse_checks("all"))
memory = simulator.upload(np.zeros(1 << 20, np.uint8))
code = '''s_load_dwordx2 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
ds_write_b32 v1, v1
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v2, v1
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v3, v2'''
simulator.launch(assembled(code, "gfx942"), "k", (500, 1, 1), (128, 1, 1), [memory], dynamic_lds=65536)
print(peak_memory() - before)
"""


def test_a_checked_launch_takes_less_than_300_megabytes() -> None:
    path = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    script = f"import sys\nsys.path[:0] = {path!r}\n{MEMORY}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300 << 20


def test_cached_handlers_come_from_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes some 5 ms for the 100 of a kernel."""
    keys = [HandlerKey("v_add_u32", ("v", "v", "i"), (("none", number),)) for number in range(60)]
    HandlerLibrary(tmp_path).addresses(keys)
    read: list[Path] = []

    def reading(path: Path) -> object:
        read.append(path)
        return read_with_digest(path)

    read_with_digest = files.read_with_digest
    monkeypatch.setattr(files, "read_with_digest", reading)
    cached = HandlerLibrary(tmp_path)
    assert len(cached.addresses(keys)) == 60
    assert cached.compiled == 0 and len(read) == 1
