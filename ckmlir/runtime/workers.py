"""What workers are: who does calls for this process, on this machine (`processes`) or on others (`machines`).

`calls` opens those that somebody asks for.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ckmlir.errors import CkmlirError

DONE, REFUSED, DEFECT, UNFIT = "done", "refused", "defect", "unfit"
DASK = "dask://"
"""How the place of a cluster begins."""


class WorkerError(CkmlirError):
    """Nobody did a call: its process ended, or was none that could. It says nothing of what was asked for."""


class Task(NamedTuple):
    """A call.

    Attributes:
        function: of a module; what it raises as CkmlirError is its answer.
        arguments: that can be pickled.
        what: what it does, for the message where its process ends: "gemm: compiling gemm_f16_…".
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    what: str


Report = Callable[[int, Any], None]
"""Told the place of a task and its answer when that is there, in any order, on any thread but one after another."""


class Workers(Protocol):
    """Who does calls, for as long as it is open: a context.

    Attributes:
        size: how many calls are done side by side.
    """

    size: int

    def call(self, tasks: Sequence[Task], report: Report | None = None) -> list[Any]:
        """The answers of calls, in order; in a refused call's place its CkmlirError. Raises RuntimeError for a defect
        in a call; the text is its traceback.
        """

    def __enter__(self) -> Workers: ...

    def __exit__(self, *raised: object) -> None: ...


def make_answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Do a call, and say how it went, in what can be pickled."""
    try:
        return DONE, function(*arguments)
    except CkmlirError as error:
        return REFUSED, str(error)
    except Exception:  # told where the call was asked for
        return DEFECT, traceback.format_exc()


def read_answer(answer: tuple[str, Any]) -> Any:
    """What a call returned, or its CkmlirError. Raises RuntimeError for a defect."""
    kind, found = answer
    if kind == DEFECT:
        raise RuntimeError(found)
    if kind == UNFIT:
        return WorkerError(found)
    return CkmlirError(found) if kind == REFUSED else found
