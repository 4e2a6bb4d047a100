"""Products with powers of two as scales: by the matrix instruction where the chip has it, by scaled sums elsewhere."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from checked_runs import compiled
from operator_runner import agree, checked

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.scale_tiles import TILINGS, tile_scales, tiled_shape, untile_scales
from ckmlir.ops.dtypes import PACKED_TYPES, find_dtype, numpy_dtype
from ckmlir.ops.packing import pack_codes, unpack_values
from ckmlir.ops.request import RequestError
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

MX = find_operator("mx_gemm")
RAGGED = {"m": 70, "n": 130, "k": 300}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {"out": "f32"}),
    ("gfx950", {"dtype": "bf8", "a_major": "rows", "b_major": "rows", "mfma": "16x16x128", "ld_scale_a": 80}),
    ("gfx950", {"mfma": "16x16x32", "out": "f16"}),
    ("gfx942", {"schedule": "compv4", "op": "relu(acc) + d0", "d_kind": "row"}),
    ("gfx950", {"shuffled": 32, "schedule": "preshuffle", "k": 70}),
    ("gfx950", {"k": 0}),
    ("gfx950", {"dtype": "fp4"}),
    ("gfx950", {"dtype": "fp4", "b_dtype": "fp8", "k": 256, "op": "relu(acc) + d0", "d_kind": "row"}),
    ("gfx950", {"dtype": "bf8", "b_dtype": "fp4", "k": 384, "ldb": 400, "ld_scale_a": 13, "mfma": "16x16x128"}),
    ("gfx950", {"dtype": "fp6"}),
    ("gfx950", {"dtype": "fp6", "b_dtype": "fp4", "a_major": "rows", "schedule": "compv3", "block": "64x64x128"}),
    ("gfx950", {"dtype": "fp8", "b_dtype": "bf6", "lda": 320, "out": "f32", "schedule": "compv4"}),
    ("gfx950", {"dtype": "fp4", "m": 256, "n": 256, "k": 512, "schedule": "async", "block": "128x128x256"}),
    ("gfx950", {"dtype": "fp4", "m": 1, "n": 1, "k": 2}),
    ("gfx950", {"dtype": "bf6", "k": 0}),
    ("gfx942", {"m": 1, "n": 1, "k": 1}),
    ("gfx942", {"a_major": "tiles", "b_major": "rows", "dtype": "bf8"}),
    ("gfx950", {"dtype": "fp4", "a_major": "tiles", "b_major": "tiles", "ld_scale_a": 192}),
    ("gfx950", {"dtype": "fp6", "a_major": "tiles", "b_major": "tiles", "mfma": "16x16x128"}),
    ("gfx950", {"dtype": "fp6", "b_dtype": "fp4", "shuffled": 16, "k": 600}),
    ("gfx950", {"dtype": "fp4", "a_major": "tiles", "b_major": "tiles", "shuffled": 32, "k": 600}),
    ("gfx950", {"dtype": "fp4", "a_major": "tiles2x2", "b_major": "tiles2x2", "shuffled": 16, "k": 600}),
    ("gfx950", {"a_major": "tiles2x2", "b_major": "tiles2x2", "ld_scale_b": 1024}),
    ("gfx942", {"a_major": "tiles", "b_major": "tiles2x2", "dtype": "bf8"}),
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), [
    pytest.param(*case, marks=[] if number % 2 else pytest.mark.full) for number, case in enumerate(CASES)
])  # fmt: skip
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("mx_gemm", chip, **{**RAGGED, **keys})


CONVERTED: list[tuple[str, dict[str, Any]]] = [
    ("gfx90a", {"dtype": "bf6", "ldb": 320, "m": 33, "n": 40}),
    ("gfx942", {"dtype": "fp6", "b_dtype": "fp8", "b_major": "tiles", "m": 33, "n": 40}),
    ("gfx90a", {"dtype": "fp4", "k": 0}),
    ("gfx942", {"dtype": "fp4", "b_dtype": "bf8", "k": 70, "op": "relu(acc) + d0", "d_kind": "row"}),
    ("gfx942", {"dtype": "fp4", "m": 200, "n": 256, "k": 512, "schedule": "compv4", "out": "f32"}),
    ("gfx942", {"dtype": "fp8", "b_dtype": "fp4", "shuffled": 32}),
]


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys"), CONVERTED)
def test_products_of_what_the_chip_does_not_multiply(chip: str, keys: dict[str, Any]) -> None:
    agree("mx_gemm", chip, **{**RAGGED, **keys})


def run(chip: str, arrays: dict[str, npt.NDArray[Any]], **keys: Any) -> npt.NDArray[Any]:
    """What a product comes to, compared with the reference."""
    target = get_target(chip)
    problem = MX.problem(**keys)
    whole = {**MX.inputs(problem, target, seed=3), **arrays}
    result = run_operator(MX, problem, whole, target, open_device("sim", target))
    assert all(one.ok for one in check_outputs(MX, problem, whole, result.outputs, target))
    found: npt.NDArray[Any] = result.outputs["c"].astype(np.float64)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_every_code_of_a_scale(chip: str) -> None:
    """2^-127, a denormal, to 2^127, and NaN: a row each, against numbers that bring them back into range."""
    target = get_target(chip)
    codes = np.arange(256, dtype=np.uint8)
    other = np.full((16, 1), 127, np.uint8)
    keys = {"m": 256, "n": 16, "k": 1, "out": "f32"}
    ones = {name: np.ones((rows, 1), MX.inputs(MX.problem(**keys), target)[name].dtype) for name, rows in
            (("a", 256), ("b", 16))}  # fmt: skip
    scales = {"scale_a": codes.reshape(256, 1), "scale_b": other}
    found = run(chip, {**ones, **{name: one.view(ml_dtypes.float8_e8m0fnu) for name, one in scales.items()}}, **keys)
    normal = slice(1, 255)
    np.testing.assert_array_equal(found[normal, 0], np.ldexp(1.0, np.arange(1, 255) - 127))
    assert found[0, 0] in (0.0, 2.0**-127) and np.isnan(found[255]).all()


def test_the_instruction_scales() -> None:
    """On gfx950 no other arithmetic does; elsewhere, and where it is asked for, sums are scaled."""
    keys = (("m", 4096), ("n", 4096), ("k", 512))
    scaled = {one.mnemonic for one in compiled("mx_gemm", keys, "gfx950").instructions}
    assert "v_mfma_scale_f32_32x32x64_f8f6f4" in scaled and "v_pk_fma_f32" not in scaled
    asked = {one.mnemonic for one in compiled("mx_gemm", (*keys, ("mfma", (16, 16, 32))), "gfx950").instructions}
    sums = {one.mnemonic for one in compiled("mx_gemm", keys, "gfx942").instructions}
    assert "v_pk_fma_f32" in asked & sums
    metadata = compiled("mx_gemm", keys, "gfx950").kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


TYPES = ("fp8", "bf8", "fp6", "bf6", "fp4")
SHAPES = [("gfx950", "16x16x128"), ("gfx950", "32x32x64"), ("gfx942", None), ("gfx90a", None)]
COMMON = {("gfx950", "16x16x128"): (("fp4", "fp4"), ("bf6", "fp4")), ("gfx950", "32x32x64"): (("fp8", "fp4"),),
          ("gfx942", None): (("bf8", "fp6"),), ("gfx90a", None): ()}  # fmt: skip
"""The pairs that run by default."""
PAIRS = [
    pytest.param(chip, shape, a, b, marks=[] if (a, b) in COMMON[chip, shape] else pytest.mark.full)
    for (chip, shape), a, b in itertools.product(SHAPES, TYPES, TYPES)
    if chip != "gfx90a" or {a, b} <= set(PACKED_TYPES)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "shape", "a", "b"), PAIRS)
def test_every_pair_of_formats_is_exact(chip: str, shape: str | None, a: str, b: str) -> None:
    """Numbers whose products and sums f32 holds, every code of 4 and 6 bits among them, against exact arithmetic."""
    target = get_target(chip)
    size = 64 if chip == "gfx950" else 16
    keys: dict[str, Any] = {"m": size, "n": size, "k": 256, "dtype": a, "b_dtype": b, "out": "f32", "mfma": shape}
    problem = MX.problem(**keys)
    random, arrays = np.random.default_rng(5), {}
    exact = {}
    for name, dtype in (("a", a), ("b", b)):
        codes = np.tile(np.arange(64), 4 * size).reshape(size, 256) * (1 if dtype in PACKED_TYPES else 0)
        codes = random.permuted(codes, axis=1)
        if dtype in PACKED_TYPES:
            arrays[name] = pack_codes((codes % (1 << find_dtype(dtype).bits)).astype(np.uint8), dtype)
            exact[name] = unpack_values(arrays[name], dtype).astype(np.float64)
        else:
            arrays[name] = random.integers(-4, 5, (size, 256)).astype(numpy_dtype(dtype, target))
            exact[name] = arrays[name].astype(np.float64)
        powers = random.integers(-1, 2, (size, 8))
        arrays[f"scale_{name}"] = np.exp2(powers).astype(ml_dtypes.float8_e8m0fnu)
        exact[name] = exact[name] * np.repeat(np.exp2(powers), 32, axis=1)
    result = run_operator(MX, problem, arrays, target, open_device("sim", target, checks="all"))
    np.testing.assert_array_equal(result.outputs["c"].astype(np.float64), exact["a"] @ exact["b"].T)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["fp8", "bf8"])
def test_every_code_of_8_bits_becomes_f16_exactly(dtype: str) -> None:
    """NaN and denormals as well."""
    target = get_target("gfx942")
    codes = np.arange(256, dtype=np.uint8).reshape(256, 1).view(numpy_dtype(dtype, target))
    problem = MX.problem(m=256, n=1, k=2, dtype=dtype, b_dtype="fp4", out="f32")
    arrays = MX.inputs(problem, target, seed=1)
    arrays["a"][:, :1], arrays["a"][:, 1:] = codes, np.zeros_like(codes)
    arrays["b"][:] = 0x22  # 1 and 1
    arrays["scale_a"].view(np.uint8)[:] = arrays["scale_b"].view(np.uint8)[:] = 127
    result = run_operator(MX, problem, arrays, target, open_device("sim", target))
    np.testing.assert_array_equal(result.outputs["c"], codes.astype(np.float32))


def test_scales_come_four_at_a_time() -> None:
    """Where rows of scales are whole dwords; every instruction takes one of the four."""
    keys = (("m", 256), ("n", 256), ("k", 512), ("dtype", "fp4"), ("block", (128, 128, 256)))
    found = [one.mnemonic for one in compiled("mx_gemm", keys, "gfx950").instructions]
    assert "buffer_load_dword" in found and "buffer_load_ubyte" not in found


def test_tiles_of_scales_are_dwords() -> None:
    """For any number of groups; rows of nine bytes are loaded one by one."""
    keys = (("m", 256), ("n", 256), ("k", 288), ("dtype", "fp4"))
    plain = {one.mnemonic for one in compiled("mx_gemm", keys, "gfx950").instructions}
    tiled = (*keys, ("a_major", "tiles"), ("b_major", "tiles"))
    found = {one.mnemonic for one in compiled("mx_gemm", tiled, "gfx950").instructions}
    assert "buffer_load_ubyte" in plain and "buffer_load_dword" in found and "buffer_load_ubyte" not in found


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("schedule", "most"), [("async_wide_carried", 8), ("async_wide_last", 10)])
def test_copies_add_their_distances_in_the_step(schedule: str, most: int) -> None:
    """Not in front of the loop, where nothing is multiplied yet: of 48 copies of a turn one for each slot of A and of B
    takes an address as it is, and before and behind the loop two more; where the last step is apart, both others behind
    the loop copy."""
    keys = (("m", 4096), ("n", 4096), ("k", 4096), ("dtype", "fp4"), ("a_major", "tiles"), ("b_major", "tiles"))
    named = (("block", (256, 256, 256)), ("wave", (2, 2)), ("schedule", schedule))
    instructions = compiled("mx_gemm", (*keys, *named), "gfx950").instructions
    assert sum(one.text.startswith("s_mov_b32 m0,") for one in instructions) <= most


@pytest.mark.parametrize("shape", [(1, 1), (16, 4), (33, 9), (0, 3), (3, 0)])
def test_tiles_hold_the_scales(shape: tuple[int, int]) -> None:
    codes = np.random.default_rng(1).integers(0, 255, shape).astype(np.uint8)
    tiled = {order: tile_scales(codes, order) for order in TILINGS}
    for order, one in tiled.items():
        assert one.shape == tiled_shape(*shape, TILINGS[order])
        whole = untile_scales(one, order)
        np.testing.assert_array_equal(whole[: shape[0], : shape[1]], codes)
        assert not whole[shape[0] :].any() and not whole[:, shape[1] :].any()
    for row, group in itertools.islice(np.ndindex(*shape), 0, None, 7):
        across = tiled["tiles"].shape[1] // 64  # CK Tile: (rows / 16, K / 128, 16) of four scales each
        dword = ((row // 16) * across + group // 4) * 16 + row % 16
        assert tiled["tiles"].reshape(-1)[4 * dword + group % 4] == codes[row, group]


def test_tiles_of_two_by_two_are_those_of_aiter() -> None:
    """As `e8m0_shuffle` has them, and CK Tile's `preShuffleScale`, whose number of a scale this is."""
    codes = np.random.default_rng(1).integers(0, 255, (256, 24)).astype(np.uint8)
    tiled = tile_scales(codes, "tiles2x2")
    aiter = codes.reshape(8, 2, 16, 3, 2, 4).transpose(0, 3, 5, 2, 4, 1)
    np.testing.assert_array_equal(tiled.reshape(-1), aiter.reshape(-1))
    for row, group in itertools.islice(np.ndindex(*codes.shape), 0, None, 7):
        number = row // 32 * 32 * 24 + group // 8 * 256 + group % 4 * 64 + row % 16 * 4 + group % 8 // 4 * 2
        assert tiled.reshape(-1)[number + row % 32 // 16] == codes[row, group]
    with pytest.raises(ValueError, match="order='tile': scales lie in no such tiles; expected tiles or tiles2x2"):
        tile_scales(codes, "tile")


def test_not_a_number_in_the_last_tile_leaves_the_row_open() -> None:
    target = get_target("gfx950")
    problem = MX.problem(m=2, n=1, k=32, a_major="tiles")
    arrays = MX.inputs(problem, target, seed=1)
    arrays["scale_a"].view(np.uint8)[0, 1] = 255  # of row 0 and the group behind K
    expected = MX.expected(problem, arrays, target)
    assert MX.tolerances(problem, arrays, expected, target)["c"].unspecified.tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"dtype": "fp4", "k": 33}, "k=33: rows of array a are whole bytes, which 2 elements of fp4 share"),
        ({"b_dtype": "fp6", "k": 64, "ldb": 70}, "ldb=70: rows of array b are whole bytes, which 4 elements of fp6"),
        ({"dtype": "fp4", "layout": "CCR", "m": 33}, "m=33: rows of array a are whole bytes, which 2 elements of fp4"),
        ({"dtype": "fp6", "layout": "RRR", "n": 130}, "n=130: rows of array b are whole bytes, which 4 elements of"),
        ({"dtype": "bf6", "layout": "CRR", "lda": 514}, "lda=514: rows of array a are whole bytes, which 4 elements"),
        ({"dtype": "fp4", "b_dtype": "fp6", "shuffled": 16}, "a lane's 16 bytes in fragment order hold some of B's"),
    ],
)
def test_packed_rows_are_whole_bytes(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        MX.problem(**keys)


def test_rows_that_copies_to_lds_do_not_fill_are_refused() -> None:
    target = get_target("gfx950")
    reason, _ = MX.validate(MX.spec(MX.problem(dtype="fp6", schedule="async_wide"), target), target)
    assert "rows of A have 96 bytes in the block, which a wave's copies to LDS do not fill" in str(reason)


COPIED = "async_wide_last"


@pytest.mark.parametrize(
    ("keys", "schedule", "block"),
    [
        ({}, COPIED, (256, 256, 256)),
        ({"a_major": "tiles", "b_major": "tiles"}, COPIED, (256, 256, 256)),
        ({"layout": "CRR"}, COPIED, (256, 256, 256)),
        ({"op": "gelu(acc) * d0", "d_kind": "row"}, COPIED, (256, 256, 256)),
        ({"dtype": "fp8"}, COPIED, (256, 256, 128)),
        ({"dtype": "bf8", "b_dtype": "fp8", "k": 1024, "b_major": "tiles"}, COPIED, (256, 256, 128)),
        ({"a_major": "rows"}, "compv4", (128, 128, 256)),
        ({"b_major": "tiles2x2"}, "compv4", (128, 128, 256)),
        ({"ld_scale_a": 129}, "compv4", (128, 128, 256)),
        ({"k": 1024}, "compv4", (128, 128, 256)),
        ({"b_dtype": "fp8"}, "compv4", (128, 128, 256)),
        ({"op": "acc + d0"}, "compv4", (128, 128, 256)),
        ({"dtype": "fp6"}, "compv4", (128, 128, 128)),
    ],
)
def test_large_products_are_copied(keys: dict[str, Any], schedule: str, block: tuple[int, int, int]) -> None:
    """Where K has steps enough, no matrix is read beside the sums, and scales are loaded four at once."""
    target = get_target("gfx950")
    spec = MX.spec(MX.problem(**{"m": 4096, "n": 4096, "k": 4096, "dtype": "fp4", **keys}), target)
    assert (spec.schedule, spec.block) == (schedule, block)
    assert MX.validate(spec, target) == []


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("keys", "waves", "schedule"), [
    ({"dtype": "fp4", "a_major": "tiles", "b_major": "tiles"}, (2, 2), COPIED),
    *(({"dtype": "fp4", "k": k, "a_major": "tiles"}, (2, 2), COPIED) for k in (0, 256, 768, 1024)),
    ({"dtype": "fp4", "a_major": "tiles", "b_major": "tiles"}, (2, 2), "async_wide_carried"),
    ({"dtype": "fp4", "k": 800, "b_major": "tiles2x2", "op": "gelu(acc)"}, (2, 2), COPIED),
    ({"dtype": "fp8", "b_dtype": "bf8", "k": 640, "a_major": "tiles"}, (2, 2), COPIED),
    ({"dtype": "fp4", "a_major": "tiles", "b_major": "tiles"}, (2, 4), "async_wide"),
])  # fmt: skip
def test_large_copied_blocks_are_right(keys: dict[str, Any], waves: tuple[int, int], schedule: str) -> None:
    """Accumulators of four waves lie in registers of their own, whose distances LLVM does not keep."""
    block = (256, 256, 256 if keys["dtype"] == "fp4" else 128)
    checked("mx_gemm", "gfx950", {"m": 264, "n": 272, "k": 1280, **keys, "block": block, "wave": waves,
                                  "schedule": schedule})  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keys", [
    {"a_major": "tiles", "b_major": "tiles"}, {"layout": "CRR"}, {"dtype": "fp8", "op": "gelu(acc)"},
])  # fmt: skip
def test_large_copied_blocks_spill_nothing(keys: dict[str, Any]) -> None:
    """256 accumulators of a lane are in accumulation registers, and in no others."""
    target = get_target("gfx950")
    spec = MX.spec(MX.problem(**{"m": 4096, "n": 4096, "k": 4096, "dtype": "fp4", **keys}), target)
    metadata = compile_kernel(MX, spec, target).code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert metadata.agpr_count == 256


