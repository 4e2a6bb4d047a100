"""The same kernel compiled again is the same bytes: in one process with its heap in disorder, and in another one."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.lowering import codeobject, resting_memory
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

KERNELS: dict[str, dict[str, object]] = {
    "gemm": {"m": 4096, "n": 4096, "k": 4096, "dtype": "f16"},
    "fmha_fwd": {"b": 1, "h": 16, "sq": 4096, "d": 128, "dtype": "f16"},
    "layernorm2d": {"m": 4096, "n": 4096, "dtype": "f16"},
    "reduce": {"shape": (4096, 4096), "dtype": "f16"},
    "transpose2d": {"m": 4096, "n": 4096, "dtype": "f16"},
    "rmsnorm2d": {"m": 4096, "n": 4096, "dtype": "f16"},
    # Sums of widened indices, where a cast at the place of an erased one changes their order.
    "img2col": {"n": 5, "image": (33, 7, 7), "c": 12, "window": (5, 5, 2), "strides": (3, 2, 2), "dtype": "i32"},
}
CHIPS = ("gfx90a", "gfx942", "gfx950")


def compiled(name: str, arch: str) -> tuple[str, bytes]:
    """What the backend was given, and what came of it."""
    operator, target = find_operator(name), get_target(arch)
    result = compile_kernel(operator, operator.spec(operator.problem(**KERNELS[name]), target), target, keep=["llvm"])
    return str(result.artifacts["llvm"]), result.hsaco


def digests(chips: Sequence[str]) -> dict[str, str]:
    """By operator and chip: a digest of the code object."""
    return {f"{name} {arch}": hashlib.sha256(compiled(name, arch)[1]).hexdigest() for name in KERNELS for arch in chips}


def disorder(generator: random.Random) -> None:
    """Leave free pieces of many sizes in the heap, and hold on to others until the next collection."""
    library = ctypes.PyDLL(None)
    library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.free.argtypes, library.free.restype = [ctypes.c_void_p], None
    pieces = [library.malloc(generator.choice(range(64, 256, 8))) for _ in range(generator.randrange(3000))]
    generator.shuffle(pieces)
    for piece in pieces:
        library.free(piece)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("name", KERNELS)
def test_compiling_again_gives_the_same_bytes(name: str, arch: str) -> None:
    generator = random.Random(7)
    text, first = compiled(name, arch)
    for _ in range({"gemm": 3, "img2col": 8}.get(name, 1)):
        disorder(generator)
        again, second = compiled(name, arch)
        assert again == text  # what comes before the backend
        assert second == first


@pytest.mark.parametrize("chips", [("gfx942",), pytest.param(CHIPS, marks=pytest.mark.full)], ids=len)
def test_another_process_gives_the_same_bytes(chips: Sequence[str]) -> None:
    program = f"import sys, json; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_determinism as t; "
    program += f"print(json.dumps(t.digests({chips!r})))"
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2024")
    ]
    first, second = map(json.loads, said)
    assert first == second
    assert len(first) == len(KERNELS) * len(chips)


def test_the_stock_is_as_large_as_the_kernel_asks_for_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    held: set[int] = set()
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        held.add(len(asked))
        return len(asked)

    monkeypatch.setattr(resting_memory, "glibc_heap", lambda: (allocate, held.remove))
    with resting_memory.resting_memory(5000, branches=False):
        pieces = 2 * 5000 * resting_memory.PIECES_PER_OPERATION
        assert [asked.count(size) for size in resting_memory.INSTRUCTION_BYTES] == [pieces] * 2
        assert len(held) == pieces
    assert not held
    monkeypatch.setattr(resting_memory, "glibc_heap", lambda: None)  # another allocator than glibc's
    with resting_memory.resting_memory(5000, branches=True):
        pass


@pytest.mark.parametrize(
    ("branches", "least"), [(False, resting_memory.LEAST_PIECES), (True, resting_memory.LEAST_WITH_BRANCHES)]
)
def test_small_kernels_get_a_stock_that_loops_may_outgrow(
    branches: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        return len(asked)

    monkeypatch.setattr(resting_memory, "glibc_heap", lambda: (allocate, lambda piece: None))
    with resting_memory.resting_memory(1, branches):
        assert [asked.count(size) for size in resting_memory.INSTRUCTION_BYTES] == [2 * least] * 2


FAULTS = """
import ctypes, resource
from ckmlir.lowering import resting_memory

allocate, free = resting_memory.glibc_heap()

def taken_and_given_back():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [allocate(100_000) for _ in range(80)]
    for piece in pieces:
        ctypes.memset(piece, 1, 100_000)
    for piece in pieces:
        free(piece)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

taken_and_given_back()
print(taken_and_given_back())
"""


@pytest.mark.skipif(resting_memory.glibc_heap() is None, reason="only glibc's heap is told what to keep")
def test_the_heap_keeps_what_a_compilation_takes() -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUN"))}
    run = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100  # pages, of two thousand


def test_integer_operations_and_branches_of_all_kernels_are_counted() -> None:
    from ckmlir.dialect.context import ck_context
    from ckmlir.mlir import ir

    straight = "llvm.func @f(%a: i32, %x: f32) { %0 = llvm.shl %a, %a : i32 %1 = llvm.fadd %x, %x : f32 llvm.return }"
    branching = "llvm.func @g(%a: i32) { llvm.br ^bb1 ^bb1: %0 = llvm.add %a, %a : i32 llvm.return }"
    with ck_context():
        one, both = (
            ir.Module.parse(f"module {{ gpu.module @m {{ {text} }} }}").operation
            for text in (straight, straight + branching)
        )
        assert codeobject._size(one)[:2] == (1, False)
        assert codeobject._size(both)[:2] == (2, True)


def test_matrix_instructions_of_a_kernel_are_noticed() -> None:
    from ckmlir.dialect.context import ck_context
    from ckmlir.mlir import ir

    zero = "%v = llvm.mlir.zero : vector<4xf32> %h = llvm.mlir.zero : vector<4xf16>"
    types = "(vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>"
    multiply = f"%d = rocdl.mfma.f32.16x16x16f16 %h, %h, %v, 0, 0, none : {types}"
    with ck_context():
        for body, expected in ((f"{zero} {multiply}", True), (zero, False)):
            module = ir.Module.parse(f"module {{ gpu.module @m {{ llvm.func @f() {{ {body} llvm.return }} }} }}")
            assert codeobject._size(module.operation).multiplies is expected
