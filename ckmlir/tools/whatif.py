"""`ckmlir whatif`: what a kernel would cost with something changed: waits, barriers, schedule, or the machine itself.

Every option of a change makes one line of the table; --together makes one line of all of them. Cycles come from the
simulator's model of time, not from hardware.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.ops.request import parse_assignments
from ckmlir.records import replace
from ckmlir.tools.cli import Parser
from ckmlir.tools.own_kernel import named_schedules, read_schedule, scheduled_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.requested import Request
from ckmlir.tools.timing_options import Subject, add_timing_arguments, read_subject, record_request

if TYPE_CHECKING:
    from ckmlir.dialect.schedule import Schedule
    from ckmlir.scheduling import Workbench
    from ckmlir.sim.timing.counterfactual import Outcome
    from ckmlir.sim.timing.edits import Case, Edit

PATH_LINES = 10
USUAL = (
    ("scale", "lds.latency=2"),
    ("scale", "memory.*latency=2"),
    ("remove", "s_barrier"),
    ("remove", "s_waitcnt*"),
    ("no_bank_conflicts", ""),
)
"""What is tried when nothing is asked for; changes for which a kernel has nothing are left out."""


class _Collect(argparse.Action):
    """Keeps all changes in one list, in the order in which they were written."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        kind = (option or "").lstrip("-").replace("-", "_")
        namespace.changes = [*(namespace.changes or []), (kind, values or "")]


def add_arguments(parser: Parser) -> None:
    add_timing_arguments(parser)
    changes = {
        "--scale": ("NAME=F", "a parameter of the model times F; patterns such as memory.*latency=2 scale several"),
        "--set": ("NAME=VALUE", "another value of a parameter of the model"),
        "--remove": ("PLACE", "leave out instructions: s_barrier, 0x1a4, 's_waitcnt vmcnt(0)*', kernel.py:12"),
        "--wait": ("PLACE:C=N", "what s_waitcnts allow on its way: s_waitcnt*:vmcnt=3, 0x1a4:lgkmcnt=none"),
        "--schedule": ("NAME|FILE|TEXT", "the kernel's loop under another schedule"),
        "--buffers": ("N", "the same schedule with N LDS buffers, or one more: +1"),
        "--with": ("key=value,…", "the operator with other keys, such as schedule=compv4 or block=256x128x64"),
    }
    for name, (metavar, text) in changes.items():
        parser.add_argument(name, action=_Collect, dest="changes", metavar=metavar, help=text)
    add = parser.add_argument
    add("--no-bank-conflicts", action=_Collect, nargs=0, dest="changes", help="LDS accesses whose lanes never meet")
    add("--together", action="store_true", help="all changes in one line of the table, instead of a line each")
    add("--path", type=int, default=PATH_LINES, metavar="N", help="lines of the critical path to list; 0: none")
    add("--json", action="store_true", help="one JSON object on stdout")


def execute(options: argparse.Namespace) -> int:
    subject = read_subject(options)
    case = subject.record()

    from ckmlir.sim.timing.counterfactual import Comparison, base_outcome, path_text
    from ckmlir.sim.timing.critical_path import critical_path

    with progress("modelling"):
        base = base_outcome(case)
    outcomes = (base, *_outcomes(case, _Changes(subject, options), options))
    comparison = Comparison(subject.title, outcomes)
    path = critical_path(base.timeline)
    if options.json:
        shares = [share._asdict() for share in path.by_instruction()]
        about = {"kernel": case.trace.kernel, "critical_path": shares}
        print(json.dumps({**comparison.to_dict(), **about}, allow_nan=False))
        return 0
    print(comparison.text())
    if options.path > 0:
        print("\n" + path_text(path, options.path))
    return 0


