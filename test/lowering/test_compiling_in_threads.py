"""Tracing and compiling from several threads gives the bytes that one thread gives, and each thread its own errors."""

import gc
import random
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ckmlir.compiler import compile_kernel, compile_traced
from ckmlir.dialect.build import attributes_of, create, default_attributes, string
from ckmlir.dialect.context import exclusive, shared_context
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import Kernel, i32, kernel, load, loop, ptr, stage, store, to_lds, view, zeros
from ckmlir.lowering import codeobject
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.targets import get_target

THREADS = 4
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("gemm", {"m": 64, "n": 64, "k": 64}, "gfx942"),
    ("gemm", {"m": 256, "n": 256, "k": 256, "block": (256, 256, 64), "wave": (2, 2)}, "gfx950"),  # in a child process
    ("softmax", {"m": 16, "n": 512}, "gfx90a"),
    ("transpose2d", {"m": 100, "n": 60}, "gfx942"),
    ("layernorm2d", {"m": 16, "n": 300}, "gfx950"),
]
LANES = Distribution.parse("d0: 64@lane")


@pytest.fixture(autouse=True)
def _frequent_switches() -> Any:
    """Threads take turns after every few operations, not every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def traced(rows: int) -> Kernel:
    """A kernel with a loop of two stages; the numbers in it depend on `rows`."""

    @kernel(f"rows{rows}", target=get_target("gfx942"), waves=1)
    def rows_kernel(n: i32, x: ptr("f32"), y: ptr("f32")) -> None:
        schedule = Schedule("ahead", (("load", 1),))
        with loop(0, n, rows, carry=[zeros((64,), "f32", LANES)], schedule=schedule) as step:
            (total,) = step.carried
            with stage("load"):
                part = load(view(x, (n,), (rows,)).pad(64).window((64,), (step.index,)), LANES)
            with stage("add"):
                total = total + part * rows
            step.carry(total)
        store(step.results[0], view(y, (64,), (1,)).window((64,), (0,)))

    return rows_kernel


def compiled(number: int) -> bytes:
    name, keys, chip = REQUESTS[number]
    operator, target = find_operator(name), get_target(chip)
    return compile_kernel(operator, operator.spec(operator.problem(**keys), target), target).hsaco


def test_many_traces_in_threads() -> None:
    expected = {rows: str(traced(rows).module) for rows in range(1, 9)}

    def one(rows: int) -> str:
        made = traced(rows)
        with made.module.context:
            return str(made.module)

    work = [rows for rows in expected for _ in range(10)]
    with ThreadPoolExecutor(THREADS) as pool:
        for rows, text in zip(work, pool.map(one, work), strict=True):
            assert text == expected[rows]


def test_whole_compilations_in_threads() -> None:
    serial = [compiled(number) for number in range(len(REQUESTS))]
    work = [*range(len(REQUESTS))] * 2
    random.Random(3).shuffle(work)
    with ThreadPoolExecutor(THREADS) as pool:
        for number, code in zip(work, pool.map(compiled, work), strict=True):
            assert code == serial[number], REQUESTS[number]


def test_one_thread_traces_and_others_compile() -> None:
    expected = {rows: compile_traced(traced(rows)).hsaco for rows in (1, 2, 3)}
    kernels = [traced(rows) for rows in (1, 2, 3) for _ in range(4)]
    with ThreadPoolExecutor(THREADS) as pool:
        answers = pool.map(lambda made: (made.name, compile_traced(made).hsaco), kernels)
        for _ in range(10):
            traced(4)  # in the same context
        for name, code in answers:
            assert code == expected[int(name.removeprefix("rows"))]


def test_a_context_belongs_to_one_thread_at_a_time() -> None:
    expected, made = compile_traced(traced(3)).hsaco, traced(3)
    with ThreadPoolExecutor(1) as pool:
        with exclusive(made.module.context):
            answer = pool.submit(lambda: compile_traced(made).hsaco)
            with pytest.raises(TimeoutError):
                answer.result(timeout=0.3)
        assert answer.result(timeout=60) == expected


def test_what_operations_carry_by_default_is_a_threads_own() -> None:
    def attributes() -> list[str]:
        with exclusive(shared_context()), ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                return sorted(attributes_of(create("ck.barrier", [], [])))

    with exclusive(shared_context()), ThreadPoolExecutor(1) as pool:
        with default_attributes({"ck.stage": string("load")}):
            assert pool.submit(attributes).result() == []
            assert attributes() == ["ck.stage"]
        assert attributes() == []


def test_every_thread_gets_its_own_error() -> None:
    def refused(number: int) -> str:
        @kernel(f"refused{number}", target=get_target("gfx942"), waves=1)
        def refused_kernel(y: ptr("f32")) -> None:
            to_lds(zeros((64 * number,), "f32"))  # nothing says how it lies

        with pytest.raises(PipelineFailure) as caught:
            compile_traced(refused_kernel)
        return str(caught.value)

    work = [1 + number % 8 for number in range(40)]
    with ThreadPoolExecutor(THREADS) as pool:
        for number, text in zip(work, pool.map(refused, work), strict=True):
            assert f"nothing determines the distribution of this [{64 * number}] tile" in text
            assert text.count("\n") == 0


def test_what_another_thread_prints_is_no_error_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """While a copy of the process compiles, standard error is everybody else's."""
    monkeypatch.setattr(codeobject, "MANY_REGISTERS", -1)
    done = threading.Event()

    def print_errors() -> None:
        while not done.wait(0.001):
            sys.stderr.write("error: of somebody else\n")
            sys.stderr.flush()

    printing = threading.Thread(target=print_errors)
    printing.start()
    try:
        compiled(2)
    finally:
        done.set()
        printing.join()
    assert "error: of somebody else" in capfd.readouterr().err


def test_the_context_of_a_thread_ends_with_it() -> None:
    contexts: list[weakref.ref[Any]] = []

    def compile_and_end() -> None:
        compile_traced(traced(2))
        contexts.append(weakref.ref(shared_context()))

    for _ in range(3):
        thread = threading.Thread(target=compile_and_end)
        thread.start()
        thread.join()
    gc.collect()
    # The dialect keeps the module that last declared it, and with that one context.
    assert sum(one() is not None for one in contexts) <= 1
