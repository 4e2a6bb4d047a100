"""Looking for schedules: the model before LLVM agrees with machine code, and a search survives what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ckmlir.errors import CkmlirError
from ckmlir.ops.request import RequestError
from ckmlir.runtime.calls import open_workers
from ckmlir.runtime.processes import OneByOne
from ckmlir.runtime.workers import Report, Task
from ckmlir.scheduling import search as searching
from ckmlir.scheduling.candidates import Judged, Looked, Subject, bench_of, confirm, judge, listed, look, problem_under
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.scheduling.moves import objection
from ckmlir.scheduling.search import Search
from ckmlir.scheduling.starts import starts
from ckmlir.scheduling.step_model import Surroundings
from ckmlir.scheduling.step_stream import stream_of
from ckmlir.scheduling.walks import walk

SMALL = Subject("gemm", (("m", 64), ("n", 64), ("k", 384), ("block", "64x64x64"), ("schedule", "compv3")), "gfx942")
WIDE = Subject("gemm", (("m", 1024), ("n", 1024), ("k", 2048), ("block", "128x128x64")), "gfx950")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of few questions."""
    for name, number in (("BATCH", 4), ("FINALISTS", 1), ("PARENTS", 2)):
        monkeypatch.setattr(searching, name, number)


def searched(path: Path, workers: OneByOne, seen: int = 7) -> Search:
    search = Search(SMALL, str(bench_of(SMALL).schedule), path, workers)
    search.run((), seen, 256)
    return search


class Ending(OneByOne):
    """Works until so many questions were answered; then somebody ends it."""

    def __init__(self, most: int) -> None:
        self.left = most

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[object]:
        answers: list[object] = []
        for place, task in enumerate(tasks):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            answers += super().call([task], lambda _, answer, place=place: report and report(place, answer))
        return answers


def test_the_stream_has_the_machine_codes_instructions() -> None:
    """What the model expects of a step is what LLVM emits, but for waits that it merges and addresses."""
    bench = bench_of(SMALL)
    with bench.scheduled(bench.schedule) as module:
        stream = stream_of(module)
    compiled = bench.compile(bench.schedule).compiled
    assert compiled is not None
    mix = steady_loop(compiled.code_object, bench.name).mix
    kinds = [one.kind for one in stream.body]
    assert kinds.count("matrix") == mix["mfma"]
    assert kinds.count("read") + kinds.count("write") == mix["lds"]
    assert (kinds.count("load"), kinds.count("barrier")) == (mix["vmem"], mix["barrier"])
    assert 0.5 * mix["wait"] <= kinds.count("wait") <= mix["wait"]
    registers = compiled.code_object.kernel(bench.name).metadata.vgpr_count
    assert 0.6 * registers < stream.registers <= registers


def test_the_model_before_llvm_agrees_with_the_full_one() -> None:
    text = str(listed(SMALL, str(bench_of(SMALL).schedule)))
    full = judge(SMALL, text)
    assert look(SMALL, text, None, full.around).cycles == pytest.approx(full.step, rel=0.1)


@pytest.mark.full
def test_ranks_agree() -> None:
    """Spearman's correlation of both models over what schedulers find and walks from it, without what spills."""
    own = judge(WIDE, str(listed(WIDE, str(bench_of(WIDE).schedule))))
    texts = [str(bench_of(WIDE).schedule), *starts(WIDE)]
    looked: dict[str, float] = {}
    for seed, text in enumerate(texts * 2):
        try:
            one = look(WIDE, str(listed(WIDE, text)), seed if seed >= len(texts) else None, own.around)
        except CkmlirError:
            continue
        looked[one.schedule] = one.cycles
    judged = {}
    for text in looked:
        try:
            one_judged = judge(WIDE, text)
        except CkmlirError:  # a loop of so many steps that the launch has hardly a turn
            continue
        if not one_judged.spills:
            judged[text] = one_judged
    ours, full = ([*map(values.__getitem__, judged)] for values in (looked, {t: j.step for t, j in judged.items()}))
    ranks = [[sorted(values).index(value) for value in values] for values in (ours, full)]
    mean = (len(judged) - 1) / 2
    covariance = sum((a - mean) * (b - mean) for a, b in zip(*ranks, strict=True))
    spread = [sum((a - mean) ** 2 for a in one) ** 0.5 for one in ranks]
    assert len(judged) > 12 and covariance / (spread[0] * spread[1]) > 0.8


def test_walks_stay_legal_and_repeat() -> None:
    own = listed(SMALL, str(bench_of(SMALL).schedule))
    problem = problem_under(SMALL, own)
    found = [walk(problem, own, seed) for seed in range(12)]
    assert found == [walk(problem, own, seed) for seed in range(12)]
    assert len(set(map(str, found))) > 6
    assert not any(objection(problem, one) for one in found)


def test_a_search_that_is_ended_goes_on_where_it_was(short: None, tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole.jsonl", OneByOne())
    ending = Ending(4)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "part.jsonl", ending)
    lines = (tmp_path / "part.jsonl").read_bytes().splitlines()
    assert len(lines) == 4 and lines == (tmp_path / "whole.jsonl").read_bytes().splitlines()[:4]
    with (tmp_path / "part.jsonl").open("ab") as file:
        file.write(b'{"schema":1,"subj')  # ended in the middle of a line
    again = searched(tmp_path / "part.jsonl", OneByOne())
    assert (tmp_path / "part.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert again.found.judged == whole.found.judged and again.found.looked == whole.found.looked
    assert (again.found.resumed >= 4) and again.found.asked == whole.found.asked - 4


def test_records_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"schema":1,"subject":["gemm",{},"gfx942"],"question":"look","schedule":"s","seed":-1}\n')
    with pytest.raises(RequestError, match=r"records\.jsonl:1: a search of .* expected one of \['gemm', \{'m': '64'"):
        Search(SMALL, str(bench_of(SMALL).schedule), path, open_workers(processes=1))


def test_what_speaks_against_a_schedule() -> None:
    assert confirm(SMALL, str(bench_of(SMALL).schedule)) == []
    with pytest.raises(CkmlirError, match="would run before"):
        look(SMALL, "schedule s 1; step math, from_lds, to_lds, load", None, Surroundings())
    assert isinstance(look(SMALL, "schedule s 1", None, Surroundings()), Looked)


def test_answers_go_through_json() -> None:
    one = Judged(100.5, 2000.0, 128, 0, Surroundings(2, 700))
    assert Judged.from_dict(one.to_dict()) == one
