"""Products with a sparse A: types, layouts, schedules, ragged sizes, special values; compression; what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_runner import agree

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.sparsity import compress, in_rows, index_bytes, kept, pack_index, places_of, spread
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

GEMM, COMPRESS = find_operator("gemm_sparse"), find_operator("compress_sparse")
FRAGMENT_ORDER = ("preshuffle", "straight", "straight_single")
"""Schedules of a B in fragment order, which is made of rows along k."""
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gfx942", {}),
    ("gfx942", {"dtype": "bf16", "layout": "RRR", "k": 203, "ldb": 80, "lda": 121}),
    ("gfx942", {"dtype": "i8", "m": 67, "n": 70, "k": 71, "ld_index": 11}),
    ("gfx942", {"dtype": "fp8", "m": 130, "n": 128, "k": 256, "out": "f32"}),
    ("gfx942", {"dtype": "f16", "shuffled": 32}),
    ("gfx942", {"dtype": "f16", "m": 10, "n": 96, "k": 515}),
    ("gfx950", {"dtype": "bf16"}),
    ("gfx950", {"dtype": "i8", "layout": "RRR", "k": 300}),
    ("gfx950", {"dtype": "bf8", "m": 129, "n": 127, "k": 129}),
    ("gfx950", {"dtype": "fp8", "shuffled": 16, "mfma": (16, 16, 128), "n": 100}),
    ("gfx950", {"op": "gelu(acc + d0) * alpha", "d_kind": "row", "alpha": 0.5}),
    ("gfx942", {"split_k": 3, "k": 500}),
    ("gfx950", {"split_k": 2, "k": 500, "reduction": "atomic", "out": "f32"}),
    ("gfx942", {"k": 0}),
    ("gfx950", {"k": 1}),
    ("gfx942", {"m": 1, "n": 1, "k": 5}),
    ("gfx942", {"m": 0}),
    *((chip, {"index_order": "pieces", **keys}) for chip, keys in (
        ("gfx942", {"m": 70, "k": 515}), ("gfx950", {"dtype": "i8", "m": 129, "k": 300}), ("gfx950", {"k": 1}),
        ("gfx942", {"dtype": "fp8", "k": 256}), ("gfx950", {"split_k": 2, "k": 500}), ("gfx942", {"m": 0}),
    )),
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "keys"), CASES)
def test_products(chip: str, keys: dict[str, Any]) -> None:
    agree("gemm_sparse", chip, **{"m": 64, "n": 64, "k": 128, **keys})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("schedule", ["compv3", "compv4", *(pytest.param(one, marks=pytest.mark.full)
                                                            for one in SCHEDULES if one not in ("compv3", "compv4"))])
def test_every_schedule(schedule: str, chip: str) -> None:
    """Under all checkers, proved, without spills; schedules that a plain `gemm` of these sizes refuses too are left."""
    target = get_target(chip)
    for dtype in ("f16", "i8"):
        problem = GEMM.problem(m=140, n=150, k=500, dtype=dtype, schedule=schedule,
                               shuffled=32 if schedule in FRAGMENT_ORDER else 0)  # fmt: skip
        spec = GEMM.spec(problem, target)
        if GEMM.validate(spec, target):
            continue
        arrays = GEMM.inputs(problem, target, seed=3)
        compiled = compile_kernel(GEMM, spec, target)
        assert compiled.code_object.kernel().metadata.vgpr_spill_count == 0
        device = open_device("sim", target, checks="all")
        result = run_operator(GEMM, problem, arrays, target, device, compiled=compiled)
        assert all(one.ok for one in check_outputs(GEMM, problem, arrays, result.outputs, target))


def test_large_blocks_that_would_spill_are_refused() -> None:
    """By eight waves that take turns, the index of this step and of the next beside 228; the choice falls on smaller
    ones."""
    target, large = get_target("gfx950"), {"m": 1024, "n": 1024, "k": 1024, "dtype": "fp8", "schedule": "ping_pong"}
    spec = GEMM.spec(GEMM.problem(**large, block="256x256x128", wave="2x4"), target)
    (reason,) = GEMM.validate(spec, target)
    assert "its tiles need 244 registers a work-item; gfx950 has 240" in str(reason)
    assert GEMM.spec(GEMM.problem(**large), target).block == (128, 128, 128)


SCHEDULED = [(name, layout) for name in SCHEDULES for layout in ("RCR", "RRR")
             if layout == "RCR" or name not in FRAGMENT_ORDER]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["f16", "i8", "fp8"])
@pytest.mark.parametrize(("schedule", "layout"), SCHEDULED)
def test_no_schedule_spills(schedule: str, dtype: str, layout: str) -> None:
    """Of large products, whose blocks are."""
    shuffled = 32 if schedule in FRAGMENT_ORDER else 0
    target = get_target("gfx950")
    keys = {"dtype": dtype, "layout": layout, "schedule": schedule, "shuffled": shuffled}
    spec = GEMM.spec(GEMM.problem(m=1024, n=1024, k=1024, **keys), target)
    assert not GEMM.validate(spec, target)
    found = compile_kernel(GEMM, spec, target).code_object.kernel().metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0), spec.name


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f16", "fp8"])
def test_only_what_is_kept_counts(dtype: str) -> None:
    """Infinities and NaN of B meet the elements that A has, zeros among them, and no others."""
    target = get_target("gfx942")
    problem = GEMM.problem(m=70, n=40, k=75, dtype=dtype, out="f32")
    arrays = GEMM.inputs(problem, target, seed=2)
    b = arrays["b"]
    b[3, 17], b[4, 74], b[5, 0], b[6] = np.nan, np.nan, np.inf, np.inf
    arrays["a"][2, 5], arrays["a"][3, 6], arrays["a"][4] = np.inf, np.nan, 0
    result = run_operator(GEMM, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(GEMM, problem, arrays, result.outputs, target))
    c = result.outputs["c"]
    named = (np.arange(kept(75)) // 2 * 4 + places_of(arrays["index"], 75) == 17).any(axis=1)
    ordinary = ~np.isin(np.arange(70), (2, 3, 4))
    assert 10 < named.sum() < 60
    np.testing.assert_array_equal(np.isnan(c[ordinary, 3]), named[ordinary])


@pytest.mark.parametrize(("chip", "keys", "block"), [
    ("gfx950", {"dtype": "fp8", "m": 2048}, (128, 128, 256)),  # half the rows of A, and LDS is the limit
    ("gfx950", {"dtype": "fp8", "m": 4352}, (128, 128, 256)),  # large blocks are 272 for 256 compute units
    ("gfx950", {"dtype": "fp8"}, (256, 256, 128)),
    ("gfx950", {"dtype": "fp8", "n": 4095, "op": "acc + d0"}, (128, 128, 256)),  # single elements of a matrix
    ("gfx950", {"dtype": "fp8", "lda": 516}, (128, 128, 128)),  # narrow loads
    ("gfx942", {"dtype": "f16"}, (256, 256, 64)),  # the matrix cores are
])  # fmt: skip
def test_deep_steps_where_lds_is_the_limit(chip: str, keys: dict[str, Any], block: tuple[int, int, int]) -> None:
    """Unless large blocks, which are copied to LDS, leave no compute unit idle."""
    target, large = get_target(chip), {"m": 4096, "n": 4096, "k": 1024}
    assert GEMM.spec(GEMM.problem(**{**large, **keys}), target).block == block


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keys", [
    {"dtype": "fp8", "layout": "RRR", "op": "gelu(acc + d0) + d1", "d_kind": "row,full"},
    {"dtype": "f16", "n": 4095}, {"dtype": "i8", "index_order": "pieces", "k": 1056},
])  # fmt: skip
def test_large_blocks_by_default_spill_nothing(keys: dict[str, Any]) -> None:
    """By eight waves, beside the index of a step."""
    target, large = get_target("gfx950"), {"m": 4096, "n": 4096, "k": 1024}
    spec = GEMM.spec(GEMM.problem(**{**large, **keys}), target)
    assert (spec.block[:2], spec.schedule) == ((256, 256), "ping_pong_async")
    found = compile_kernel(GEMM, spec, target).code_object.kernel().metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)


@pytest.mark.full
def test_the_index_is_read_as_dwords_where_it_can_be() -> None:
    """A lane's bytes of the index for several instructions follow each other."""
    for chip, dtype in (("gfx942", "f16"), ("gfx942", "i8"), ("gfx950", "bf16"), ("gfx950", "i8")):
        target = get_target(chip)
        spec = GEMM.spec(GEMM.problem(m=1024, n=1024, k=1024, dtype=dtype), target)
        kernel = compile_kernel(GEMM, spec, target, keep=("asm",))
        assembly = str(kernel.artifacts["asm"])
        assert "v_smfmac" in assembly and "buffer_load_ubyte" not in assembly and "buffer_load_ushort" not in assembly
        assert kernel.code_object.kernel().metadata.vgpr_spill_count == 0


