"""Quantised products: scales of every kind and order, ragged, on every chip; what is refused; and what steps cost."""

import itertools
from typing import Any

import numpy as np
import pytest
from checked_runs import compiled
from operator_runner import agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.analysis import check_hazards
from ckmlir.targets import get_target

QUANT = find_operator("gemm_quant")
RAGGED = {"m": 70, "n": 200, "k": 300}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx950", {}),
    ("gfx942", {"dtype": "bf8", "out": "f16"}),
    ("gfx90a", {"dtype": "i8", "out": "f32", "a_scale": "1x64"}),
    ("gfx942", {"b_scale": "1x128", "b_major": "rows", "a_major": "rows"}),
    ("gfx950", {"b_scale": "1x32", "a_scale": "tensor", "ld_scale_b": 11, "schedule": "compv3"}),
    ("gfx90a", {"dtype": "i8", "a_scale": "row", "b_scale": "column", "op": "relu(acc + d0)", "d_kind": "row"}),
    ("gfx950", {"dtype": "bf8", "a_scale": "tensor", "b_scale": "tensor", "out": "fp8", "layout": "CRR"}),
    ("gfx942", {"a_scale": "row", "ld_scale_a": 9, "schedule": "preshuffle", "mfma": "16x16x32"}),
    ("gfx942", {"b_dtype": "i4"}),
    ("gfx950", {"b_dtype": "u4", "zeros": 1}),
    ("gfx942", {"a_scale": "1x64", "k": 900, "schedule": "mem6_interwave"}),  # 5 and 7 sets of registers
    ("gfx950", {"b_dtype": "i4", "shuffled": 16, "m": 20}),
    ("gfx950", {"b_scale": "1x128", "schedule": "async", "mfma": "16x16x128"}),  # A and B go straight to LDS
    ("gfx942", {"b_scale": "1x64", "schedule": "async_double", "lda": 304, "ldb": 304}),
]


INT4: list[tuple[str, dict[str, Any]]] = [
    ("gfx90a", {"dtype": "i8", "b_scale": "1x32", "ldb": 320}),
    ("gfx950", {"dtype": "bf8", "a_scale": "row", "b_scale": "column", "schedule": "compv4"}),
    ("gfx950", {"b_scale": "1x64", "b_major": "rows", "out": "fp8", "k": 640}),
    ("gfx942", {"k": 0}),
    ("gfx942", {"b_dtype": "u4"}),
    ("gfx90a", {"b_dtype": "u4", "dtype": "i8", "b_scale": "1x32", "b_major": "rows", "zeros": 1, "k": 302}),
    ("gfx942", {"b_scale": "column", "zeros": 1, "k": 302, "ldb": 330}),
    ("gfx950", {"b_dtype": "u4", "b_scale": "tensor", "zeros": 1, "dtype": "i8"}),
    ("gfx942", {"b_scale": "1x64", "zeros": 1, "ld_scale_b": 17, "m": 5, "k": 1024}),
    ("gfx942", {"b_dtype": "u4", "k": 0, "zeros": 1}),
    ("gfx942", {"shuffled": 32}),
    ("gfx942", {"shuffled": 16, "zeros": 1, "b_scale": "1x128", "k": 302}),
    ("gfx90a", {"dtype": "i8", "b_dtype": "u4", "shuffled": 32, "zeros": 1, "b_scale": "1x32"}),
    ("gfx950", {"dtype": "bf8", "shuffled": 32, "a_scale": "row", "b_scale": "column", "schedule": "straight"}),
    ("gfx942", {"shuffled": 32, "m": 1, "n": 1, "k": 2}),
    ("gfx942", {"shuffled": 32, "k": 0}),
]


@pytest.mark.full
@pytest.mark.parametrize(("chip", "keys"), INT4)
def test_integers_of_4_bits(chip: str, keys: dict[str, Any]) -> None:
    agree("gemm_quant", chip, **{**RAGGED, "b_dtype": "i4", **keys})


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("gemm_quant", chip, **{**RAGGED, **keys})


