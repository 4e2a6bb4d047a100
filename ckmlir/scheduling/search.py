"""Looking for a faster schedule of one kernel.

Rounds. Each walks from good schedules by legal moves, and has the steps of what it meets modelled before LLVM; then the
best of them that nobody has compiled are compiled, proved and modelled in full. A schedule counts with what the full
model says of its step where that is known, since LLVM may have moved something.

Everything found out is appended to a file at once, refusals too. A search takes the same way however many work on it,
and what the file knows is not asked again: one that was ended, however, goes the same way to where it was, and on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ckmlir.dialect.schedule import Schedule
from ckmlir.dispatch import json_lines
from ckmlir.dispatch.reading import SCHEMA, fields_of
from ckmlir.errors import CkmlirError
from ckmlir.ops.request import RequestError
from ckmlir.runtime.workers import Task, WorkerError, Workers
from ckmlir.scheduling.candidates import Judged, Looked, Subject, judge, look
from ckmlir.scheduling.step_model import Surroundings

PARENTS = 64
"""Schedules that a round walks from at most, the better the more often."""
BIAS = 3
"""A walk begins at the place u ** BIAS of the list of parents, the best first, for an even u from 0 to 1."""
BATCH = 48
"""Walks of a round."""
FINALISTS = 4
"""Schedules of a round that are compiled."""
MARGIN = 1.02
"""Schedules that look slower than the best by more are not compiled."""

_FIELDS = {"schema": int, "subject": list, "question": str, "schedule": str, "seed": int}
_ANSWERS = {"looked": dict, "judged": dict, "refused": str}
_START = -1
"""In records the seed of a question that walks nowhere."""

Report = Callable[[str], None]


class Found(Struct):
    """What a search knows.

    Attributes:
        looked: by its text, what was found before LLVM; `judged`: what the full model says.
        refused: why a schedule is none, by its text or that and its seed.
        resumed: answers that the file had.
        asked: answers that were found now.
    """

    looked: dict[str, Looked] = field(default_factory=dict)
    judged: dict[str, Judged] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    resumed: int = 0
    asked: int = 0

    def best(self) -> list[tuple[str, Judged]]:
        """What was compiled and does not spill, the shortest launch first."""
        right = [(text, one) for text, one in self.judged.items() if not one.spills]
        return sorted(right, key=lambda one: one[1].launch)


class Search:
    """A search for schedules of one kernel, kept in a file.

    Attributes:
        found: see `Found`.
        own: the text of the schedule that is to be beaten, every fragment by itself.
    """

    def __init__(self, subject: Subject, own: str, path: Path, workers: Workers, report: Report | None = None) -> None:
        """Args:
            own: the kernel's own schedule.
            path: the file of records, new or old.
            report: told of every schedule that is faster than all before.

        Raises:
            RequestError: the file is none of a search, or of another subject's.
        """
        self.subject, self.path, self.workers, self._report = subject, path, workers, report
        self.found, self._known = Found(), _read(path, subject)
        self.around = Surroundings()
        self.spare = 0
        answer = self._ask([("look", own, None)])[0]
        if isinstance(answer, CkmlirError):
            raise answer
        self.own: str = answer.schedule
        judged = self._ask([("judge", self.own, None)])[0]
        if isinstance(judged, CkmlirError):
            raise judged
        self._note_judged(self.own, judged)
        self.around, self.spare = judged.around, judged.vector_registers - answer.registers

    def run(self, starts: Iterable[str], candidates: int, registers: int) -> None:
        """Look until so many schedules were looked at before LLVM.

        Args:
            starts: texts of schedules to walk from beside the kernel's own; those that do not fit are left out.
            registers: of a wave; what needs more would spill.
        """
        self._look([(text, None) for text in dict.fromkeys((self.own, *starts))], registers)
        number = 0
        while len(self.found.looked) + len(self.found.refused) < candidates:
            parents, chance = self._best()[:PARENTS], random.Random(number)
            chosen = [parents[int(len(parents) * chance.random() ** BIAS)] for _ in range(BATCH)]
            self._look([(text, number + at) for at, text in enumerate(chosen)], registers)
            number += BATCH
            best = self._best()
            limit = MARGIN * self._score(best[0])
            likely = [text for text in best if text not in self.found.judged and self._score(text) <= limit]
            self._judge(likely[:FINALISTS])

    def _best(self) -> list[str]:
        return sorted(self.found.looked, key=lambda text: (self._score(text), text))

    def _score(self, text: str) -> float:
        """Cycles of a step, those of the full model where it was asked."""
        judged = self.found.judged.get(text)
        if judged is not None:
            return judged.step if not judged.spills else 2 * judged.step
        return self.found.looked[text].cycles

    def _look(self, walks: Sequence[tuple[str, int | None]], registers: int) -> None:
        for (text, seed), answer in zip(walks, self._ask([("look", *one) for one in walks]), strict=True):
            if isinstance(answer, CkmlirError):
                self.found.refused[f"{text} {seed}"] = str(answer)
            elif answer.registers + self.spare > registers:
                self.found.refused[answer.schedule] = f"it would take {answer.registers + self.spare} vector registers"
            else:
                self.found.looked.setdefault(answer.schedule, answer)

    def _judge(self, texts: Sequence[str]) -> None:
        for text, answer in zip(texts, self._ask([("judge", text, None) for text in texts]), strict=True):
            if isinstance(answer, CkmlirError):
                del self.found.looked[text]
                self.found.refused[text] = str(answer)
            else:
                self._note_judged(text, answer)

    def _note_judged(self, text: str, judged: Judged) -> None:
        fastest = self.found.best()
        self.found.judged[text] = judged
        if self._report is not None and not judged.spills and (not fastest or judged.launch < fastest[0][1].launch):
            seen = len(self.found.looked) + len(self.found.refused)
            self._report(f"{seen:5} seen: {judged.step:.0f} cycles a step, {judged.launch:.0f} the launch")

    def _ask(self, questions: Sequence[tuple[str, str, int | None]]) -> list[Any]:
        """The answers, those from the file where it has them; new ones are noted as they come."""
        new = [one for one in dict.fromkeys(questions) if one not in self._known]
        tasks = [self._task(*one) for one in new]

        def note(place: int, answer: Any) -> None:
            if isinstance(answer, WorkerError):
                return  # it says nothing of the schedule: the next start asks again
            json_lines.append(self.path, [_written(self.subject, new[place], answer)])

        for one, answer in zip(new, self.workers.call(tasks, note), strict=True):
            self._known[one] = answer
            self.found.asked += 1
        self.found.resumed += len(set(questions)) - len(new)
        return [self._known[one] for one in questions]

    def _task(self, question: str, text: str, seed: int | None) -> Task:
        name = Schedule.parse(text).name
        if question == "judge":
            return Task(judge, (self.subject, text), f"{self.subject.operator}: compiling under schedule {name}")
        return Task(look, (self.subject, text, seed, self.around), f"{self.subject.operator}: walking from {name}")


def _subject(subject: Subject) -> list[Any]:
    """A subject in JSON's types."""
    return [getattr(subject.operator, "name", subject.operator), {k: str(v) for k, v in subject.keys}, subject.target]


