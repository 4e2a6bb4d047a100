"""Tiles of which a thread loads and stores very many elements by themselves: no offset is kept beside an element."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, Pointer, Scalar, Window, i32, kernel, load, ptr, store, view
from ckmlir.targets import get_target

COUNT = 160
"""Elements of a thread; twice as many registers made LLVM's allocator take 2 s, and 320 elements minutes."""
FORMS = ("rows", "columns", "ragged")


def shifted(chip: str, form: str) -> Kernel:
    """y = x + 1 of one tile. A thread has a column, a row of a matrix stored by columns, or a row of one by rows."""
    arguments = {"x": ptr("f32", 4), "y": ptr("f32", 4), "long": i32, "wide": i32}
    across = form == "rows"
    shape = (COUNT, 64) if across else (64, COUNT)
    lies = Distribution.parse(f"d0: {COUNT}@y0, d1: 64@lane" if across else f"d0: 64@lane, d1: {COUNT}@y0")

    @kernel("shifted", target=get_target(chip), waves=1, arguments=arguments)
    def traced(x: Pointer, y: Pointer, long: Scalar, wide: Scalar) -> None:
        def window(pointer: Pointer) -> Window:
            lengths = (long, wide) if across else (wide, long)
            strides = {"rows": (wide, 1), "columns": (1, wide), "ragged": (long, 1)}[form]
            return view(pointer, lengths, strides).pad(*shape).window(shape, (0, 0))

        store(load(window(x), lies) + 1, window(y))

    return traced


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chip", CHIPS)
def test_registers_hold_elements_and_not_their_offsets(chip: str, form: str) -> None:
    long, wide = COUNT - 3, 61
    shape = {"rows": (long, wide), "columns": (long, wide), "ragged": (wide, long)}[form]
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    compiled = compile_traced(shifted(chip, form))
    (found,) = CodeObject.parse(compiled.hsaco).kernels.values()
    assert found.metadata.vgpr_count <= 256 and compiled.spills == 0
    _, y, *_ = compiled.run(x, np.zeros_like(x), np.int32(long), np.int32(wide), checks="all")
    np.testing.assert_array_equal(y, x + 1)
