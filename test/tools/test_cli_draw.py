"""`ckmlir draw`: pictures say what is lowered; those of the docs are the ones that the commands draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from pathlib import Path

import pytest

from ckmlir.dialect.distribution import Distribution
from ckmlir.ops import find_operator
from ckmlir.passes.pipeline import PIPELINE, run_pipeline
from ckmlir.targets import get_target
from ckmlir.tools.cli import main
from ckmlir.tools.draw_banks import bank_uses, lds_accesses, worst_wave
from ckmlir.tools.draw_tiles import draw_distribution, holders_of

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
SMALL = ["gemm", "m=64", "n=64", "k=128", "block=64x64x32", "schedule=compv3", "--arch", "gfx942"]
PICTURES = {
    "step_of_compv3.svg": ["schedule", *SMALL],
    "distribution.svg": ["distribution", "d0: 2@wave 8@lane, d1: 8@lane 8@y0"],
    "banks_of_a_write.svg": ["lds", "gemm", "block=128x128x64", "--arch", "gfx942", "--number", "1"],
}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["draw", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_docs(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    assert run(capsys, *PICTURES[name], "-o", str(tmp_path / name))[0] == 0
    drawn = (tmp_path / name).read_text()
    xml.etree.ElementTree.fromstring(drawn)
    assert drawn == (IMAGES / name).read_text(), f"draw it again: ckmlir draw {' '.join(PICTURES[name])} -o {name}"


@pytest.mark.parametrize(
    "text", ["d0: 4@wave 16@lane, d1: 4@lane 8@y0", "r: 2@wave, d0: 64@lane 2@y0", "d0: 4@y0 64@lane"]
)
def test_every_element_is_drawn_where_it_is(text: str) -> None:
    distribution = Distribution.parse(text)
    grid = draw_distribution(distribution, None, None, "")
    holders = holders_of(distribution)
    assert sum(map(len, holders.values())) == distribution.waves * distribution.lanes * distribution.registers
    width = distribution.lengths[-1] // len(grid.columns)
    for (row, column), cell in grid.cells.items():
        at = (row, column * width)[2 - distribution.rank :]
        wave, lane, register = holders[at][0]
        assert re.search(rf"\bl{lane} r{register}\b", cell.label) and f"wave {wave} lane {lane}" in cell.about


@pytest.mark.parametrize("operator, keys, arch", [
    ("gemm", {}, "gfx942"), ("gemm", {"layout": "CRR"}, "gfx90a"), ("fmha_fwd", {}, "gfx950"),
])  # fmt: skip
def test_banks_are_busy_as_long_as_layouts_are_chosen_by(operator: str, keys: dict[str, str], arch: str) -> None:
    op, target = find_operator(operator), get_target(arch)
    kernel = op.build(op.spec(op.problem(**keys), target), target)
    rows = [str(step.run) for step in PIPELINE]
    with kernel.module.context:
        run_pipeline(kernel.module, PIPELINE[: rows.index("ck-allocate-lds") + 1], dump_on_failure=False)
        accesses = lds_accesses(kernel.module)
    assert accesses
    for one in accesses:
        uses = bank_uses(one, worst_wave(one))
        assert max(use.cycle for use in uses) + 1 == one.cycles[0], str(one)
        assert len({(use.cycle, use.bank) for use in uses}) == len(uses)  # a bank gives one dword a cycle
        bytes_moved = max(4, len(one.access.registers) * one.element_bytes)
        assert sum(len(use.lanes) for use in uses) * 4 == 64 * bytes_moved


def test_schedules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "schedule", *SMALL)
    assert status == 0 and "iteration n+2" in out and "load.0" in out
    rows = [line.split()[-3:] for line in out.splitlines()]
    assert {row.index(cell) for row in rows for cell in row if cell.startswith("load.")} == {2}  # iterations ahead
    text = "schedule mine 1; ahead load 1; step load, barrier, math"
    file = tmp_path / "steps.txt"
    keys = [one for one in SMALL if not one.startswith("schedule=")]
    assert run(capsys, "schedule", *keys, "--schedule", text, "--steps", "3", "-o", str(file))[0] == 0
    assert "step n+2" in file.read_text() and "barrier" in file.read_text() and "iteration n+3" in file.read_text()


@pytest.mark.parametrize(
    "words, message",
    [
        (["distribution", "d0: 4@wav"], "d0: 4@wav"),
        (["distribution", "d0: 64"], "d0: 64: distribution: '64' is not a factor"),
        (["distribution", ""], "distribution: '' is not 'name: factors'"),
        (["distribution", "d0: 64@lane", "--rows", "5-6"], "--rows 5-6: the tile has rows 0 to 0"),
        (["distribution", "d0: 2@y0, d1: 2@y1, d2: 64@lane"], "a tile of 3 dimensions"),
        (["distribution", "d0: 64@lane", "--columns", "9-3"], "is not a part such as 0-15"),
        (["lds", *SMALL, "--number", "99"], "--number 99: there are"),
        (["lds", "copy", "--arch", "gfx942"], "there is no read or write of LDS to draw"),
        (["schedule", "copy", "--arch", "gfx942"], "has no loop to schedule"),
        (["schedule", *SMALL, "--steps", "99"], "1 to 8 can be drawn"),
        (["schedule", "gemm"], "--arch"),
        (["tiles", *SMALL], "SUBJECT"),
        (["distribution", "d0: 64@lane", "-o", "x.png"], "-o x.png: pictures are SVG or text"),
        ([], "required: SUBJECT, OP|TEXT; see"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2 and message in err