def _written(subject: Subject, question: tuple[str, str, int | None], answer: Any) -> dict[str, Any]:
    kind, text, seed = question
    about = {"schema": SCHEMA, "subject": _subject(subject), "question": kind, "schedule": text,
             "seed": _START if seed is None else seed}  # fmt: skip
    if isinstance(answer, Looked):
        looked = {"schedule": answer.schedule, "cycles": answer.cycles, "registers": answer.registers}
        return {**about, "looked": looked}
    return {**about, "judged": answer.to_dict()} if isinstance(answer, Judged) else {**about, "refused": str(answer)}


def _read(path: Path, subject: Subject) -> dict[tuple[str, str, int | None], Any]:
    """What a file knows of a subject. Raises RequestError for a file that no search wrote."""
    known: dict[tuple[str, str, int | None], Any] = {}
    json_lines.check_appendable(path)
    for where, values in json_lines.read(path) if path.exists() else ():
        one = fields_of(values, where, _FIELDS, _ANSWERS)
        if one["subject"] != _subject(subject):
            raise RequestError(f"{where}: a search of {one['subject']}; expected one of {_subject(subject)}")
        question = one["question"], one["schedule"], None if one["seed"] == _START else one["seed"]
        if sum(name in one for name in _ANSWERS) != 1:
            raise RequestError(f"{where}: expected one of {', '.join(_ANSWERS)}")
        try:
            known[question] = (
                Looked(**one["looked"]) if "looked" in one
                else Judged.from_dict(one["judged"]) if "judged" in one else CkmlirError(one["refused"])
            )  # fmt: skip
        except (TypeError, KeyError):
            raise RequestError(f"{where}: an answer of another version; expected one of this") from None
    return known
