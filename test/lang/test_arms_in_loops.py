"""A choice between two arms in a loop is one branch of machine code, not one for each arm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, atomic_add, i32, kernel, load, loop, ptr, store, view, when
from ckmlir.lowering.child_process import in_child_process
from ckmlir.lowering.codeobject import KEEP_CHOICES
from ckmlir.mlir import set_backend_option
from ckmlir.targets import get_target

LIES = Distribution.parse("d0: 64@lane")


def choosing_kernel(chip: str, *, arms: int = 2) -> Kernel:
    """x is added to y in rows from `low` to before `high`; with two arms the others become x."""

    @kernel("choosing", target=get_target(chip), waves=1,
            arguments={"x": ptr("f32"), "y": ptr("f32"), "n": i32, "low": i32, "high": i32})  # fmt: skip
    def traced(given: Any) -> None:
        x, y = (view(pointer, (given.n,), (1,)) for pointer in (given.x, given.y))
        with loop(0, given.n, 64) as step:
            tile = load(x.window((64,), (step.index,)), LIES)
            place = y.window((64,), (step.index,))
            with when((step.index - given.low).below(given.high - given.low)) as inside:
                atomic_add(tile, place)
            if arms > 1:
                with inside.otherwise():
                    store(tile, place)

    return traced


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_one_branch_decides(chip: str) -> None:
    """Past the loop, back to its begin, and the choice; LLVM would have two for that."""
    if not in_child_process(lambda: b"set" * set_backend_option(KEEP_CHOICES, True)).content:
        pytest.skip("these bindings cannot set LLVM's options")
    compiled = compile_traced(choosing_kernel(chip))
    assert compiled.assembly.count("s_cbranch") == 3
    x = np.arange(320, dtype=np.float32)
    _, y, *_ = compiled.run(x, np.ones_like(x), 320, 64, 192, checks="all")
    np.testing.assert_array_equal(y, np.where((x >= 64) & (x < 192), x + 1, x))


def test_kernels_without_such_choices_are_compiled_as_they_were() -> None:
    """In this process, which has no option of LLVM set."""
    compiled = compile_traced(choosing_kernel("gfx942", arms=1))
    assert compiled.assembly.count("s_cbranch") == 3
    x = np.arange(128, dtype=np.float32)
    _, y, *_ = compiled.run(x, np.ones_like(x), 128, 64, 128, checks="all")
    np.testing.assert_array_equal(y, np.where(x >= 64, x + 1, 1))