@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {"a_scale": "1x32", "b_scale": "1x32"}),
    pytest.param("gfx90a", {"dtype": "i8", "a_scale": "row", "b_scale": "1x64"}, marks=pytest.mark.full),
    pytest.param("gfx950", {"a_scale": "tensor", "b_scale": "1x64", "b_major": "rows"}, marks=pytest.mark.full),
])  # fmt: skip
def test_waves_that_take_turns_read_scales_of_columns_before_others_write_them(chip: str, keys: dict[str, Any]) -> None:
    """No matrix instruction needs these reads, which an order of matrix instructions and their operands leaves out."""
    agree("gemm_quant", chip, **RAGGED, **keys, schedule="ping_pong")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("sizes", [(0, 5, 7), (5, 0, 7), (5, 7, 0), (1, 1, 1), (1, 130, 129)])
def test_sizes_at_the_ends(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    agree("gemm_quant", "gfx950", m=m, n=n, k=k)
    agree("gemm_quant", "gfx942", m=m, n=n, k=k, a_scale="row", b_scale="1x128", dtype="i8")


def test_the_reference_is_the_product_of_scaled_numbers() -> None:
    """Against loops over all elements."""
    problem = QUANT.problem(m=3, n=130, k=140, dtype="i8", a_scale="1x64", b_scale="128x128", b_major="rows")
    arrays = QUANT.inputs(problem, get_target("gfx90a"), seed=3)
    assert arrays["scale_a"].shape == (3, 3) and arrays["scale_b"].shape == (2, 2)
    a, b, sa, sb = (arrays[name].astype(np.float64) for name in ("a", "b", "scale_a", "scale_b"))
    c = QUANT.reference(problem, arrays)["c"]
    for i, j in ((0, 0), (1, 127), (2, 128), (2, 129)):
        total = sum(a[i, k] * sa[i, k // 64] * b[j, k] * sb[k // 128, j // 128] for k in range(140))
        assert abs(c[i, j] - total) <= 1e-12 * np.abs(c).max()


@pytest.mark.parametrize(("keys", "words"), [
    ({"ld_scale_a": 2}, "ld_scale_a=2: rows of array scale_a have 3 elements; expected at least that"),
    ({"b_major": "rows", "ld_scale_b": 1}, "ld_scale_b=1: rows of array scale_b have 2 elements"),
    ({"a_scale": "128x128"}, "a_scale=128x128: expected tensor|row|1x32|1x64|1x128"),
    ({"b_dtype": "i4", "k": 301}, "k=301: rows of array b are whole bytes, which 2 elements of i4 share; ex"),
    ({"b_dtype": "i4", "layout": "RRR", "n": 131}, "n=131: rows of array b are whole bytes, which 2 elements of i4"),
    ({"b_dtype": "i4", "layout": "RRR", "k": 301, "schedule": "preshuffle"}, "layout=RRR: shuffled B is made of rows"),
    ({"op": "d0"}, "it does not depend on the product"),
    ({"zeros": 1}, "zeros: of integers of 4 bits, not of fp8; expected b_dtype=i4, or u4"),
    ({"b_dtype": "u4", "dtype": "bf8"}, "b_dtype=u4: its integers become bf8, which lacks 9; expected dtype=fp8, or"),
    ({"b_dtype": "i4", "dtype": "bf8", "zeros": 1}, "b_dtype=i4: its differences become bf8, which lacks 9; expected"),
])  # fmt: skip
def test_what_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        QUANT.problem(**{**RAGGED, **keys})
    assert words in str(refused.value)


@pytest.mark.parametrize(("keys", "words"), [
    ({"block": "64x64x64"}, "steps of 64 along K are less than a group of scales; expected 128 or more along K"),
    ({"b_scale": "1x32", "mfma": "32x32x64"}, "a group of scales is 32 elements along K; expected an instruction of"),
    ({"b_dtype": "i4", "schedule": "async"}, "A and B become fp8 in registers, and this schedule goes past them"),
])  # fmt: skip
def test_what_a_chip_cannot_run(keys: dict[str, Any], words: str) -> None:
    target = get_target("gfx950")
    spec = QUANT.spec(QUANT.problem(**{**RAGGED, **keys}), target)
    assert any(words in str(reason) for reason in QUANT.validate(spec, target)), QUANT.validate(spec, target)


@pytest.mark.parametrize("keys", [{"dtype": "bf8", "schedule": "compv4"}, {"a_scale": "1x64"}])
def test_results_of_long_instructions_are_waited_for(keys: dict[str, Any]) -> None:
    """In kernels where LLVM 22 leaves 19 wait states of 20."""
    one = compiled("gemm_quant", tuple(keys.items()), "gfx950")
    assert check_hazards(one.kernel.code_object, one.kernel.kernel_name) == []


def test_scales_of_rows_and_columns_spill_nothing() -> None:
    """What sums meet is read before the products, and registers hold it."""
    keys = (("m", 4096), ("n", 4096), ("k", 4096), ("a_scale", "1x128"), ("b_scale", "1x128"))
    one = compiled("gemm_quant", keys, "gfx950")
    metadata = one.kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


@pytest.mark.parametrize(("chip", "products"), [("gfx942", 32), ("gfx950", 8)])
def test_a_step_scales_in_pairs(chip: str, products: int) -> None:
    """Of 64 sums a lane: a packed instruction for every two, little beside them, and nothing spilled."""
    keys = (("m", 1024), ("n", 1024), ("k", 2048), ("block", (128, 128, 128)))
    one = compiled("gemm_quant", keys, chip)
    loop = steady_loop(one.kernel.code_object, one.kernel.kernel_name)
    steps = loop.mix["mfma"] // products
    scaled = {"v_pk_fma_f32": 2, "v_fma_f32": 1}
    assert sum(scaled.get(found.mnemonic, 0) for found in loop.instructions) == 64 * steps
    assert loop.mix["valu"] <= 38 * steps
    metadata = one.kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("chip", "dtype"), [
    ("gfx90a", "i8"), ("gfx942", "fp8"), *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx942", "bf8"), ("gfx950", "fp8"), ("gfx950", "bf8"), ("gfx950", "i8"),
    )),
])  # fmt: skip
def test_every_pair_of_integers_of_4_bits(chip: str, dtype: str) -> None:
    """The product with the unit matrix is every byte's two integers, less every zero point of the type."""
    target, codes = get_target(chip), np.arange(256, dtype=np.uint8).reshape(8, 32)
    for b_dtype, zeros in itertools.product(("i4", "u4"), (False, True)):
        if dtype == "bf8" and (zeros or b_dtype == "u4"):
            continue
        scales = {"a_scale": "tensor", "b_scale": "column" if zeros else "tensor", "zeros": zeros}
        columns = 8 * (15 * zeros + 1)
        problem = QUANT.problem(m=64, n=columns, k=64, dtype=dtype, b_dtype=b_dtype, out="f32", **scales)
        arrays = {"a": np.eye(64).astype(numpy_dtype(dtype, target)), "b": np.tile(codes, (columns // 8, 1))}
        arrays |= {"scale_a": np.ones(1, np.float32), "scale_b": np.ones(columns if zeros else 1, np.float32)}
        points = np.repeat(np.arange(columns // 8), 8)
        if zeros:
            points = points - 8 * (b_dtype == "i4")
            arrays["zero_b"] = points.astype(np.int8)
        c = run_operator(QUANT, problem, arrays, target, open_device("sim", target)).outputs["c"]
        halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(8, 64).astype(np.float32)
        numbers = halves - 16 * (halves > 7) if b_dtype == "i4" else halves
        assert np.array_equal(c.T, np.tile(numbers, (columns // 8, 1)) - points[:, None]), (b_dtype, zeros)


def test_nothing_is_promised_of_sixteen_times_a_sum_that_f32_does_not_have() -> None:
    """i4 go into products of i8 as 16 times what they are."""
    target, scales = get_target("gfx942"), {"a_scale": "1x128", "b_scale": "1x128"}
    problem = QUANT.problem(m=1, n=3, k=128, dtype="i8", b_dtype="i4", out="f32", **scales)
    arrays = dict(QUANT.inputs(problem, target, seed=1))
    arrays["a"], arrays["b"] = np.eye(1, 128, dtype=np.int8), np.full((3, 64), 1, np.uint8)
    arrays["scale_a"], arrays["scale_b"] = np.float32([[2.0**60]]), np.float32([[2.0**66], [2.0**63], [2.0**9]])
    result = run_operator(QUANT, problem, arrays, target, open_device("sim", target))
    (found,) = check_outputs(QUANT, problem, arrays, result.outputs, target)
    assert found.ok and found.unspecified == 1
    assert result.outputs["c"].tolist()[0][1:] == [2.0**123, 2.0**69]


@pytest.mark.parametrize(("dtype", "keys", "most"), [
    ("i8", {"zeros": 1}, 1.25), ("fp8", {}, 1.25),
    *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("i8", {}, 0.625), ("fp8", {"zeros": 1}, 2.0), ("i8", {"b_dtype": "u4"}, 0.625),
        ("fp8", {"b_dtype": "u4"}, 0.625),
    )),
])  # fmt: skip
def test_vector_instructions_of_an_integer_of_4_bits(dtype: str, keys: dict[str, Any], most: float) -> None:
    """In the steady loop, whatever they are for: a lane converts 64 of a step."""
    asked = {"dtype": dtype, "b_dtype": "i4", "a_scale": "row", "b_scale": "column", "schedule": "compv3", **keys}
    keys = (("m", 1024), ("n", 1024), ("k", 1024), *asked.items())
    one = compiled("gemm_quant", keys, "gfx942")
    loop = steady_loop(one.kernel.code_object, one.kernel.kernel_name)
    assert loop.mix["mfma"] == 32 and loop.mix["valu"] <= 64 * most


@pytest.mark.parametrize("keys", [
    {"b_scale": "1x32"}, pytest.param({"a_scale": "1x32", "b_scale": "1x32"}, marks=pytest.mark.full),
])  # fmt: skip
def test_sums_of_short_groups_are_scaled_as_they_come(keys: dict[str, Any]) -> None:
    """Those of all groups of a step would take more registers than there are: products and scaling alternate."""
    one = compiled("gemm_quant", (("m", 4096), ("n", 4096), ("k", 512), *keys.items()), "gfx942")
    names = [found.mnemonic for found in steady_loop(one.kernel.code_object, one.kernel.kernel_name).instructions]
    products = [place for place, name in enumerate(names) if name.startswith("v_mfma")]
    before_the_last = names[: products[-1]]
    assert sum(name.startswith(("v_pk_fma_f32", "v_fma_f32")) for name in before_the_last) >= 64
    metadata = one.kernel.code_object.kernel().metadata
    assert (metadata.private_segment_size, metadata.vgpr_spill_count) == (0, 0)
    # For 32 products of a step 8 loads of A and B, 2 of scales of rows, 1 of a column's four.
    assert 32 * sum(name.startswith("buffer_load") for name in names) <= 11 * len(products)


@pytest.mark.parametrize(("layout", "mfma"), [
    ("RCR", (16, 16, 128)), ("RRR", (16, 16, 128)), ("CCR", (16, 16, 128)), ("CRR", (32, 32, 64)),
])  # fmt: skip
def test_columns_of_their_own_scales_have_a_short_instruction(layout: str, mfma: tuple[int, int, int]) -> None:
    """But with A alone across K, which leaves no room for another wave either way."""
    problem = QUANT.problem(m=2048, n=2048, k=2048, a_scale="1x128", b_scale="1x128", layout=layout)
    assert QUANT.spec(problem, get_target("gfx950")).mfma == mfma


@pytest.mark.full
@pytest.mark.parametrize(("chip", "dtype", "name", "scales"), [
    (chip, dtype, name, scales)
    for chip, dtype in (("gfx90a", "i8"), ("gfx942", "fp8"), ("gfx950", "bf8"))
    for name in ("gemm_quant", "gated_gemm_quant") for scales in ({}, {"b_scale": "1x128"})
])  # fmt: skip
def test_whole_groups_of_compared_rows_spill_nothing(chip: str, dtype: str, name: str, scales: dict[str, str]) -> None:
    """Both operands transposed, and rows aligned to a byte: each row of a step is compared with the end of K, and a
    step has 128 of them, as a group has.
    """
    keys = {"m": 131, "n": 133, "k": 203, "dtype": dtype, "layout": "CRR", **scales}
    one = compiled(name, tuple(keys.items()), chip)
    metadata = one.kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    agree(name, chip, **keys)


SHORT = {"a_scale": "1x32", "b_scale": "1x32"}
WEIGHTS = {"m": 140, "n": 150, "k": 320, "b_dtype": "i4"}
TILES = {"m": 140, "n": 150, "k": 320, "b_scale": "1x64", "shuffled": 32}
CROWDED: list[tuple[str, str, dict[str, Any]]] = [
    ("gfx950", "gemm_quant", {"m": 140, "n": 160, "k": 320, "a_scale": "1x64", "b_scale": "1x64", "layout": "RRR"}),
    ("gfx942", "gated_gemm_quant", {"m": 65, "n": 128, "k": 130, "b_dtype": "u4", "zeros": 1, "a_scale": "tensor"}),
    ("gfx942", "gemm_quant", {"m": 320, "n": 97, "k": 1, "shuffled": 16, "b_scale": "1x128"}),
    ("gfx950", "gemm_quant", {"m": 140, "n": 97, "k": 257, "shuffled": 32, "b_scale": "1x128"}),
    ("gfx90a", "gemm_quant", {"m": 140, "n": 97, "k": 257, "shuffled": 16, "b_scale": "1x128", "dtype": "i8"}),
    ("gfx950", "gemm_quant", {"m": 140, "n": 97, "k": 256, "shuffled": 16, "b_scale": "1x128", "lda": 141,
                              "layout": "CCR"}),
    ("gfx950", "gemm_quant", {"m": 140, "n": 160, "k": 130, "a_scale": "tensor", "b_scale": "1x64", "layout": "RRR"}),
    ("gfx942", "gemm_quant", {"m": 140, "n": 160, "k": 260, "dtype": "bf8", "a_scale": "1x32", "b_scale": "1x64",
                              "layout": "RRR"}),
    ("gfx942", "gemm_quant", {"m": 140, "n": 130, "k": 333, "dtype": "bf8", "a_scale": "row", "b_scale": "1x32",
                              "layout": "RRR"}),
    ("gfx942", "mx_gemm", {"m": 144, "n": 127, "k": 320}),
    ("gfx90a", "gemm_quant", {"m": 96, "n": 256, "k": 63, "dtype": "i8", "layout": "RRR", "a_scale": "1x64",
                              "b_scale": "tensor"}),
    ("gfx942", "gated_gemm_quant", {"m": 150, "n": 130, "k": 333, **SHORT}),
    ("gfx942", "gemm_quant", {"m": 140, "n": 150, "k": 320, **SHORT}),
    ("gfx950", "gemm_quant", {"m": 140, "n": 150, "k": 333, **SHORT, "layout": "CCR"}),
    ("gfx90a", "gemm_quant", {"m": 140, "n": 150, "k": 333, **SHORT, "layout": "RRR", "dtype": "i8"}),
    ("gfx942", "gemm_quant", {"m": 140, "n": 150, "k": 320, **SHORT, "shuffled": 32}),
    ("gfx942", "gemm_quant", {"m": 144, "n": 150, "k": 320, "layout": "CCR", "shuffled": 32}),
    ("gfx942", "mx_gemm", {"m": 144, "n": 160, "k": 300, "layout": "CRR", "b_major": "rows", "dtype": "bf8"}),
    ("gfx950", "mx_gemm", {"m": 131, "n": 127, "k": 201, "layout": "RRR"}),
    ("gfx942", "gemm_quant", {"m": 150, "n": 130, "k": 333, "layout": "CCR", "b_scale": "1x128"}),
    ("gfx950", "gated_gemm_quant", {"m": 70, "n": 130, "k": 147, "a_scale": "1x128"}),
    ("gfx950", "gemm_quant", {**WEIGHTS, "b_scale": "1x128", "zeros": 1, "shuffled": 32}),
    ("gfx950", "gemm_quant", {**WEIGHTS, "b_scale": "1x64", "zeros": 1, "shuffled": 32}),
    ("gfx942", "gemm_quant", {**WEIGHTS, "b_scale": "1x128", "dtype": "i8", "shuffled": 16}),
    ("gfx950", "gemm_quant", {**TILES, "b_major": "rows", "dtype": "bf8"}),
    ("gfx942", "gemm_multi_abd", {"m": 140, "n": 70, "k": 135, "dtype": "i8", "layout": "RRR", "a_types": "f16,i32"}),
    *(("gfx90a", "grouped_gemm_quant", {"m": (63, 140), "n": (35, 150), "k": (333, 77), "layout": "CRR", "dtype": "i8",
                                        "persistent": True, "b_scale": scale}) for scale in ("128x128", "1x128")),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("chip", "name", "keys"), [*CROWDED[:2], *(pytest.param(*case, marks=pytest.mark.full) for case in CROWDED[2:])]
)
def test_what_lies_beside_operands_has_registers(chip: str, name: str, keys: dict[str, Any]) -> None:
    """Scales of several groups of a step, narrow loads beside scales or a second matrix, zero points that a block
    shares, a transposed A beside B in registers: defaults are right, and spill nothing.
    """
    one = compiled(name, tuple(keys.items()), chip)
    metadata = one.kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    agree(name, chip, **keys)


LARGE = {"m": 4096, "n": 4096, "k": 4096}
COLUMNS = {"a_scale": "1x128", "b_scale": "1x128"}


@pytest.mark.parametrize(("name", "keys"), [
    ("gemm_quant", {**LARGE, **COLUMNS}),
    ("gemm_quant", LARGE),
    *(pytest.param(name, keys, marks=pytest.mark.full) for name, keys in (
        ("gemm_quant", {**LARGE, **COLUMNS, "a_major": "rows", "b_major": "rows"}),
        ("gemm_quant", {**LARGE, **COLUMNS, "k": 7168, "b_dtype": "bf8"}),
        ("gemm_quant", {**LARGE, **COLUMNS, "k": 2048, "out": "f32"}),
        ("gemm_quant", {**LARGE, "m": 4000, "n": 4010, "k": 4112, "lda": 4224, "ldb": 4224}),
        ("gemm_quant", {**LARGE, "op": "gelu(acc * alpha + d0) + d1", "d_kind": "row,full"}),
        ("gemm_quant", {**LARGE, **COLUMNS, "b_dtype": "i4", "zeros": 1}),
        ("gemm_quant", {**LARGE, **COLUMNS, "op": "gelu(acc * alpha + d0) + d1", "d_kind": "row,full"}),
        ("gemm_quant", {**LARGE, "a_scale": "row", "b_scale": "1x128"}),
        ("batched_gemm_quant", {**LARGE, **COLUMNS, "m": 1024, "batch": 8}),
        ("grouped_gemm_quant", {**LARGE, **COLUMNS, "m": "1024,333,2000"}),
        ("moe_gemm", {"t": 4096, "n": 1024, "k": 1024, "unit": 128, "dtype": "fp8", **COLUMNS}),
    )),
    pytest.param(
        "gemm_quant", {**LARGE, **COLUMNS, "layout": "RRR", "dtype": "bf8", "out": "f32"},
        marks=[pytest.mark.full, pytest.mark.xfail(strict=True, reason="264 registers: one workgroup a unit")],
    ),
])  # fmt: skip
def test_scales_of_columns_leave_room_for_another_workgroup(name: str, keys: dict[str, Any]) -> None:
    """Each SIMD of gfx950 holds two waves, and nothing is spilled for that."""
    operator, target = find_operator(name), get_target("gfx950")
    found = compile_kernel(operator, operator.spec(operator.problem(**keys), target), target)
    metadata = found.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    assert found.workgroups_a_unit(256) == 2


@pytest.mark.parametrize(("chip", "keys", "kept"), [
    ("gfx950", {}, 4096), ("gfx950", {"k": 7168, "dtype": "bf8"}, 8192),
    ("gfx950", {"k": 16384, "layout": "RRR"}, 8192), ("gfx950", {"k": 4301}, 0), ("gfx950", {"k": 2048}, 4096),
    ("gfx950", {"k": 2048, "schedule": "compv3"}, 0), ("gfx950", {"k": 1920}, 0),
    ("gfx950", {"m": 1024, "n": 1024}, 0), ("gfx942", {}, 0), ("gfx950", {"a_major": "rows"}, 0),
    ("gfx950", {"b_scale": "1x128"}, 4096), ("gfx950", {"b_scale": "1x128", "k": 7168}, 4096),
    ("gfx950", {"a_scale": "1x64"}, 0), ("gfx950", {"dtype": "i8"}, 0),
    ("gfx950", {"b_dtype": "i4"}, 0), ("gfx950", {"layout": "CRR"}, 0), ("gfx950", {"b_scale": "1x64"}, 0),
    ("gfx950", {"b_scale": "1x128", "shuffled": 16}, 0),
])  # fmt: skip
def test_which_scales_are_kept(chip: str, keys: dict[str, Any], kept: int) -> None:
    """Where that pays, and LDS has room for two workgroups."""
    target = get_target(chip)
    assert QUANT.spec(QUANT.problem(**{**LARGE, **keys}), target).kept == kept


KEPT: list[tuple[str, dict[str, Any], int]] = [
    ("gemm_quant", {"m": 100, "n": 70, "k": 4300}, 4096),  # all steps but two, and groups not in fours
    ("gemm_quant", {"m": 100, "n": 70, "k": 4300, "b_scale": "1x128", "mfma": "16x16x128"}, 4096),
    ("gemm_quant", {"m": 100, "n": 70, "k": 4300, "b_scale": "1x128", "mfma": "16x16x128",
                    "schedule": "straight_single"}, 4096),
    ("gemm_quant", {"m": 100, "n": 130, "k": 8256, "dtype": "bf8", "a_scale": "1x64", "ld_scale_a": 132}, 4096),
    ("gemm_quant", {"m": 128, "n": 128, "k": 8320, "schedule": "compv4", "b_scale": "tensor"}, 8192),
    ("gemm_quant", {"m": 130, "n": 20, "k": 0, "lda": 128, "ldb": 128}, 4096),
    ("gemm_quant", {"m": 72, "n": 200, "k": 300, "ldb": 304, "layout": "CCR", "out": "f32"}, 8192),
    ("gemm_quant", {"m": 100, "n": 70, "k": 4300, "shuffled": 32}, 4096),
    ("gated_gemm_quant", {"m": 100, "n": 60, "k": 4300, "block": "128x64x128"}, 4096),
    ("batched_gemm_quant", {"batch": 2, "m": 100, "n": 70, "k": 4300}, 4096),
    ("grouped_gemm_quant", {"m": "100,130,20", "n": 140, "k": "4300,300,8320", "persistent": 1}, 4096),
    ("grouped_gemm_quant", {"m": "100,130", "n": 70, "k": 4300, "persistent": 0}, 4096),
    ("moe_gemm", {"t": 200, "e": 2, "topk": 1, "unit": 128, "n": 128, "k": 4300, "dtype": "fp8", "a_scale": "1x128",
                  "b_scale": "128x128"}, 4096),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "keys", "kept"), [KEPT[0], *(pytest.param(*case, marks=pytest.mark.full) for case in KEPT[1:])]
)
def test_scales_of_many_steps_are_kept_in_lds(name: str, keys: dict[str, Any], kept: int) -> None:
    """Under all checkers and proved, also where K is several stretches, or none."""
    operator, target = find_operator(name), get_target("gfx950")
    problem = operator.problem(**{"block": "128x128x128", **keys})
    spec = replace(operator.spec(problem, target), kept=kept)
    if name == "gemm_quant":
        spec = replace(spec, scaling=(problem.scaling[0].described, *spec.scaling[1:]))
    assert operator.validate(spec, target) == [] and operator.mismatches(problem, spec, target) == []
    bench = Workbench.of(operator, spec, target)
    assert bench.compile(bench.schedule, code=False).findings == ()
    arrays = operator.inputs(problem, target, seed=7)
    device = open_device("sim", target, seed=11, checks="all")
    result = run_operator(operator, problem, arrays, target, device, spec=spec, guarded=True)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert comparisons and all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