# -- compression


def by_hand(row: list[float]) -> tuple[list[float], list[int]]:
    """Element by element: the two largest of every four, and where they are."""
    values, places = [], []
    row = row + [0.0] * (-len(row) % 4)
    for start in range(0, len(row), 4):
        sizes = [np.inf if np.isnan(one) else abs(one) for one in row[start : start + 4]]
        chosen = sorted(sorted(range(4), key=lambda place, of=sizes: (-of[place], place))[:2])
        values += [row[start + place] for place in chosen]
        places += chosen
    return values, places


@pytest.mark.parametrize("k", [0, 1, 3, 4, 5, 8, 13, 64])
def test_compression_by_hand(k: int) -> None:
    x = np.random.default_rng(k).integers(-3, 4, (6, k)).astype(np.float32)
    x[1] = np.nan
    values, index = compress(x)
    assert values.shape == (6, kept(k)) and index.shape == (6, index_bytes(k)) and index.dtype == np.int8
    for i in range(6):
        expected, places = by_hand(x[i].tolist())
        np.testing.assert_array_equal(values[i], expected)
        assert places_of(index, k)[i].tolist() == places
        word = int.from_bytes(index[i].tobytes(), "little")
        assert word == sum(place << 2 * number for number, place in enumerate(places))
    np.testing.assert_array_equal(pack_index(places_of(index, k)), index)