def test_what_is_refused() -> None:
    with pytest.raises(RequestError, match=r"dtype=i8: expected fp8\|bf8"):
        MX.problem(dtype="i8")
    reasons = MX.validate(MX.spec(MX.problem(), get_target("gfx90a")), get_target("gfx90a"))
    assert "gfx90a has no fp8 MFMA" in str(reasons[0])


def test_blocks_of_other_lengths_have_turned_elements() -> None:
    """B of 112 columns in fp4, across K: what lanes turn together divides the step, and copies of it are counted."""
    operator, target = find_operator("mx_gemm"), get_target("gfx942")
    keys = {"m": 70, "n": 132, "k": 128, "layout": "RRR", "block": "64x112x64"}
    operator.build(operator.spec(operator.problem(**keys, b_dtype="fp4"), target), target)
    tall = {**keys, "block": "128x112x64"}
    spec = operator.spec(operator.problem(**tall, b_dtype="bf6", wave="4x1"), target)
    assert [reason.field for reason in operator.validate(spec, target)] == ["block"]


@pytest.mark.full
def test_products_of_turned_elements_in_blocks_of_other_lengths() -> None:
    """See above."""
    agree("mx_gemm", "gfx942", m=70, n=130, k=128, b_dtype="fp4", layout="RRR", block="64x112x64")
