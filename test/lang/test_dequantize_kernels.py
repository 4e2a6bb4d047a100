"""fp4 times one scale for all that a lane has: each code with powers of two and other scales, bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.lang import Kernel, dequantize, kernel, load, ptr, store, stretch, view, workgroup_id
from ckmlir.targets import get_target

NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
ROWS = 256
EXTREME = [0.0, -0.0, -1.0, 1e-45, 2.0**-126, -(2.0**-133), 1.17549435e-38, 1 / 3, 2.0**97, -(2.0**97)]
"""What is beyond 2^100 is not promised in bf16."""


def kernel_of(chip: str, element: str, scale: str, size: int) -> Kernel:
    """Rows of so many bytes, one a lane."""
    lies = Distribution.parse(f"d0: 64@lane, d1: {size}@y0")
    arguments = {"q": ptr("i8", 16), "s": ptr(scale, 4), "y": ptr(element, 16)}

    @kernel("dequantized", target=get_target(chip), waves=1, arguments=arguments)
    def dequantized(given: Any) -> None:
        row = workgroup_id(0) * 64
        q = load(view(given.q, (ROWS, size), (size, 1)).window((64, size), (row, 0)), lies)
        s = load(view(given.s, (ROWS,), (1,)).window((64,), (row,)))
        wide = 2 * size
        y = dequantize(q, "fp4", element, scales=stretch(s, 1, wide))
        store(y, view(given.y, (ROWS, wide), (wide, 1)).window((64, wide), (row, 0)))

    return dequantized


def scales_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """As memory holds them, and as f32; of powers of two the last is NaN."""
    if name == "e8m0":
        codes = np.arange(ROWS, dtype=np.uint8)
        return codes, codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    random = np.random.default_rng(3)
    found = np.ldexp(random.uniform(-1, 1, ROWS), random.integers(-140, 97, ROWS)).astype(np.float32)
    found[: len(EXTREME)] = EXTREME
    found = found.astype(DTYPES[name])
    return found, found.astype(np.float32)


@pytest.mark.parametrize("scale", ["e8m0", "f32", "bf16"])
@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("chip", CHIPS)
def test_each_code(chip: str, element: str, scale: str) -> None:
    """With eight elements of a lane and with so many that their products are looked up."""
    given, scales = scales_of(scale)
    for size in (4, 16):
        q = (np.arange(ROWS)[:, None] * 7 + np.arange(size) * 17).astype(np.uint8)
        y = np.zeros((ROWS, 2 * size), DTYPES[element])
        found = compile_traced(kernel_of(chip, element, scale, size)).run(q, given, y, grid=(ROWS // 64, 1, 1))[-1]
        codes = np.stack([q & 15, q >> 4], -1).reshape(ROWS, -1)
        with np.errstate(all="ignore"):
            wanted = (NUMBERS[codes].astype(np.float32) * scales[:, None]).astype(DTYPES[element])
        if scale == "e8m0":
            assert np.isnan(found[-1].astype(np.float32)).all()
            found, wanted = found[:-1], wanted[:-1]
        bits, exact = found.view(np.uint16), wanted.view(np.uint16)
        by_arithmetic = element == "bf16" and scale != "e8m0" and chip != "gfx950"
        tiny = (np.abs(wanted.astype(np.float32)) < 2.0**-126) & by_arithmetic
        assert (np.abs(bits.astype(int) - exact) <= tiny).all()  # arithmetic rounds denormals once more