def test_what_is_sparse_already_comes_back() -> None:
    x = np.zeros((3, 12), np.float16)
    x[0, [3, 6, 7, 8]], x[1, 11], x[2, [0, 1, 10, 11]] = (1, 2, -3, 4), 5, (6, 7, 8, 9)
    np.testing.assert_array_equal(spread(*compress(x, strict=True), 12), x)
    x[1, 8:10] = 1
    with pytest.raises(ValueError, match="columns 8 to 11 of row 1 have 3 numbers other than zero; expected at most 2"):
        compress(x, strict=True)
    assert spread(*compress(x), 12)[1].tolist() == [0] * 8 + [1, 0, 0, 5]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "keys"), [
    ("gfx942", {}),
    ("gfx90a", {"dtype": "i8", "k": 71, "lda": 41, "ld_index": 11, "stride": 73}),
    ("gfx950", {"dtype": "fp8", "k": 515}),
    ("gfx942", {"dtype": "bf8", "k": 5, "align": 1}),
    ("gfx950", {"dtype": "bf16", "k": 1024, "align": 2}),
    ("gfx942", {"m": 0}),
    ("gfx942", {"k": 0}),
    ("gfx942", {"k": 203, "index_order": "pieces"}),
    pytest.param("gfx90a", {"k": 1600, "m": 9, "index_order": "pieces"}, marks=pytest.mark.full),
    pytest.param("gfx950", {"dtype": "fp8", "k": 3, "index_order": "pieces"}, marks=pytest.mark.full),
])  # fmt: skip
def test_compression(chip: str, keys: dict[str, Any]) -> None:
    agree("compress_sparse", chip, **{"m": 17, "k": 512, **keys})