def _outcomes(case: Case, changes: _Changes, options: argparse.Namespace) -> Iterator[Outcome]:
    """An outcome for each change, or one for all of them."""
    from ckmlir.sim.timing.counterfactual import changed_outcome
    from ckmlir.sim.timing.edits import EditError

    asked = options.changes or ()
    edits = [changes.read(kind, text) for kind, text in asked or USUAL]
    if options.together and asked:
        # What is compiled anew comes first: the other changes are made to its trace.
        edits.sort(key=lambda edit: not isinstance(edit, Recorded))
        if sum(isinstance(edit, Recorded) for edit in edits) > 1:
            raise CkmlirError("--together: one of --schedule, --buffers and --with can be combined with other changes")
    for chosen in [edits] if options.together and asked else [[edit] for edit in edits]:
        try:
            yield changed_outcome(case, chosen)
        except EditError:
            if asked:
                raise


class Recorded(Struct, frozen=True):
    """A change that is made by compiling and recording again."""

    name: str
    record: Callable[[], Case]
    remark = ""

    def __str__(self) -> str:
        return self.name

    def apply(self, case: Case) -> Case:
        """See `Edit`."""
        recorded = self.record()
        return recorded._replace(parameters=case.parameters)


class _Changes:
    """Reads changes: each option is a method of its name."""

    def __init__(self, subject: Subject, options: argparse.Namespace) -> None:
        self.parameters, self.options, self._subject = subject.parameters, options, subject

    def read(self, kind: str, text: str) -> Edit:
        """The change that an option and its value ask for. Raises CkmlirError."""
        from ckmlir.sim.timing import edits

        simple: dict[str, Callable[[str], Edit]] = {
            "scale": edits.parse_scale,
            "set": edits.parse_set,
            "wait": edits.parse_wait,
            "remove": edits.Remove,
            "no_bank_conflicts": lambda _: edits.NoBankConflicts(),
            "with": self.with_keys,
            "schedule": self.schedule,
            "buffers": self.buffers,
        }
        return simple[kind](text)

    @property
    def request(self) -> Request:
        """What compiles again. Raises CkmlirError for a code object: it is as it is."""
        if self._subject.request is None:
            raise CkmlirError(
                "--schedule, --buffers and --with compile an operator again; a code object stays as it is"
            )
        return self._subject.request

    def with_keys(self, text: str) -> Recorded:
        """Other keys of the operator."""
        operator, _, target = self.request
        keys = {**parse_assignments(self.options.keys), **parse_assignments(text.split(","))}
        request = Request(operator, operator.problem(**keys), target)
        return Recorded(text, lambda: record_request(request, self.parameters, self.options))

    def schedule(self, text: str) -> Recorded:
        """A schedule of the operator by its name, from a file, or written out."""
        if text in named_schedules(self.request.operator):
            return self.with_keys(f"schedule={text}")
        schedule = read_schedule(self.request, text)
        return Recorded(f"schedule {schedule.name}", lambda: self._under(schedule))

    def buffers(self, text: str) -> Recorded:
        """The kernel's schedule with another number of LDS buffers."""
        own = self._bench.schedule.buffers
        number = text.removeprefix("+")
        if not (number.isascii() and number.isdigit()):
            raise CkmlirError(f"--buffers {text}: a number of LDS buffers, or +1 for one more than the {own} of now")
        buffers = own + int(number) if text.startswith("+") else int(number)
        if not 1 <= buffers <= 8:
            raise CkmlirError(f"--buffers {text}: 1 to 8 buffers make sense")
        schedule = replace(self._bench.schedule, buffers=buffers)
        return Recorded(f"{buffers} LDS buffers", lambda: self._under(schedule))

    @cached_property
    def _bench(self) -> Workbench:
        from ckmlir.scheduling import Workbench

        operator, problem, target = self.request
        return Workbench.of(operator, operator.spec(problem, target), target)

    def _under(self, schedule: Schedule) -> Case:
        """The kernel under a schedule, recorded; refused if it would not be correct."""
        compiled = scheduled_kernel(self.request, schedule)
        return record_request(self.request, self.parameters, self.options, compiled)
