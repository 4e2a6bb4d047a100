"""Faults put into the machine code of operators, one at a time: the checkers find each one, and nothing in clean code.

The checkers see what hardware hides: the kernels here may well give right results with the fault.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from checked_runs import WATCHING, Compiled, Keys, compiled, findings

from ckmlir.sim.checks import Finding
from ckmlir.sim.decode import Instruction

S_NOP = 0xBF800000


def keys(**given: object) -> Keys:
    return tuple(given.items())


WITH_BARRIERS = [
    ("gemm", keys(m=128, n=128, k=320, schedule="compv3")),
    ("gemm", keys(m=128, n=128, k=320, schedule="prefetch")),
    ("gemm", keys(m=100, n=130, k=200, block="128x128x64")),
    ("layernorm2d", keys(m=2, n=4096)),
    ("fmha_fwd", keys(sq=128, sk=256, d=64)),
    ("fmha_fwd", keys(sq=100, sk=200, d=64)),
]
CLEAN = [
    *WITH_BARRIERS,
    ("gemm", keys(m=1, n=1, k=1)),
    ("gemm", keys(m=65, n=129, k=33, dtype="bf16")),
    ("layernorm2d", keys(m=3, n=1000)),
    ("layernorm2d", keys(m=1, n=1)),
    ("fmha_fwd", keys(sq=1, sk=1, d=64)),
    ("fmha_fwd", keys(sq=65, sk=130, d=128, b=2, h=2)),
]
CHIPS = ["gfx90a", "gfx942", "gfx950"]


@pytest.mark.one_in(32)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "problem"), CLEAN)
def test_clean_kernels_have_no_findings(name: str, problem: Keys, arch: str) -> None:
    assert findings(compiled(name, problem, arch)) == ()


def barriers(one: Compiled) -> list[int]:
    return [number for number, item in enumerate(one.instructions) if item.mnemonic == "s_barrier"]


def findings_of_a_fault(
    one: Compiled, changed: bytes, name: str, problem: Keys, checks: Iterable[str] = WATCHING
) -> tuple[Finding, ...]:
    """What is found in the changed code. A GEMM with an even number of steps does not come by the remainder of its
    rotating buffers, nor attention with few blocks of keys by all of its loop of whole ones, so that a fault counts as
    found when the run with one step less, or with many keys, finds it.
    """
    found = findings(one, changed, checks)
    if not found and name == "gemm":
        found = findings(one, changed, checks, k=dict(problem)["k"] - 64)
    if not found and name == "fmha_fwd":
        found = findings(one, changed, checks, sk=1000)
    return found


@pytest.mark.one_in(12)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "problem"), WITH_BARRIERS)
def test_every_missing_barrier_is_a_race(name: str, problem: Keys, arch: str) -> None:
    """Each barrier replaced by s_nop, in turn."""
    one = compiled(name, problem, arch)
    assert barriers(one)
    for number in barriers(one):
        barrier = one.instructions[number]
        changed = one.patched(barrier, S_NOP)
        found = findings_of_a_fault(one, changed, name, problem, ["race"])
        assert found, f"barrier at 0x{barrier.address:x}"
        assert {finding.checker for finding in found} == {"race"}
        assert all(finding.allocation == "LDS" for finding in found)
        assert all(bool(finding.source) == one.has_line(finding.address) for finding in found)


RAGGED = [
    ("gemm", keys(m=100, n=130, k=200, block="128x128x64")),
    ("layernorm2d", keys(m=3, n=1000)),
    ("fmha_fwd", keys(sq=100, sk=200, d=64)),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "problem"), RAGGED)
def test_every_dropped_bounds_check_is_out_of_bounds(name: str, problem: Keys, arch: str) -> None:
    """The size of each buffer resource replaced by the largest, in turn: rows beyond the end are no longer refused."""
    one = compiled(name, problem, arch)
    sizes = sizes_of_buffers(one)
    assert len(sizes) >= 3
    for writer, register in sizes:
        largest = S_MOV_ALL_ONES | register << 16
        changed = one.patched(writer, largest, *[S_NOP] * (len(writer.words) - 1))
        found = findings_of_a_fault(one, changed, name, problem)
        assert [finding.checker for finding in found] == ["memory"], writer.text
        assert "outside of all allocations" in found[0].message


S_MOV_ALL_ONES = 0xBE800000 | 193  # s_mov_b32 s0, -1 (CDNA3 ISA, section 12.3)


def sizes_of_buffers(one: Compiled) -> list[tuple[Instruction, int]]:
    """The instruction that computes num_records of each buffer resource, and the register it writes."""
    found: dict[int, tuple[Instruction, int]] = {}
    for number, item in enumerate(one.instructions):
        if item.encoding == "MUBUF":
            resource = next(source for source in item.sources if source.kind == "s" and source.count == 4)
            register = resource.index + 2
            writers = [
                before
                for before in one.instructions[:number]
                if any(d.kind == "s" and (d.index, d.count) == (register, 1) for d in before.destinations)
            ]
            found[writers[-1].address] = writers[-1], register
    return list(found.values())


@pytest.mark.one_in(6)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize(("name", "problem"), [RAGGED[0], RAGGED[2]])
def test_every_shifted_write_to_lds_is_found(name: str, problem: Keys, arch: str) -> None:
    """Each write moved up by 64 bytes, in turn: it meets other data or the end of LDS, or leaves a gap."""
    one = compiled(name, problem, arch)
    writes = [item for item in one.instructions if item.mnemonic.startswith("ds_write_")]
    assert len(writes) >= 3
    for item in writes:
        found = findings_of_a_fault(one, one.patched(item, item.words[0] + 64, item.words[1]), name, problem)
        assert found, item.text


@pytest.mark.one_in(6)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("name", ["gemm", "fmha_fwd"])
def test_memory_instructions_mostly_have_a_line(name: str, arch: str) -> None:
    """Findings at the rest name no line."""
    one = compiled(name, keys(), arch)
    memory = [item for item in one.instructions if item.mnemonic.startswith(("ds_", "buffer_", "global_"))]
    assert sum(one.has_line(item.address) for item in memory) >= 0.9 * len(memory) > 0
