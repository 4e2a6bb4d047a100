"""LDS that one iteration leaves for the next needs each barrier that waves have: any of them that is missing is found,
in front of the write over what others may still read and of the read of what others may still be writing."""

from __future__ import annotations

from pathlib import Path

from ckmlir.dialect.context import shared_context
from ckmlir.mlir import ir
from ckmlir.passes.check_schedule import check_module
from ckmlir.passes.pipeline import run_pipeline

REFERENCE = Path(__file__).with_name("Inputs") / "kept_lds_two_waves.mlir"
SCHEDULING = ("ck-pipeline-loops", "ck-allocate-lds", "ck-insert-barriers", "ck-place-sched-barriers")
BARRIER = '"ck.barrier"() : () -> ()'


def test_each_barrier_is_needed() -> None:
    before = REFERENCE.read_text()
    with shared_context():
        module = ir.Module.parse(before)
        run_pipeline(module, SCHEDULING, dump_on_failure=False)
        lines = str(module).splitlines()

        def said(lines: list[str]) -> list[tuple[str, str]]:
            found = check_module(ir.Module.parse("\n".join(lines)), ir.Module.parse(before))
            return [(one.check, one.message) for one in found]

        assert not said(lines)
        barriers = [place for place, line in enumerate(lines) if BARRIER in line]
        missing = [said(lines[:place] + lines[place + 1 :]) for place in barriers]
    assert len(missing) == 14 and all(found and found[0][0] == "hazard" for found in missing), missing
    directions = {found[0][1].split("another wave may still be ")[1].split(":")[0] for found in missing}
    assert directions == {"reading", "writing"}
