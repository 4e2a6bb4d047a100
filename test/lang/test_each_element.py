"""A function of elements as one operation: the same numbers as the function of tiles, and one operation in the IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import Pointer, Scalar, Tile, bitcast, each_element, f32, kernel, load, ptr, rsqrt, store, view
from ckmlir.targets import get_target

SHAPE = (4, 64)


@pytest.mark.parametrize("chip", CHIPS)
def test_steps_of_each_element_are_one_operation(chip: str) -> None:
    """A power of two from an element's bits, times another tile and a number of the kernel: as the tiles give it."""

    def scaled(a: Any, b: Any, number: Scalar) -> Any:
        power = bitcast((bitcast(a, "i32") & 0x7F800000) - (1 << 23), "f32")
        return rsqrt(power) * b + number

    def traced(steps: bool) -> Any:
        arguments: dict[str, Any] = {"a": ptr("f32"), "b": ptr("f32"), "y": ptr("f32"), "number": f32}

        @kernel("scaled", target=get_target(chip), waves=1, arguments=arguments)
        def body(a: Pointer, b: Pointer, y: Pointer, number: Scalar) -> None:
            def read(pointer: Pointer) -> Tile:
                return load(view(pointer, SHAPE, (64, 1)).window(SHAPE, (0, 0)), rows(4, 64, 1, 4))

            def one(left: Scalar, right: Scalar) -> Scalar:
                found: Scalar = scaled(left, right, number)
                return found

            tiles = read(a), read(b)
            found = each_element(one, *tiles) if steps else scaled(*tiles, number)
            store(found, view(y, SHAPE, (64, 1)).window(SHAPE, (0, 0)))

        return body

    random = np.random.default_rng(1)
    a, b = (random.uniform(1, 100, SHAPE).astype(np.float32) for _ in range(2))
    results = {}
    for steps in (True, False):
        made = traced(steps)
        maps = str(made.module).count('"ck.map"')
        assert (maps == 1) if steps else (maps > 4)
        results[steps] = compile_traced(made).run(a, b, np.zeros(SHAPE, np.float32), np.float32(0.5))[2]
    np.testing.assert_array_equal(results[True], results[False])
    power = 2.0 ** (np.floor(np.log2(a.astype(np.float64))) - 1)
    np.testing.assert_allclose(results[True], b / np.sqrt(power) + 0.5, rtol=1e-6)
