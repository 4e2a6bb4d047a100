"""Tiles of which a thread loads and stores very many elements by themselves: no offset is kept beside an element."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, Scalar, Window, i32, kernel, load, ptr, store, view
from ckmlir.lowering.child_process import in_child_process
from ckmlir.lowering.codeobject import FROM_THE_END
from ckmlir.mlir import set_backend_option
from ckmlir.targets import get_target

COUNT = 160
"""Elements of a thread."""
MANY = 448
"""So many that LLVM is told how to allocate their registers; otherwise it takes 7 to 18 s for each of these kernels."""
FORMS = ("rows", "columns", "ragged")


def shifted(chip: str, form: str, count: int = COUNT) -> Kernel:
    """y = x + 1 of one tile. A thread has a column, a row of a matrix stored by columns, or a row of one by rows."""
    arguments = {"x": ptr("f32", 4), "y": ptr("f32", 4), "long": i32, "wide": i32}
    across = form == "rows"
    shape = (count, 64) if across else (64, count)
    lies = Distribution.parse(f"d0: {count}@y0, d1: 64@lane" if across else f"d0: 64@lane, d1: {count}@y0")

    @kernel("shifted", target=get_target(chip), waves=1, arguments=arguments)
    def traced(x: Pointer, y: Pointer, long: Scalar, wide: Scalar) -> None:
        def window(pointer: Pointer) -> Window:
            lengths = (long, wide) if across else (wide, long)
            strides = {"rows": (wide, 1), "columns": (1, wide), "ragged": (long, 1)}[form]
            return view(pointer, lengths, strides).pad(*shape).window(shape, (0, 0))

        store(load(window(x), lies) + 1, window(y))

    return traced


def check(chip: str, form: str, count: int, most_registers: int, checks: str = "all") -> str:
    """The code of that many elements: it keeps to these registers, without spills, and its numbers are right."""
    long, wide = count - 3, 61
    shape = {"rows": (long, wide), "columns": (long, wide), "ragged": (wide, long)}[form]
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    compiled = compile_traced(shifted(chip, form, count))
    (found,) = CodeObject.parse(compiled.hsaco).kernels.values()
    assert found.metadata.vgpr_count <= most_registers and compiled.spills == 0
    _, y, *_ = compiled.run(x, np.zeros_like(x), np.int32(long), np.int32(wide), checks=checks)
    np.testing.assert_array_equal(y, x + 1)
    return compiled.assembly


@pytest.mark.one_in(8)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chip", CHIPS)
def test_registers_hold_elements_and_not_their_offsets(chip: str, form: str) -> None:
    check(chip, form, COUNT, 256)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "form"), [("gfx90a", "rows"), ("gfx942", "ragged"), ("gfx950", "columns")])
def test_registers_of_hundreds_of_elements_are_taken_from_the_end(chip: str, form: str) -> None:
    """The allocator then begins with what is stored last, so that each load has the register before the last one's."""
    if not in_child_process(lambda: b"set" * set_backend_option(FROM_THE_END, True)).content:
        pytest.skip("these bindings cannot set LLVM's options")
    code = check(chip, form, MANY, 512, "memory,wait")
    registers = [int(number) for number in re.findall(r"buffer_load_dword [av](\d+)", code)]
    falling = sum(after == before - 1 for before, after in pairwise(registers))
    assert len(registers) == MANY and falling > MANY // 2
