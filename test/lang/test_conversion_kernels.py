"""Conversions between element types give the nearest value, ties to even; integers and 8-bit floats saturate;
NaN stays NaN, or is the integer 0.

Every f16, bf16, i8, i16 and 8-bit value is converted; from f32 and f64, values that lie on, between and next to the
results', and from i32 and i64 some around the ends of all integers.
"""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import cast, i32, kernel, load, loop, ptr, stage, store, view, workgroup_id
from ckmlir.ops.dtypes import numpy_dtype as operators_dtype
from ckmlir.targets import get_target

TILE = 512
FLOATS, INTEGERS = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64")
PAIRS = [
    (source, result)
    for source in (*FLOATS, "fp8", "bf8", *INTEGERS)
    for result in (*FLOATS, "fp8", "bf8", *INTEGERS)
    if source != result and not (source in ("f64", "i16", "i32", "i64") and result in ("fp8", "bf8"))
]


def numpy_dtype(name: str, target: Any) -> Any:
    """NumPy's name of a dtype: operators know no i16."""
    return np.int16 if name == "i16" else operators_dtype(name, target)


def values(dtype: str, target: Any) -> np.ndarray:
    """Every value of a narrow type; of f32 and i32 a selection around all interesting ones."""
    made = numpy_dtype(dtype, target)
    bits = np.dtype(made).itemsize * 8
    if bits <= 16:
        return np.arange(1 << bits).astype(f"u{bits // 8}").view(made)
    if dtype in ("i32", "i64"):
        bounds = np.iinfo(made)
        ends = [2**24 + 1, 255, *(sign * 2**power for power in (7, 15, 31) for sign in (1, -1)), bounds.max, bounds.min]
        near = [end + step for end in ends for step in (-1, 0, 1) if bounds.min <= end + step <= bounds.max]
        return np.concatenate([np.array(near, made), np.arange(-4000, 4000, dtype=made)])
    if dtype == "f64":
        return _of_f64()
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


def _of_f64() -> np.ndarray:
    """All of f32's, what lies halfway between neighbours of narrower types and just beside it, and the ends of i64."""
    with np.errstate(invalid="ignore"):  # of NaN that signal
        singles = values("f32", get_target("gfx942")).astype(np.float64)
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (halves[:-1] + halves[1:]) / 2
    ends = np.array([s * (2.0**power + step) for power in (15, 31, 63) for s in (1, -1) for step in (-1, -0.5, 0, 0.5)])
    with np.errstate(all="ignore"):
        beside = [np.nextafter(middles, end) for end in (np.inf, -np.inf)]
        return np.concatenate([singles, middles, *beside, ends, 2.5 + np.arange(99), np.array([1e308, -1e308, 5e-324])])


def _odd_f32(wide: np.ndarray) -> np.ndarray:
    """f64 towards zero to f32, whose last bit then says whether anything was left: so it may be rounded once more."""
    near = wide.astype(np.float32)
    down = np.where(np.abs(near) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
    return np.where(down == wide, down, (down.view(np.uint32) | 1).view(np.float32)).astype(np.float32)


def expected(source: np.ndarray, result: Any) -> np.ndarray:
    """What the conversion should give, through f64, which holds every source exactly."""
    kind = np.dtype(result)
    with np.errstate(all="ignore"):
        if kind.kind == "i":
            bounds = np.iinfo(kind)
            if source.dtype.kind == "i":
                return np.clip(source, bounds.min, bounds.max).astype(kind)
            wide = np.where(np.isnan(source), 0, np.rint(source.astype(np.float64)))
            beyond = wide >= float(bounds.max)  # of i64, its largest number is none of f64's
            inner = np.clip(np.where(beyond, 0, wide), float(bounds.min), None)
            return np.where(beyond, bounds.max, inner.astype(np.int64)).astype(kind)
        if source.dtype.kind == "i" or kind == np.float64:
            return source.astype(np.float32 if kind != np.float64 else kind).astype(result)
        wide = source.astype(np.float64)
        if kind.itemsize == 1:
            largest = float(ml_dtypes.finfo(result).max)
            wide = np.clip(wide, -largest, largest)
        if source.dtype == np.float64 and kind == ml_dtypes.bfloat16:
            return _odd_f32(wide).astype(result)
        return wide.astype(result) if source.dtype == np.float64 else wide.astype(np.float32).astype(result)


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


@pytest.mark.one_in(16)
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


@pytest.mark.parametrize(
    "chip", ["gfx942", *(pytest.param(one, marks=pytest.mark.full) for one in ("gfx90a", "gfx950"))]
)
@pytest.mark.parametrize("factor", [None, 3e-3])
def test_a_conversion_to_f16_in_pieces(chip: str, factor: float | None) -> None:
    """By a multiply-add, also of a product: what f32 and then f16 round it to, with denormals, zeros' signs and NaN."""
    target = get_target(chip)
    given = values("f32", target)
    given = np.concatenate([given, np.zeros(-given.size % TILE, np.float32)])
    factors = np.full_like(given, 1.0 if factor is None else factor)
    count = given.size

    @kernel("convert", target=target, waves=1, arguments={"x": ptr("f32"), "f": ptr("f32"), "y": ptr("f16")})
    def convert(x: Any, f: Any, y: Any) -> None:
        with loop(0, count, TILE, schedule=Schedule.parse("schedule pieces 1; elements 2")) as step, stage("all"):
            tiles = [view(one, (count,), (1,)).window((TILE,), (step.index,)) for one in (x, f, y)]
            tile, other = (load(one, coalesced((TILE,), 1, 0, 4)) for one in tiles[:2])
            store(cast(tile if factor is None else tile * other, "f16"), tiles[2])

    made = compile_traced(convert)
    *_, output = made.run(given.view(np.uint32), factors.view(np.uint32), np.zeros(count, np.uint16))
    with np.errstate(all="ignore"):
        wanted = expected(given * factors, np.dtype(np.float16))
    compare(given, output.view(np.float16), wanted)
    zeros = wanted == 0
    np.testing.assert_array_equal(np.signbit(output.view(np.float16)[zeros]), np.signbit(wanted[zeros]))
    words = set(made.assembly.split())
    assert ({"v_fma_mixlo_f16", "v_fma_mixhi_f16"} <= words) == (chip != "gfx950")
    assert chip == "gfx950" or not {"v_cvt_f16_f32_e32", "v_pack_b32_f16", "v_pk_mul_f32"} & words


def test_bounded_rounding_is_to_nearest_even() -> None:
    """Of every fraction of 24 bits the two multiply-adds of the lowering give what rounding to 8 bits does."""
    x = np.arange(1 << 23, 1 << 24, dtype=np.float64)  # float64 holds the exact products
    down = (x * 65536 - x).astype(np.float32).astype(np.float64)
    rounded = (x * 65536 - down).astype(np.float32)
    np.testing.assert_array_equal(rounded, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.asarray(array != array)


def _both_zero(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Zeros of either sign: a format without negative zero has one only."""
    return np.asarray((left == 0) & (right == 0))
