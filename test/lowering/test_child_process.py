"""Computations in a copy of the process: what comes back, and that a library which ends the copy does not end us."""

import os
import signal
from collections.abc import Callable

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.errors import CkmlirError
from ckmlir.lowering import codeobject
from ckmlir.lowering.child_process import Answer, ChildEnded, in_child_process
from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def test_what_the_function_returns_comes_back_and_nothing_else() -> None:
    seen: list[int] = []

    def function() -> bytes:
        seen.append(1)
        return bytes(range(256)) * 4096  # more than a pipe holds

    assert in_child_process(function).content == bytes(range(256)) * 4096
    assert seen == []


def test_what_it_prints_comes_back_apart(capfd: pytest.CaptureFixture[str]) -> None:
    def function() -> bytes:
        os.write(2, b"first\nsecond")
        return b""

    assert in_child_process(function).printed == ["first", "second"]
    with pytest.raises(ChildEnded) as caught:
        in_child_process(lambda: os.write(2, b"LLVM ERROR: words\n") and os.abort())
    assert caught.value.printed == ["LLVM ERROR: words"]
    assert capfd.readouterr().err == ""


def test_an_error_of_ours_keeps_its_text() -> None:
    def function() -> bytes:
        raise CkmlirError("file.py:3: a tile is too large")

    with pytest.raises(CkmlirError, match=r"^file\.py:3: a tile is too large$"):
        in_child_process(function)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (os.abort, "ended by SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "ended by SIGSEGV"),
        (lambda: os._exit(3), "ended with status 3"),
        (lambda: {}["absent"], "ended with status 1"),
    ],
    ids=["abort", "fault", "exit", "defect"],
)
def test_an_end_without_a_result_is_an_error(end: Callable[[], bytes], words: str) -> None:
    with pytest.raises(ChildEnded, match=words):
        in_child_process(end)


def test_the_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm, target = find_operator("gemm"), get_target("gfx942")
    spec = gemm.spec(gemm.problem(m=64, n=64, k=64), target)
    here = compile_kernel(gemm, spec, target).hsaco
    monkeypatch.setattr(codeobject, "MANY_REGISTERS", -1)
    assert compile_kernel(gemm, spec, target).hsaco == here


@pytest.mark.parametrize(
    ("keys", "copied"),
    [
        ({}, False),
        ({"m": 256, "n": 256, "block": (256, 256, 32), "wave": (2, 2), "schedule": "unpipelined"}, False),
        ({"m": 256, "n": 192, "block": (256, 192, 64), "wave": (2, 2), "schedule": "mem4"}, True),
    ],
    ids=["few", "accumulators", "loads"],
)
def test_only_registers_beside_accumulators_of_their_own_ask_for_a_copy(
    keys: dict[str, object], copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accumulators lie where LLVM's allocator puts nothing else; what is loaded ahead may be too much for it."""

    class Reached(Exception):
        pass

    def stop(*_: object) -> bytes:
        raise Reached

    def in_copy(_: Callable[[], bytes]) -> Answer:
        copies.append(True)
        raise Reached

    copies: list[bool] = []
    monkeypatch.setattr(codeobject, "_binary", stop)
    monkeypatch.setattr(codeobject, "in_child_process", in_copy)
    gemm, target = find_operator("gemm"), get_target("gfx950")
    with pytest.raises(Reached):
        compile_kernel(gemm, gemm.spec(gemm.problem(**{"m": 64, "n": 64, "k": 64, **keys}), target), target)
    assert copies == [True] * copied


def test_a_kernel_that_llvm_gives_up_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's check of its own code prints what is wrong and ends the process."""

    def gives_up(*_: object) -> bytes:
        os.write(2, b"*** Bad machine code: Using an undefined physical register ***\n")
        os.write(2, b"LLVM ERROR: Found 1 machine code errors\n")
        os.abort()

    gemm, target = find_operator("gemm"), get_target("gfx950")
    monkeypatch.setattr(codeobject, "MANY_REGISTERS", -1)
    monkeypatch.setattr(codeobject, "_binary", gives_up)
    with pytest.raises(codeobject.CodeGenerationError, match="LLVM gave up on this kernel: Bad machine code"):
        compile_kernel(gemm, gemm.spec(gemm.problem(m=64, n=64, k=64), target), target)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("LLVM ERROR: Cannot select: intrinsic %llvm.amdgcn.something", "LLVM ERROR: Cannot select: intrinsic"),
        ("", "it did not say why"),
        ("*** Bad machine code: Using an undefined physical register ***", "It has too few registers"),
    ],
)
def test_only_machine_code_that_llvm_itself_refuses_is_a_matter_of_registers(
    monkeypatch: pytest.MonkeyPatch, printed: str, words: str
) -> None:
    def give_up(*_: object) -> bytes:
        os.write(2, printed.encode())
        os.abort()

    gemm, target = find_operator("gemm"), get_target("gfx942")
    monkeypatch.setattr(codeobject, "MANY_REGISTERS", -1)
    monkeypatch.setattr(codeobject, "_binary", give_up)
    with pytest.raises(codeobject.CodeGenerationError, match="LLVM gave up on this kernel") as caught:
        compile_kernel(gemm, gemm.spec(gemm.problem(m=64, n=64, k=64), target), target)
    assert words in str(caught.value)
    assert ("registers" in str(caught.value)) == ("Bad machine code" in printed)
