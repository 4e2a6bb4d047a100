"""B in fragment order: the order itself, the kernel that reads it, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from checked_runs import compiled, findings
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_runner import CHIPS, agree

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.distribution import Distribution
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.shuffle import shuffle_b, shuffled_shape, tile_depth, unshuffle_b
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.sim.checks.finding import CHECKERS
from ckmlir.sim.decode.decoder import disassemble
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
SHAPES = {"f16": "16x16x16", "bf16": "16x16x16", "fp8": "16x16x32", "i8": "16x16x32"}
"""Matrix instructions of 16 columns; gfx90a's for i8 is shorter."""


@cache
def kept(chip: str, **keys: Any) -> CompiledKernel:
    """A kernel with its tile IR and its scheduled fragments."""
    target = get_target(chip)
    spec = GEMM.spec(GEMM.problem(**{"schedule": "preshuffle", **keys}), target)
    return compile_kernel(GEMM, spec, target, keep=("tile", "scheduled"))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 70), st.integers(0, 140), st.sampled_from([16, 32]), st.sampled_from([np.int8, np.int16, np.int32])
)
def test_shuffling_is_undone(n: int, k: int, columns: int, dtype: Any) -> None:
    """Every element comes back; what fills the tiles up is zero, and nothing else is there."""
    b = np.arange(1, n * k + 1).reshape(n, k).astype(dtype)
    shuffled = shuffle_b(b, columns)
    assert shuffled.shape == shuffled_shape(n, k, columns, b.dtype.itemsize)
    assert (unshuffle_b(shuffled, n, k, columns) == b).all()
    assert np.count_nonzero(shuffled) == np.count_nonzero(b)


@pytest.mark.parametrize(("columns", "size"), [(32, 1), (32, 2), (16, 1), (16, 2)])
def test_a_tile_lies_in_the_order_of_lanes(columns: int, size: int) -> None:
    """Element j of lane l of tile (tn, tk) is of column l % columns there, and of the lane's own 16 bytes along K."""
    n, k = 2 * columns, 3 * tile_depth(columns, size)
    b = np.arange(n * k, dtype=np.int64).reshape(n, k)
    flat = shuffle_b((b % 251).astype(f"u{size}"), columns).reshape(-1)
    vector, depth = 16 // size, tile_depth(columns, size)
    for place, found in enumerate(flat):
        tile, inside = divmod(place, 64 * vector)
        lane, j = divmod(inside, vector)
        tn, tk = divmod(tile, 3)
        column, along = tn * columns + lane % columns, tk * depth + lane // columns * vector + j
        assert found == b[column, along] % 251


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "fp8", "i8"])
@pytest.mark.parametrize("columns", [16, 32])
def test_a_wave_reads_whole_tiles(chip: str, dtype: str, columns: int) -> None:
    """By the view and the distribution that the compiler loads B with, every access of a wave is one KiB in a row."""
    if (chip, dtype) == ("gfx90a", "fp8"):
        return  # no such matrix instruction
    mfma = {} if columns == 32 else {"mfma": SHAPES[dtype] if (chip, dtype) != ("gfx90a", "i8") else "16x16x16"}
    text = str(kept(chip, n=256, k=256, dtype=dtype, **mfma).artifacts["tile"])
    loads = re.findall(r"""!ck.window<\w+, "global", "([^"]*)", \[[\d, ]*\]>\) -> !ck.tile<[^"]*"([^"]*)">""", text)
    (window, placed) = {found for found in loads if "merge" in found[0]}.pop()
    descriptor, distribution = Descriptor.parse(window), Distribution.parse(placed)
    size = find_dtype(dtype).bytes
    vector, depth = 16 // size, tile_depth(columns, size)
    rows, tiles_k = distribution.lengths[0] // columns, distribution.lengths[1] // depth
    assert descriptor.vector_length(1, vector) == vector
    symbols = [rows, tiles_k * depth * columns, tiles_k * depth * columns, tiles_k]
    places = descriptor.offset(list(distribution.coordinates()), symbols)  # [wave, lane, register]
    for wave in places:
        for access in range(0, distribution.registers, vector):
            read = wave[:, access : access + vector].reshape(-1)
            assert read[0] % (64 * vector) == 0 and (read == read[0] + np.arange(64 * vector)).all()


