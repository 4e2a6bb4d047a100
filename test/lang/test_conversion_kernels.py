"""Conversions between element types give the nearest value, ties to even; integers and 8-bit floats saturate;
NaN stays NaN, or is the integer 0.

Every f16, bf16, i8 and 8-bit value is converted; from f32, values that lie on, between and next to the results'.
"""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import cast, i32, kernel, load, ptr, store, view, workgroup_id
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.targets import get_target

TILE = 512
FLOATS = ("f16", "bf16", "f32")
PAIRS = [
    (source, result)
    for source in (*FLOATS, "fp8", "bf8", "i8", "i32")
    for result in (*FLOATS, "fp8", "bf8", "i8")
    if source != result and not (source == "i32" and result in ("fp8", "bf8"))
]
PAIRS += [(source, "i32") for source in FLOATS]


def values(dtype: str, target: Any) -> np.ndarray:
    """Every value of a narrow type; of f32 and i32 a selection around all interesting ones."""
    made = numpy_dtype(dtype, target)
    bits = np.dtype(made).itemsize * 8
    if bits <= 16:
        return np.arange(1 << bits).astype(f"u{bits // 8}").view(made)
    if dtype == "i32":
        near = np.array([-(2**31), 2**31 - 1, 0, 127, 128, -128, -129, 255, 2**24 + 1])
        return np.concatenate([near, np.arange(-4000, 4000)]).astype(np.int32)
    whole = [0.0, -0.0, 127.5, -128.5, 126.5, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]
    special = np.array(whole, np.float32)
    kinds = (np.float16, ml_dtypes.bfloat16)
    narrow = [np.arange(1 << 16).astype(np.uint16).view(kind).astype(np.float32) for kind in kinds]
    narrow += [np.arange(1 << 8).astype(np.uint8).view(numpy_dtype(kind, get_target("gfx942"))).astype(np.float32)
               for kind in ("fp8", "bf8")]  # fmt: skip
    payloads = np.array([0x7F800001, 0xFF800001, 0x7F80FFFF, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    exact = np.concatenate([special, payloads, *narrow])  # NaN that rounding would carry to infinity or to zero
    with np.errstate(all="ignore"):
        neighbours = [np.nextafter(exact, np.float32(end)) for end in (np.inf, -np.inf)]
        between = (exact[:-1] / 2 + exact[1:] / 2).astype(np.float32)  # halfway between neighbours of a narrow type
    return np.concatenate([exact, *neighbours, between])


def expected(source: np.ndarray, result: Any) -> np.ndarray:
    """What the conversion should give, through f64, which holds every source exactly."""
    kind = np.dtype(result)
    with np.errstate(all="ignore"):
        wide = source.astype(np.float64)
        if kind == np.int8:
            return np.where(np.isnan(wide), 0, np.clip(np.rint(wide), -128, 127)).astype(np.int8)
        if kind == np.int32:
            return np.where(np.isnan(wide), 0, np.clip(np.rint(wide), -(2**31), 2**31 - 1)).astype(np.int32)
        if kind.itemsize == 1:
            largest = float(ml_dtypes.finfo(result).max)
            wide = np.clip(wide, -largest, largest)
        return wide.astype(np.float32).astype(result)


CASES = [
    (chip, source, result)
    for chip in CHIPS
    for source, result in PAIRS
    if get_target(chip).fp8 is not None or not {"fp8", "bf8"} & {source, result}
]


def convert_on(chip: str, given: np.ndarray, source: str, result: str, *, bounded: bool = False) -> np.ndarray:
    """Values cast in a kernel."""
    target = get_target(chip)

    @kernel("convert", target=target, waves=1, arguments={"x": ptr(source), "y": ptr(result), "n": i32})
    def convert(x: Any, y: Any, n: Any) -> None:
        start = workgroup_id(0) * TILE
        tile = load(view(x, (n,), (1,)).pad(TILE).window((TILE,), (start,)), coalesced((TILE,), 1, 0, 4))
        store(cast(tile, result, bounded=bounded), view(y, (n,), (1,)).pad(TILE).window((TILE,), (start,)))

    made = np.dtype(numpy_dtype(result, target))
    raw = given.view(f"u{given.dtype.itemsize}")
    output = np.zeros(given.size, f"u{made.itemsize}")
    _, output = compile_traced(convert).run(raw, output, given.size, grid=(-(-given.size // TILE), 1, 1))
    return output.view(made)


def compare(given: np.ndarray, got: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, or both NaN, or both zero."""
    raw = f"u{wanted.dtype.itemsize}"
    same = (got.view(raw) == wanted.view(raw)) | (_is_nan(got) & _is_nan(wanted)) | _both_zero(got, wanted)
    wrong = np.flatnonzero(~same)
    assert not wrong.size, f"{wrong.size} wrong, e.g. {given[wrong[:4]]} gave {got[wrong[:4]]}, not {wanted[wrong[:4]]}"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "source", "result"), CASES)
def test_conversion(chip: str, source: str, result: str) -> None:
    """A tile of every value, cast and stored."""
    given = values(source, get_target(chip))
    compare(given, convert_on(chip, given, source, result), expected(given, numpy_dtype(result, get_target(chip))))


@pytest.mark.parametrize(("chip", "result"), [
    *((chip, result) for chip in CHIPS for result in ("bf16", "f16")),
    *((chip, result) for chip in ("gfx942", "gfx950") for result in ("fp8", "bf8")),
])  # fmt: skip
def test_a_bounded_conversion(chip: str, result: str) -> None:
    """Of what is NaN, zero, or from 2^-126 to below 2^100, both signs, and of 8 bits to the largest number: as any
    other."""
    every = values("f32", get_target(chip))
    dtype = numpy_dtype(result, get_target(chip))
    size, most = np.abs(every), float(ml_dtypes.finfo(dtype).max) if dtype.itemsize == 1 else math.inf
    given = every[np.isnan(every) | (every == 0) | ((size >= 2.0**-126) & (size < 2.0**100) & (size <= most))]
    assert np.isnan(given).sum() > 8
    got = convert_on(chip, given, "f32", result, bounded=True)
    compare(given, got, expected(given, dtype))


def test_bounded_rounding_is_to_nearest_even() -> None:
    """Of every fraction of 24 bits the two multiply-adds of the lowering give what rounding to 8 bits does."""
    x = np.arange(1 << 23, 1 << 24, dtype=np.float64)  # float64 holds the exact products
    down = (x * 65536 - x).astype(np.float32).astype(np.float64)
    rounded = (x * 65536 - down).astype(np.float32)
    np.testing.assert_array_equal(rounded, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array.astype(np.float32))


def _both_zero(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Zeros of either sign: a format without negative zero has one only."""
    return (left.astype(np.float32) == 0) & (right.astype(np.float32) == 0)
