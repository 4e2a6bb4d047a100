"""Many kernels compiled by several processes (`ckmlir.runtime.calls`), of this machine or of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ckmlir.errors import CkmlirError
from ckmlir.runtime.calls import LOCAL, call_many
from ckmlir.runtime.compile_cache import compile_cached, lookup, remember
from ckmlir.runtime.workers import Task
from ckmlir.targets import Target, get_target

if TYPE_CHECKING:
    from ckmlir.compiled_kernel import CompiledKernel
    from ckmlir.ops.operator import Operator


class Request(NamedTuple):
    """A kernel: an operator, its specification and the chip."""

    operator: Operator[Any, Any]
    spec: Any
    target: Target


Report = Callable[[Request, "CompiledKernel | CkmlirError"], None]
Finish = Callable[["CompiledKernel"], None]


def compile_many(
    requests: Iterable[Request | tuple[Operator[Any, Any], Any, Target]],
    *,
    processes: int | None = None,
    on: str = LOCAL,
    report: Report | None = None,
    finish: Finish | None = None,
) -> list[CompiledKernel | CkmlirError]:
    """The kernels of many specifications, in order; in a kernel's place the error where it is refused.

    Kernels that the cache knows cost nothing. A request that comes several times is compiled once.

    Args:
        processes, on: who compiles, as `call_many` takes them.
        report: called with every request and its answer when that is there, in any order, on any thread but one after
            another.
        finish: called with every kernel that is compiled, by the process that does; a function of a module, which may
            add artifacts.

    Raises:
        CkmlirError: the place to compile on is unknown, or processes are below 1.
        RuntimeError: a defect of ckmlir in a worker; the text is its traceback.
    """
    wanted = [Request(*request) for request in requests]
    answers: dict[tuple[str, Any, str], CompiledKernel | CkmlirError] = {}
    missing: dict[tuple[str, Any, str], Request] = {}
    for request in wanted:
        known = lookup(*request)
        if known is not None:
            answers[_key(request)] = known
        else:
            missing.setdefault(_key(request), request)
    tell = report or (lambda request, answer: None)
    for request in {_key(one): one for one in wanted if _key(one) in answers}.values():
        tell(request, answers[_key(request)])
    asked = list(missing.values())

    def arrived(place: int, answer: CompiledKernel | CkmlirError) -> None:
        if not isinstance(answer, CkmlirError):
            remember(*asked[place], answer)
        tell(asked[place], answer)

    tasks = [
        Task(
            compile_named, (named(request.operator), request.spec, request.target.name, finish),
            f"{request.operator.name}: compiling {request.spec.name}",
        )
        for request in asked
    ]  # fmt: skip
    found = call_many(tasks, on=on, processes=processes, report=arrived)
    answers |= zip(missing, found, strict=True)
    return [answers[_key(request)] for request in wanted]


def _key(request: Request) -> tuple[str, Any, str]:
    return request.operator.name, request.spec, request.target.name


def named(operator: Operator[Any, Any]) -> Any:
    """An operator of this package by its name, any other as it is: what other processes are told."""
    from ckmlir.ops import OPERATORS

    return operator.name if operator.name in OPERATORS else operator


def compile_named(operator: Any, spec: Any, target: str, finish: Finish | None = None) -> CompiledKernel:
    """The kernel of a specification, finished. Raises as `compile_cached`."""
    from ckmlir.ops import find_operator

    found = find_operator(operator) if isinstance(operator, str) else operator
    compiled = compile_cached(found, spec, get_target(target))
    if finish is not None:
        finish(compiled)
    return compiled
