"""What `ckmlir run` and `ckmlir bench` share: kernels taken from a library instead of being compiled."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from ckmlir.dispatch.dispatcher import JUST_IN_TIME, NOTHING_TO_LAUNCH, Dispatcher
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.library import Library
from ckmlir.dispatch.policies import OperatorsChoice, Policy, Query
from ckmlir.dispatch.records import read_records, tuned_table
from ckmlir.errors import CkmlirError
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import parse_assignments
from ckmlir.ops.spec import Spec
from ckmlir.tools.requested import Request


class Taken(Struct, frozen=True):
    """The operator's own kernel for a request, and where it comes from.

    Attributes:
        library: the file; None where the operator chose and the compiler is asked.
        rule: who decided.
        fitting: how many kernels of the library compute the problem.
        unknown: how many of them this version cannot read.
    """

    spec: Spec
    identifier: str
    library: Path | None = None
    rule: str = ""
    fitting: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        """A line; "" without a library."""
        if self.library is None:
            return ""
        unread = f"; this version cannot read {self.unknown} of its kernels" if self.unknown else ""
        if self.rule == NOTHING_TO_LAUNCH:
            return f"not from {self.library}: {self.rule}"
        if self.rule == JUST_IN_TIME:
            return f"not from {self.library}, none of whose kernels computes this: {self.identifier}{unread}"
        return f"from {self.library}: {self.identifier}, {self.rule} of {self.fitting}{unread}"

    def described(self) -> dict[str, Any] | None:
        """In JSON's types; None without a library."""
        if self.library is None:
            return None
        return {
            "file": str(self.library), "identifier": self.identifier, "rule": self.rule, "fitting": self.fitting,
            "unknown": self.unknown, "taken": self.rule not in (JUST_IN_TIME, NOTHING_TO_LAUNCH),
        }  # fmt: skip


def add_library_arguments(parser: argparse.ArgumentParser) -> None:
    """--library FILE, --tuned FILE and --compile-missing."""
    add = parser.add_argument
    add("--library", type=Path, metavar="FILE.ckl", help="take kernels from a library; nothing is compiled")
    add("--tuned", type=Path, metavar="FILE.jsonl", help="with --library: of its kernels the fastest that tuning found")
    add("--compile-missing", action="store_true", help="with --library: compile what it lacks instead of refusing")


@contextmanager
def taken_kernel(options: argparse.Namespace, request: Request) -> Iterator[Taken]:
    """The kernel of a request; inside the block everybody takes kernels from the library first.

    Raises:
        CkmlirError: the chip cannot run the problem; the library cannot be read, or no kernel of it computes the
            problem or one of its steps and nothing may be compiled; --compile-missing without --library.
    """
    operator, problem, target = request
    if options.library is None:
        given = "--compile-missing" if options.compile_missing else "--tuned" if options.tuned else None
        if given is not None:
            raise CkmlirError(f"{given}: there is no library; add --library FILE, or leave it out")
        spec = operator.spec(problem, target)
        require_valid(operator, spec, target)
        yield Taken(spec, Kernel(operator, spec, target).identifier)
        return
    with Library.load(options.library).attached() as library:
        registry = library.registry(partial=True)
        policies: list[Policy] = [OperatorsChoice()]
        if options.tuned:
            policies.insert(0, tuned_table(read_records(options.tuned, partial=True)))
        dispatcher = Dispatcher(registry, target, policies, strict=not options.compile_missing)
        found = dispatcher.choose(Query(operator, problem, target, parse_assignments(options.keys)))
        unknown = len(library) - len(registry)
        yield Taken(found.kernel.spec, found.kernel.identifier, options.library, found.rule, found.fitting, unknown)