@pytest.mark.one_in(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "fp8", "i8"])
def test_machine_code(chip: str, dtype: str) -> None:
    """B is loaded 16 bytes a lane and does not pass through LDS; no moves, no vector arithmetic, no spills, and no wait
    for all loads.
    """
    if (chip, dtype) == ("gfx90a", "fp8"):
        return
    one = kept(chip, dtype=dtype)
    code_object = one.code_object
    loop = steady_loop(code_object, one.kernel_name)
    loads = [item for item in loop.instructions if item.mnemonic.startswith("buffer_load")]
    writes = [item for item in loop.instructions if item.mnemonic.startswith("ds_write")]
    assert {item.mnemonic for item in loads} == {"buffer_load_dwordx4"}
    # 128 x 128 bytes of A by 256 work-items, in two steps; of B each wave needs half of the columns.
    assert (len(writes), len(loads)) == (2 * 4, 2 * (4 + 8))
    assert loop.mix["valu"] == loop.mix["vmov"] == loop.mix["accvgpr_move"] == loop.drains == 0
    # Two steps: places of A's and B's loads, limited to what there is (6); three counters and a comparison; a resource.
    assert loop.mix["salu"] <= 11
    metadata = code_object.kernel(one.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)
    everything = {item.mnemonic for item in disassemble(code_object, one.kernel_name)}
    assert not [name for name in everything if name.startswith("buffer_load") and name != "buffer_load_dwordx4"]
    text = str(one.artifacts["scheduled"])
    tensors = set(re.findall(r'"ck.lds_alloc"\(\) {[^}]*\bname = "(\w+)"', text))
    assert "a" in tensors and "b" not in tensors


PACKED: list[tuple[str, str, dict[str, Any]]] = [
    ("gemm_quant", "gfx942", {"b_dtype": "i4", "a_scale": "row", "b_scale": "column"}),
    ("mx_gemm", "gfx950", {"dtype": "fp4", "a_major": "tiles", "b_major": "tiles"}),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "chip", "keys"), PACKED)
def test_machine_code_of_packed_elements(name: str, chip: str, keys: dict[str, Any]) -> None:
    """B is loaded 16 bytes a lane, of which only what is converted makes vector arithmetic; nothing is spilled."""
    asked = (("m", 512), ("n", 512), ("k", 1024), ("shuffled", 32), *keys.items())
    one = compiled(name, asked, chip)
    loop = steady_loop(one.kernel.code_object, one.kernel.kernel_name)
    loads = [item.mnemonic for item in loop.instructions if item.mnemonic.startswith("buffer_load")]
    assert set(loads) <= {"buffer_load_dwordx4", "buffer_load_dword"}  # single ones are of scales
    a_step = loop.mix["mfma"] // (16 if chip == "gfx950" else 32)
    # 128 x 128 bytes of A by 256 work-items; of B, two elements in a byte, each wave needs half of the columns, and a
    # quarter where it converts them.
    assert loads.count("buffer_load_dwordx4") == a_step * (4 + (8 if chip == "gfx950" else 2))
    assert loop.mix["valu"] <= a_step * (16 if chip == "gfx950" else 1.9 * 64) and loop.drains == 0
    metadata = one.kernel.code_object.kernel(one.kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


RAGGED: list[tuple[str, dict[str, Any]]] = [
    ("f16", {"m": 100, "n": 71, "k": 125}),
    ("bf16", {"m": 37, "n": 131, "k": 321, "mfma": "16x16x16"}),
    ("fp8", {"m": 64, "n": 33, "k": 641}),
    ("i8", {"m": 130, "n": 1, "k": 1}),
    ("f16", {"m": 64, "n": 64, "k": 96, "schedule": "straight", "shuffled": 32}),
    ("f16", {"m": 64, "n": 96, "k": 256, "layout": "CCR"}),
]


def ragged_cases() -> Iterator[Any]:
    """Every chip with every size; by default each size on one chip, those of fp8 on one that has it."""
    for (number, (dtype, keys)), (place, chip) in itertools.product(enumerate(RAGGED), enumerate(CHIPS)):
        yield pytest.param(chip, dtype, keys, marks=() if number % 3 == (place + 1) % 3 else pytest.mark.full)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "dtype", "keys"), list(ragged_cases()))
