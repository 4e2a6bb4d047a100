"""Elements of four and six bits: the whole code space both ways, by NumPy and by kernels on every chip, arrays of their
bytes at strides and addresses, and what is refused.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import CHIPS

from ckmlir import nn
from ckmlir.ops import find_operator
from ckmlir.ops.packing import pack_codes, pack_values, unpack_codes, unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

KINDS: dict[str, Any] = {
    "fp4": ml_dtypes.float4_e2m1fn,
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}
BITS = {"fp4": 4, "fp6": 6, "bf6": 6, "i4": 4, "u4": 4}
INTEGERS = {"i4": (-8, 7), "u4": (0, 15)}
"""The least and the largest."""
formats = pytest.mark.parametrize("dtype", KINDS)
chips = pytest.mark.parametrize("chip", CHIPS)


def run(chip: str, keys: dict[str, object], x: Any = None) -> Any:
    """The output of a cast, which agrees with its reference under all checkers; of x, or of inputs of its own."""
    operator, target = find_operator("cast"), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target, seed=3) if x is None else {"x": x}
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    (found,) = check_outputs(operator, problem, arrays, result.outputs, target)
    assert found.ok, str(found)
    return result.outputs["y"]


def numbers_of(dtype: str) -> Any:
    """Every number of a format, by its code: the definition of OCP Microscaling Formats, 5.3; integers."""
    if dtype == "i4":
        return np.array([*range(8), *range(-8, 0)], np.float32)
    if dtype == "u4":
        return np.arange(16, dtype=np.float32)
    mantissa, bias = {"fp4": (1, 1), "fp6": (3, 1), "bf6": (2, 3)}[dtype]
    found = []
    for code in range(1 << BITS[dtype]):
        sign, size = divmod(code, 1 << (BITS[dtype] - 1))
        exponent, fraction = divmod(size, 1 << mantissa)
        value = (fraction + (exponent > 0) * (1 << mantissa)) * 2.0 ** (max(exponent, 1) - bias - mantissa)
        found.append(-value if sign else value)
    return np.array(found, np.float32)


def between(dtype: str) -> Any:
    """Numbers on, halfway between, and next to halfway between those of a format; too large ones, and infinities."""
    exact = np.unique(np.abs(numbers_of(dtype)))
    halves = (exact[1:] + exact[:-1]) / 2
    near = [np.nextafter(halves, np.float32(end)) for end in (0, np.inf)]
    ends = np.array([exact[-1] * 1.01, exact[-1] * 1.5, 1e9, 3e38, np.inf, 1e-30, 1e-40, 1e-45], np.float32)
    sizes = np.concatenate([exact, halves, *near, ends]).astype(np.float32)
    sizes = np.concatenate([sizes, np.zeros(-len(sizes) % 4, np.float32)])
    return np.stack([sizes, -sizes])


@formats
def test_numpy_knows_the_formats(dtype: str) -> None:
    codes = np.arange(1 << BITS[dtype], dtype=np.uint8).reshape(4, -1)
    packed = pack_codes(codes, dtype)
    whole = sum(int(code) << (BITS[dtype] * place) for place, code in enumerate(codes[1]))
    assert packed[1].tobytes() == whole.to_bytes(packed.shape[1], "little")
    assert (unpack_codes(packed, dtype) == codes).all()
    numbers = unpack_values(packed, dtype)
    assert numbers.tobytes() == numbers_of(dtype).tobytes()
    assert (pack_values(numbers, dtype) == packed).all()
    assert pack_values(np.zeros((0, 8)), dtype).shape == (0, BITS[dtype])


@pytest.mark.one_in(12)
@formats
@chips
def test_every_code_both_ways(dtype: str, chip: str) -> None:
    codes = np.tile(np.arange(1 << BITS[dtype], dtype=np.uint8), (3, 4))
    packed = pack_codes(codes, dtype)
    for wide in ("f32", "bf16"):
        numbers = run(chip, {"shape": codes.shape, "dtype": dtype, "out": wide}, packed)
        assert np.array_equal(numbers.astype(np.float32), numbers_of(dtype)[codes])
        assert np.array_equal(np.signbit(numbers.astype(np.float32)), np.signbit(numbers_of(dtype)[codes]))
        assert np.array_equal(run(chip, {"shape": codes.shape, "dtype": wide, "out": dtype}, numbers), packed)


@pytest.mark.parametrize("dtype", INTEGERS)
@chips
def test_every_pair_of_integers_in_f16(dtype: str, chip: str) -> None:
    operator, target = find_operator("unpack_int4"), get_target(chip)
    problem = operator.problem(shape=(512,), dtype="f16", unsigned=int(dtype == "u4"))
    x = np.arange(256, dtype=np.uint8)
    y = run_operator(operator, problem, {"x": x.view(np.int8)}, target, open_device("sim", target)).outputs["y"]
    assert y.tobytes() == unpack_values(x, dtype).astype(np.float16).tobytes()


@formats
@chips
def test_ties_go_to_even_and_what_is_large_saturates(dtype: str, chip: str) -> None:
    x = between(dtype)
    y = run(chip, {"shape": x.shape, "dtype": "f32", "out": dtype}, x)
    exact = np.unique(np.abs(numbers_of(dtype)[: 1 << (BITS[dtype] - (dtype != "u4"))])).astype(np.float64)
    size = np.minimum(np.abs(x[0]).astype(np.float64), exact[-1])
    distance = np.abs(exact[None, :] - size[:, None])
    nearest = [min(range(len(exact)), key=lambda code: (row[code], code & 1)) for row in distance]
    assert (unpack_codes(y, dtype)[0] == nearest).all()
    if dtype in INTEGERS:
        assert (unpack_values(y, dtype)[1] == np.clip(np.rint(x[1]), *INTEGERS[dtype])).all()
    else:
        assert (unpack_codes(y, dtype)[1] == np.array(nearest) + len(exact)).all()


CASES: list[tuple[str, str, dict[str, object]]] = [
    ("f16", "fp4", {"shape": (7, 130)}),
    ("fp4", "f16", {"shape": (1, 2)}),
    ("i32", "fp6", {"shape": (5, 12)}),
    ("bf6", "i8", {"shape": (3, 4, 100)}),
    ("fp4", "fp6", {"shape": (9, 44)}),
    ("f32", "fp4", {"shape": (3, 5, 40), "strides": (400, 48, 1), "ystrides": (40, 120, 1), "align": 4}),
    ("fp4", "f32", {"shape": (3, 5, 40), "strides": (42, 400, 1), "ystrides": (440, 44, 1), "align": 4}),
    ("fp6", "f16", {"shape": (3, 5, 40), "strides": (44, 400, 1), "align": 2}),
    ("fp4", "fp4", {"shape": (0, 6)}),
    ("bf16", "bf6", {"shape": (6, 0)}),
    ("i4", "i8", {"shape": (3, 70)}),
    ("i32", "i4", {"shape": (3, 70)}),
    ("fp6", "i4", {"shape": (3, 5, 40), "strides": (44, 400, 1), "align": 2}),
    ("u4", "i4", {"shape": (3, 70)}),
    ("i32", "u4", {"shape": (3, 70)}),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("dtype", "out", "keys"), CASES)
def test_arrays_of_bytes(dtype: str, out: str, keys: dict[str, object]) -> None:
    for chip in ("gfx90a", "gfx950"):
        run(chip, {"dtype": dtype, "out": out, **keys})


@pytest.mark.full
@chips
@formats
@pytest.mark.parametrize("other", ["f16", "bf16", "f32", "i8", "i32", *KINDS])
def test_all_pairs(dtype: str, other: str, chip: str) -> None:
    for shape in ((3, 1024), (5, 36), (257, 4), (1, 20)):
        run(chip, {"dtype": dtype, "out": other, "shape": shape})
        run(chip, {"dtype": other, "out": dtype, "shape": shape})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"out": "fp4", "shape": (4, 5)}, "y: fp4 fills bytes with 2 elements along the last dimension, which has 5"),
        ({"dtype": "fp6", "shape": (4, 6)}, "x: fp6 fills bytes with 4 elements along the last dimension, which has 6"),
        ({"out": "fp4", "shape": (4, 6), "ystrides": (7, 1)}, "rows of fp4 begin with a byte"),
        ({"out": "fp4", "shape": (4, 6), "strides": (1, 4)}, "follow each other in both arrays, not 4 apart"),
    ],
)
def test_what_does_not_fill_bytes_is_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words.replace("(", r"\(")):
        find_operator("cast").problem(**keys)


def test_functions_of_arrays() -> None:
    with nn.Session("gfx950"):
        x = np.linspace(-7, 7, 96, dtype=np.float32).reshape(3, 32)
        for dtype, kind in KINDS.items():
            packed = nn.cast(x, dtype)
            rounded = np.clip(np.rint(x), *INTEGERS[dtype]) if dtype in INTEGERS else x.astype(kind)
            assert packed.dtype == np.uint8
            assert packed.shape == (3, 4 * BITS[dtype])
            assert np.array_equal(nn.cast(packed, "f16", packed=dtype), rounded.astype(np.float16))
        with pytest.raises(DeviceError, match="bytes may hold fp4, fp6, bf6, i4, u4; say which"):
            nn.cast(packed, "f32")
        with pytest.raises(DeviceError, match="fp4 lies in bytes, uint8, not in float32"):
            nn.cast(x, "f32", packed="fp4")
