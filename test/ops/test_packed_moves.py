"""Elements of 4 and 6 bits that move: the dimension along which they share bytes stays, or becomes another."""

import random
from typing import Any

import numpy as np
import pytest
from checked_runs import compiled
from operator_runner import CHIPS, checked

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import PACKED_TYPES, find_dtype
from ckmlir.ops.packing import pack_codes, unpack_codes, unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.targets import get_target

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("transpose2d", "gfx942", {"dtype": "fp4", "m": 200, "n": 130, "stride": 140, "ystride": 210}),
    ("transpose2d", "gfx90a", {"dtype": "fp6", "m": 132, "n": 260}),
    ("transpose2d", "gfx950", {"dtype": "u4", "m": 1000, "n": 2}),
    ("batched_transpose", "gfx950", {"dtype": "bf6", "layout": "NHWC", "n": 2, "c": 36, "h": 3, "w": 4}),
    ("batched_transpose", "gfx90a", {"dtype": "i4", "n": 3, "c": 6, "h": 5, "w": 10}),
    ("copy", "gfx942", {"dtype": "fp6", "m": 33, "n": 44, "stride": 52, "ystride": 48, "align": 1}),
    ("permute", "gfx90a", {"dtype": "fp4", "shape": "6x10x14", "perm": "1x0x2", "strides": "200x20x1"}),
    ("permute", "gfx950", {"dtype": "i4", "shape": "6x10x14", "perm": "2x0x1"}),
    ("permute", "gfx942", {"dtype": "bf6", "shape": "4x3x5x8x2x4", "perm": "5x3x1x2x4x0"}),
    ("permute", "gfx942", {"dtype": "fp4", "shape": "0x4"}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "chip", "keys"), CASES)
def test_moves(name: str, chip: str, keys: dict[str, Any]) -> None:
    checked(name, chip, keys)


def drawn(seed: int) -> tuple[str, dict[str, Any]]:
    """A permutation of some dimensions that fills bytes on both sides."""
    chosen = random.Random(seed)
    dtype, rank = chosen.choice(PACKED_TYPES), chosen.randint(2, 5)
    packing = find_dtype(dtype).packing
    assert packing is not None
    order = chosen.sample(range(rank), rank)
    shape = [chosen.choice((1, 2, 3, 5, 8, 17)) for _ in range(rank)]
    for dim in (rank - 1, order[-1]):
        shape[dim] = packing.elements * chosen.choice((1, 2, 5, 16, 33))
    words = {"shape": "x".join(map(str, shape)), "perm": "x".join(map(str, order))}
    return chosen.choice(CHIPS), {"dtype": dtype, "align": chosen.choice((1, 4, 16)), **words}


@pytest.mark.parametrize("seed", [pytest.param(one, marks=[] if one < 6 else pytest.mark.full) for one in range(120)])
def test_any_permutation(seed: int) -> None:
    chip, keys = drawn(seed)
    checked("permute", chip, keys)


@pytest.mark.parametrize("dtype", ["fp4", "fp6"])
def test_codes_move_unchanged(dtype: str) -> None:
    """Every pair of codes at every place of a byte, negative zeros among them."""
    operator, target, count = find_operator("transpose2d"), get_target("gfx942"), 1 << find_dtype(dtype).bits
    codes = (np.arange(count)[:, None] * 3 + np.arange(4 * count)[None, :] * 5).astype(np.uint8) % count
    problem = operator.problem(m=count, n=4 * count, dtype=dtype)
    result = run_operator(operator, problem, {"x": pack_codes(codes, dtype)}, target, open_device("sim", target))
    np.testing.assert_array_equal(unpack_codes(result.outputs["y"], dtype), codes.T)