@pytest.mark.parametrize("dtype", ["f16", "bf8"])
def test_compression_of_special_values(dtype: str) -> None:
    """NaN before infinities before numbers, ties by place, zeros with their sign."""
    target = get_target("gfx950")
    problem = COMPRESS.problem(m=64, k=64, dtype=dtype)
    random = np.random.default_rng(4)
    values = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 6e-8], (64, 64))
    arrays = {"x": values.astype({"f16": np.float16, "bf8": ml_dtypes.float8_e5m2}[dtype])}
    result = run_operator(COMPRESS, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(COMPRESS, problem, arrays, result.outputs, target))
    kept_of, index = compress(arrays["x"])
    np.testing.assert_array_equal(result.outputs["index"], index)
    signs = [np.signbit(one.astype(np.float32)) for one in (result.outputs["a"], kept_of)]
    np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("order", ["pieces", pytest.param("rows", marks=pytest.mark.full)])
def test_compressed_on_the_device_and_multiplied(order: str) -> None:
    """The product is that of the matrix with all but two of every four set to zero."""
    target, (m, n, k) = get_target("gfx942"), (70, 48, 100)
    device = open_device("sim", target)
    problem = COMPRESS.problem(m=m, k=k, index_order=order)
    x = np.random.default_rng(1).standard_normal((m, k)).astype(np.float16)
    made = run_operator(COMPRESS, problem, {"x": x}, target, device).outputs
    product = GEMM.problem(m=m, n=n, k=k, out="f32", index_order=order)
    arrays = {**GEMM.inputs(product, target), **made}
    c = run_operator(GEMM, product, arrays, target, device).outputs["c"]
    pruned = spread(made["a"], in_rows(made["index"], order, k), k).astype(np.float64)
    assert (pruned != 0).sum() == m * k // 2
    np.testing.assert_allclose(c, pruned @ arrays["b"].astype(np.float64).T, rtol=1e-4, atol=1e-3)


# -- refusals


@pytest.mark.parametrize(("name", "keys", "words"), [
    ("gemm_sparse", {"layout": "CRR"}, "layout=CRR: expected RCR|RRR"),
    ("gemm_sparse", {"dtype": "f32"}, "dtype=f32: expected f16|bf16|i8|fp8|bf8"),
    ("gemm_sparse", {"k": 100, "lda": 49}, "lda=49: rows of array a have 50 elements; expected at least that"),
    ("gemm_sparse", {"k": 100, "ld_index": 12}, "ld_index=12: rows of array index have 13 elements"),
    ("gemm_sparse", {"index_order": "pieces", "ld_index": 100}, "ld_index=100: pieces of the index follow each other"),
    ("gemm_sparse", {"m": 2**18, "k": 2**17, "index_order": "pieces"}, "expected index_order=rows"),
    ("compress_sparse", {"k": 100, "lda": 49}, "lda=49: a row has 50 elements; expected at least that"),
    ("compress_sparse", {"align": 3}, "align=3: elements of x have 2 bytes"),
    ("compress_sparse", {"m": 2**20, "k": 2**20}, "kernels address at most"),
])  # fmt: skip
def test_requests_that_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        find_operator(name).problem(**keys)
    assert words in str(error.value)


def test_chips_and_shapes_that_are_refused() -> None:
    target = get_target("gfx90a")
    reasons = GEMM.validate(GEMM.spec(GEMM.problem(), target), target)
    assert "gfx90a has no sparse matrix instructions for f16; they start with gfx942" in str(reasons[0])
    target = get_target("gfx950")
    reasons = GEMM.validate(GEMM.spec(GEMM.problem(mfma=(32, 32, 16)), target), target)
    assert "gfx950 has no 32x32x16 sparse MFMA for f16 x f16" in str(reasons[0])


def test_an_index_that_names_no_two_is_refused() -> None:
    problem = GEMM.problem(m=3, n=8, k=20)
    arrays = GEMM.inputs(problem, get_target("gfx942"))
    GEMM.check_inputs(problem, arrays)
    arrays["index"][1, 1] = 0b0101 << 4 | 0b0100
    with pytest.raises(RequestError, match="four elements from column 12 of row 1 it names 1 and 1; expected two"):
        GEMM.check_inputs(problem, arrays)
