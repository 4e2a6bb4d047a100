"""Building libraries: kernels compiled by processes or machines, kept as they come, and put together at the end.

A build that ends early loses nothing: every kernel that was compiled is a file of its own beside the library, written
whole or not at all, and the next build begins with those. Files are named by all that the code depends on, so that
another version of the compiler does not take them. Two builders may work at the same library; both write the same
bytes.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import toolchain
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.writing import write_library
from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, is_stream, read_with_digest, write_with_digest
from ckmlir.ops.request import RequestError
from ckmlir.runtime.calls import LOCAL
from ckmlir.runtime.compile_many import Request, compile_many
from ckmlir.runtime.kernel_files import key_of

CHECKS = "checks"
"""The artifact of a kernel that says what static checks found."""
Progress = Callable[[int, int], None]
"""Told how many kernels of how many there are."""


class Built(Struct):
    """What came of a build.

    Attributes:
        kernels: in the library.
        resumed: of these, how many an earlier build had compiled.
        refused: those that could not be compiled, and why.
        findings: kernels that static checks found something wrong with, and what.
    """

    kernels: int = 0
    resumed: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    findings: dict[str, Mapping[str, int]] = field(default_factory=dict)


def build(
    kernels: Sequence[Kernel],
    path: Path,
    *,
    processes: int | None = None,
    on: str = LOCAL,
    partial: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Compile kernels and write them to a library.

    Args:
        processes: how many compile side by side, by default one for each processor.
        on: where, "local" or "dask://host:port" (`ckmlir.runtime.machines`).
        partial: leave out what cannot be compiled, instead of writing nothing.

    Raises:
        CkmlirError: nothing to build, the file cannot be written, or a kernel is refused and the library is not to be
            partial; what was compiled is kept for the next build.
    """
    if not kernels:
        raise RequestError("there is nothing to build; a library holds at least one kernel")
    check_writable([path])
    if is_stream(path):
        raise RequestError(f"{path} is not a regular file; expected the path of one, new or old")
    parts = path.with_name(f".{path.name}.parts")
    wanted = {kernel: parts / f"{key_of(kernel.operator, kernel.spec, kernel.target)}.part" for kernel in kernels}
    found = {kernel: known for kernel, part in wanted.items() if (known := _read(kernel, part)) is not None}
    built = Built(resumed=len(found))
    missing = [kernel for kernel in wanted if kernel not in found]

    def keep(request: Request, answer: CompiledKernel | CkmlirError) -> None:
        kernel = Kernel(*request)
        if not isinstance(answer, CkmlirError):
            _write(wanted[kernel], answer)
            found[kernel] = answer
        if progress is not None:
            progress(len(found), len(wanted))

    requests = [Request(kernel.operator, kernel.spec, kernel.target) for kernel in missing]
    answers = compile_many(requests, processes=processes, on=on, report=keep, finish=static_checks)
    for kernel, answer in zip(missing, answers, strict=True):
        if isinstance(answer, CkmlirError):
            built.refused[kernel.identifier] = str(answer)
    if built.refused and (not partial or not found):
        identifier, why = next(iter(built.refused.items()))
        count = f"{len(built.refused)} of {len(wanted)}"
        raise CkmlirError(f"{count} kernels cannot be compiled; the first, {identifier}: {why}")
    checks = {kernel: _checks_of(compiled) for kernel, compiled in found.items()}
    built.findings = {kernel.identifier: one for kernel, one in checks.items() if any(one.values())}
    write_library(path, [(kernel, compiled, checks[kernel]) for kernel, compiled in found.items()], toolchain())
    built.kernels = len(found)
    shutil.rmtree(parts, ignore_errors=True)
    return built


def static_checks(compiled: CompiledKernel) -> None:
    """Note how many missing waits and wait states the simulator's static checks find (docs/static_checks.md)."""
    from ckmlir.sim.analysis import check_hazards, check_waits

    code, name = compiled.code_object, compiled.kernel_name
    found = {"waits": len(check_waits(code, name)), "hazards": len(check_hazards(code, name))}
    compiled.artifacts[CHECKS] = json.dumps(found)


def _checks_of(compiled: CompiledKernel) -> dict[str, int]:
    if CHECKS not in compiled.artifacts:  # it was compiled before
        static_checks(compiled)
    found: dict[str, int] = json.loads(compiled.artifacts[CHECKS])
    return found


def _read(kernel: Kernel, part: Path) -> CompiledKernel | None:
    """What an earlier build left, None where there is nothing whole."""
    try:
        header, code = read_with_digest(part)
    except (OSError, ValueError):
        return None
    return CompiledKernel(code, header["kernel"], kernel.target.name, {CHECKS: header[CHECKS]})


def _write(part: Path, compiled: CompiledKernel) -> None:
    _checks_of(compiled)
    with contextlib.suppress(OSError):  # the library is written all the same; only a second start would be slower
        part.parent.mkdir(exist_ok=True)
        write_with_digest(part, {"kernel": compiled.kernel_name, CHECKS: compiled.artifacts[CHECKS]}, compiled.hsaco)
