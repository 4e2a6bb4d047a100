"""Every wait of GEMM and attention removed, and every count weakened by one, one at a time: the wait check of a run
finds each fault that lies on the run's path, and nothing else; the static proof finds it too."""

from __future__ import annotations

from functools import cache

import pytest
from checked_runs import Compiled, Keys, compiled, findings
from path_oracle import Counts, PathRecorder, Step, violations

from ckmlir.codeobject import CodeObject
from ckmlir.ops import find_operator
from ckmlir.runtime import run_operator
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.analysis import check_waits
from ckmlir.sim.decode import Instruction
from ckmlir.targets import get_target


def keys(**given: object) -> Keys:
    return tuple(given.items())


KERNELS = {
    "gemm": ("gemm", keys(m=128, n=128, k=320, block="128x128x64")),
    "gemm prefetch": ("gemm", keys(m=128, n=128, k=320, schedule="prefetch")),
    "gemm async": ("gemm", keys(m=128, n=128, k=320, schedule="async")),
    "fmha_fwd": ("fmha_fwd", keys(sq=128, sk=192, d=64)),
    "fmha_fwd async": ("fmha_fwd", keys(sq=128, sk=192, d=64, schedule="qr_async")),
}
CHIPS = ("gfx90a", "gfx942", "gfx950")
REMOVED = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
DEFAULT = {("gemm async", "gfx950"): 11, ("fmha_fwd async", "gfx942"): 12, ("gemm", "gfx90a"): 6}
"""What runs by default, and every how many faults one."""


@cache
def path_of(name: str, problem: Keys, arch: str) -> list[dict[int, list[Step]]]:
    operator, target = find_operator(name), get_target(arch)
    recorder, device = PathRecorder(), SimulatorDevice(target)
    device.observe(recorder)
    of = operator.problem(**dict(problem))
    run_operator(
        operator, of, operator.inputs(of, target), target, device, compiled=compiled(name, problem, arch).kernel
    )
    return recorder.rounds


def faults(one: Compiled) -> list[tuple[Instruction, Counts]]:
    """Each wait removed, and each of its counts one higher."""
    found = []
    for wait in one.instructions:
        if wait.mnemonic == "s_waitcnt":
            counts = {name: wait.modifiers[name] for name in REMOVED}
            found.append((wait, REMOVED))
            found += [
                (wait, {**counts, name: counts[name] + 1})
                for name in ("vmcnt", "lgkmcnt")
                if counts[name] < REMOVED[name]
            ]
    return found


def with_counts(one: Compiled, wait: Instruction, counts: Counts) -> bytes:
    vm = counts["vmcnt"] & 15 | counts["vmcnt"] >> 4 << 14
    return one.patched(wait, 0xBF8C0000 | vm | counts["expcnt"] << 4 | counts["lgkmcnt"] << 8)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "arch", "every"),
    [
        *((name, arch, every) for (name, arch), every in DEFAULT.items()),
        *(pytest.param(name, arch, 1, marks=pytest.mark.full) for name in KERNELS for arch in CHIPS),
    ],
)
def test_faults_on_the_path_are_found(name: str, arch: str, every: int) -> None:
    operator, problem = KERNELS[name]
    one, path = compiled(operator, problem, arch), path_of(operator, problem, arch)
    start = CodeObject.parse(one.kernel.hsaco).kernel(one.kernel.kernel_name).address
    assert not list(violations(path))
    assert findings(one, checks=["wait"]) == ()
    on_path = 0
    for wait, counts in faults(one)[::every]:
        early = next(violations(path, {start + wait.address: counts}), None)
        hsaco = with_counts(one, wait, counts)
        found = findings(one, hsaco, ["wait"])
        seen = [finding for finding in found if finding.wave is not None]
        assert bool(seen) == (early is not None), (wait.text, hex(wait.address), counts)
        if early is not None:
            on_path += 1
            assert early.address - start in {finding.address for finding in seen}
            assert all(finding.earlier and bool(finding.source) == one.has_line(finding.address) for finding in seen)
            assert check_waits(CodeObject.parse(hsaco), one.kernel.kernel_name)
    assert on_path > len(faults(one)) // every // 3
    print(name, arch, f"{on_path} of {len(faults(one)[::every])} faults are on the path")