@pytest.mark.parametrize("dtype", ["fp4", "bf6"])
def test_rows_and_channels_move_as_bytes(dtype: str) -> None:
    """What gathers rows, or pieces of channels, need not know what they hold."""
    target, codes = get_target("gfx942"), np.random.default_rng(1).integers(0, 16, (60, 16), np.uint8)
    bytes_ = pack_codes(codes, dtype).view(np.int8)
    gather, ids = find_operator("gather_rows"), np.array([7, 7, 0, 59, 12], np.int32)
    problem = gather.problem(rows=60, m=5, n=bytes_.shape[1], dtype="i8")
    found = run_operator(gather, problem, {"table": bytes_, "ids": ids}, target, open_device("sim", target))
    np.testing.assert_array_equal(unpack_codes(found.outputs["y"].view(np.uint8), dtype), codes[ids])
    moves = find_operator("img2col")
    problem = moves.problem(n=1, image="6x10", c=bytes_.shape[1], window="2x2", pads="0x0", dtype="i8")
    (image,) = (one for one in moves.arrays(problem) if one.role == "in")
    found = run_operator(moves, problem, {image.name: bytes_.reshape(image.shape)}, target, open_device("sim", target))
    (columns,) = found.outputs.values()
    held = unpack_codes(columns.view(np.uint8).reshape(-1, bytes_.shape[1]), dtype).reshape(5, 9, 2, 2, 16)
    places = codes.reshape(6, 10, 16)
    wanted = np.stack([places[y : y + 5, x : x + 9] for y in range(2) for x in range(2)], 2)
    np.testing.assert_array_equal(held, wanted.reshape(held.shape))


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("permute", {"dtype": "fp6", "shape": "4x8", "perm": "1x0", "strides": "0x1"}, "rows of fp6 do not repeat"),
    ("permute", {"dtype": "fp6", "shape": "3x8", "perm": "1x0"}, "y: fp6 fills bytes with 4 elements along the last"),
    ("permute", {"dtype": "fp4", "shape": "4x8", "strides": "1x4"}, "x: fp4 shares bytes with its neighbours, which"),
    ("transpose2d", {"dtype": "i4", "m": 4, "n": 9}, "x: i4 fills bytes with 2 elements along the last dimension"),
    ("copy", {"dtype": "fp4", "through": "direct"}, "through=direct: elements of fp4 share bytes; expected none"),
    ("cast", {"dtype": "fp4", "shape": "4x8", "strides": "0x1"}, "array x: rows of fp4 do not repeat"),
])  # fmt: skip
def test_what_is_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        find_operator(name).problem(**keys)
    assert words in str(refused.value) and "expected" in str(refused.value)


@pytest.mark.parametrize(
    ("chip", "dtype", "unsigned", "most"),
    [
        ("gfx90a", "bf16", 0, 90), ("gfx942", "bf16", 0, 71), ("gfx942", "bf16", 1, 69), ("gfx950", "bf16", 0, 70),
        ("gfx950", "bf16", 1, 53), ("gfx942", "f16", 0, 59), ("gfx942", "f16", 1, 59),
        ("gfx90a", "f16", 1, 60),
    ],
)  # fmt: skip
def test_integers_become_floats_in_few_instructions(chip: str, dtype: str, unsigned: int, most: int) -> None:
    """Of 32 integers a work-item, with some ten instructions for where they lie. Nothing is rounded to bf16, where
    chips without an instruction that does took 3.6 for each; two become f32 at once where there is fp8."""
    keys = (("shape", (64, 512)), ("dtype", dtype), ("unsigned", unsigned))
    assert _vector_instructions("unpack_int4", keys, chip) <= most


@pytest.mark.parametrize(
    ("chip", "dtype", "most"), [("gfx90a", "i4", 90), ("gfx942", "i4", 71), ("gfx942", "fp4", 165)]
)
def test_packed_elements_become_bf16_without_rounding(chip: str, dtype: str, most: int) -> None:
    """As `cast` has it, whose elements could be any by its type: four instructions fewer for each."""
    assert _vector_instructions("cast", (("shape", (64, 512)), ("dtype", dtype), ("out", "bf16")), chip) <= most


def _vector_instructions(name: str, keys: tuple[tuple[str, Any], ...], chip: str) -> int:
    return sum(found.mnemonic.startswith("v_") for found in compiled(name, keys, chip).instructions)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("out", ["bf16", "f32"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["fp4", "fp6", "bf6", "i4"])
def test_every_code_becomes_its_number(dtype: str, chip: str, out: str) -> None:
    """Exactly: in any place of a word, and behind the last whole one."""
    operator, target, count = find_operator("cast"), get_target(chip), 1 << find_dtype(dtype).bits
    problem = operator.problem(shape=(count + 1, 72), dtype=dtype, out=out)
    codes = (np.arange(count + 1)[:, None] + np.arange(72)[None, :] * 5).astype(np.uint8) % count
    x = pack_codes(codes, dtype)
    found = run_operator(operator, problem, {"x": x}, target, open_device("sim", target)).outputs["y"]
    np.testing.assert_array_equal(found.astype(np.float64), unpack_values(x, dtype).astype(np.float64))