def test_ragged_sizes(chip: str, dtype: str, keys: dict[str, Any]) -> None:
    """Sizes that no tile has; the trip counts 0 to 9 are among the tests of all schedules."""
    if (chip, dtype) != ("gfx90a", "fp8"):
        agree("gemm", chip, dtype=dtype, **{"schedule": "preshuffle", **keys})


MANY: list[tuple[str, str, dict[str, Any]]] = [
    ("batched_gemm", "gfx942", {"batch": "2x2", "m": 9, "n": 70, "k": 100, "b_batch": 2}),
    ("grouped_gemm", "gfx950", {"m": "67,0,5", "n": "40,8,1", "k": "100,8,0", "b_at": "0,8192,16384"}),
    ("grouped_gemm", "gfx90a", {"m": "67,0,5", "n": "40,8,1", "k": "100,8,0", "persistent": 1, "split_k": 2}),
    ("batched_gemm", "gfx90a", {"batch": 3, "m": 9, "n": 70, "k": 100, "dtype": "i8", "layout": "CCR"}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "chip", "keys"), [pytest.param(*one, marks=[pytest.mark.full] * (at > 1)) for at, one in enumerate(MANY)]
)
def test_many_products(name: str, chip: str, keys: dict[str, Any]) -> None:
    """Each matrix of a batch or a group is in tiles of its own, wherever it begins."""
    agree(name, chip, schedule="preshuffle", **keys)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_clean_under_the_checkers(chip: str) -> None:
    """No race, no access outside arrays, no unset register, no missing wait or wait state."""
    keys = (("m", 100), ("n", 71), ("k", 333), ("schedule", "preshuffle"))
    everything = [checker.name for checker in CHECKERS.values() if not checker.on_request]
    assert findings(compiled("gemm", keys, chip), checks=everything) == ()


@pytest.mark.parametrize(("keys", "why"), [
    ({"shuffled": 8}, "expected 0, 16 or 32"),
    ({"shuffled": 32, "layout": "RRR", "schedule": "straight"}, "shuffled B is made of rows along k; expected RCR"),
    ({"shuffled": 32, "layout": "CRR", "schedule": "straight"}, "shuffled B is made of rows along k; expected CCR"),
    ({"layout": "RRR", "schedule": "preshuffle"}, "shuffled B is made of rows along k; expected RCR"),
    ({"schedule": "preshuffle", "ldb": 20000}, "without gaps"),
])  # fmt: skip
def test_requests_that_are_refused(keys: dict[str, Any], why: str) -> None:
    """What no chip could do."""
    with pytest.raises(RequestError, match=why):
        GEMM.problem(**keys)


@pytest.mark.parametrize(("keys", "field", "why"), [
    ({"shuffled": 32, "schedule": "compv3"}, "schedule", "expected preshuffle or straight"),
    ({"shuffled": 0, "schedule": "preshuffle"}, "schedule", "expected straight, or B in that order"),
    ({"shuffled": 16, "schedule": "preshuffle", "mfma": "32x32x8"}, "shuffled", "expected 32"),
    ({"schedule": "preshuffle", "block": "128x128x8"}, "block", "expected a multiple of 16 along k"),
])  # fmt: skip
def test_kernels_that_are_refused(keys: dict[str, Any], field: str, why: str) -> None:
    """Order, schedule, block and instruction have to agree; the reason says what would."""
    target = get_target("gfx942")
    (reason,) = GEMM.validate(GEMM.spec(GEMM.problem(**keys), target), target)
    assert reason.field == field and why in reason.right


@pytest.mark.parametrize("b", [np.zeros(3), np.zeros((2, 2, 2))])
def test_only_matrices_are_shuffled(b: Any) -> None:
    """And only into tiles that a matrix instruction takes."""
    with pytest.raises(ValueError, match="expected 2"):
        shuffle_b(b)
    with pytest.raises(ValueError, match="16 or 32"):
        shuffle_b(np.zeros((4, 4)), 8)
    with pytest.raises(ValueError, match="shuffled is 1x512"):
        unshuffle_b(np.zeros((1, 256), np.float16), 32, 16)


def test_listed() -> None:
    """`ckmlir list --arch` knows the kernels, and names tell them from those of plain matrices."""
    names = [spec.name for spec in GEMM.kernels(get_target("gfx950")) if spec.shuffled]
    assert len(names) == 7 and all("preshuffle" in name for name in names)
    assert all(("shuffled16" if "gemm_f64" in name else "shuffled32") in name for name in names)
