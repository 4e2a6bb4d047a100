"""Atomic updates of global memory by many workgroups at once, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CHIPS, DTYPES, Compiled, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import (
    Pointer,
    Scalar,
    TracingError,
    atomic_add,
    atomic_max,
    i32,
    kernel,
    load,
    ptr,
    redistribute,
    to_lds,
    view,
    workgroup_id,
)
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.targets import get_target

TILE = (8, 64)
GROUPS = 5
REPLICATED = Distribution.parse("r: 2@wave 2@lane, d0: 8@y0, d1: 32@lane 2@y1")


def compile_update(
    chip: str, kind: str, dtype: str, *, distribution: Distribution | None = None, pitch_multiple: int = 2
) -> Compiled:
    """Workgroup i updates one array (m, n) with tile i of another; two waves, ragged sizes."""
    arguments = {"x": ptr(dtype), "y": ptr(dtype), "m": i32, "n": i32, "pitch": i32}
    where = distribution or coalesced(TILE, 2, 1, 4)

    @kernel("update", target=get_target(chip), waves=2, arguments=arguments)
    def update(x: Pointer, y: Pointer, m: Scalar, n: Scalar, pitch: Scalar) -> None:
        source = view(x, (GROUPS, *TILE), (TILE[0] * TILE[1], TILE[1], 1)).freeze(0, workgroup_id(0))
        columns = n.multiple_of(pitch_multiple)
        target = view(y, (m, columns), (pitch.multiple_of(pitch_multiple), 1)).pad(*TILE).window(TILE, (0, 0))
        tile = load(source.window(TILE, (0, 0)), coalesced(TILE, 2, 1, 4))
        (atomic_add if kind == "add" else atomic_max)(redistribute(tile, where), target)

    return compile_traced(update)


def expect_update(compiled: Compiled, kind: str, dtype: str, m: int = 7, n: int = 62, pitch: int = 66) -> None:
    """Small integers add exactly in every type, in any order; of i64 they are multiples of 2^33."""
    random, unit = np.random.default_rng(4), 1 << 33 if dtype == "i64" else 1
    x = (random.integers(-9, 10, (GROUPS, *TILE)) * unit).astype(DTYPES[dtype])
    y = (random.integers(-9, 10, (9, pitch)) * unit).astype(DTYPES[dtype])
    _, result = compiled.run(x, y, m, n, pitch, grid=(GROUPS, 1, 1))
    expected = y.copy()
    part = x[:, :m, :n].astype(np.float64)
    old = y[:m, :n].astype(np.float64)
    expected[:m, :n] = old + part.sum(axis=0) if kind == "add" else np.maximum(old, part.max(axis=0))
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


CASES = [
    (chip, kind, dtype)
    for chip in CHIPS
    for kind, dtypes in (("add", ("f32", "f64", "i32", "i64", "f16", "bf16")), ("max", ("f32", "f64", "i32", "i64")))
    for dtype in dtypes
    if (chip, dtype) != ("gfx90a", "bf16")
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("chip", "kind", "dtype"), CASES)
def test_update(chip: str, kind: str, dtype: str) -> None:
    """Every kind, type and chip; what lies outside the tensor, and its gaps, stay as they were."""
    expect_update(compile_update(chip, kind, dtype), kind, dtype)


@pytest.mark.parametrize(("chip", "dtype"), [
    ("gfx942", "f32"), ("gfx942", "bf16"), ("gfx950", "bf16"), ("gfx90a", "f16"),
])  # fmt: skip
def test_copies_update_once(chip: str, dtype: str) -> None:
    """Of several threads that hold an element one updates it."""
    expect_update(compile_update(chip, "add", dtype, distribution=REPLICATED), "add", dtype)


@pytest.mark.parametrize(("chip", "dtype", "instruction"), [
    ("gfx90a", "f16", "buffer_atomic_pk_add_f16"), ("gfx942", "bf16", "global_atomic_pk_add_bf16"),
    ("gfx950", "bf16", "buffer_atomic_pk_add_bf16"), ("gfx942", "f32", "buffer_atomic_add_f32"),
])  # fmt: skip
def test_one_instruction_and_no_loop(chip: str, dtype: str, instruction: str) -> None:
    """The chip's own instruction, never a loop of compare-and-swap."""
    assembly = compile_update(chip, "add", dtype).assembly
    assert instruction in assembly
    assert "cmpswap" not in assembly


def test_float_maximum_of_zeros_and_infinities() -> None:
    """The order of floats is kept by the integer instructions that stand for it."""
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-40, 3.5, -3.5], np.float32)
    x = np.tile(values, (GROUPS, 8, 8)).astype(np.float32)
    y = np.repeat(values, 8)[None, :].repeat(8, axis=0).astype(np.float32)
    _, result = compile_update("gfx942", "max", "f32").run(x, y, 8, 64, 64, grid=(GROUPS, 1, 1))
    np.testing.assert_array_equal(result, np.maximum(y, x[0]))


@pytest.mark.parametrize(("chip", "kind", "dtype", "message"), [
    ("gfx90a", "add", "bf16", r"atomic add of bf16: gfx90a has no .*packed bf16 atomic add.*; gfx942, gfx950 have"),
    ("gfx942", "add", "i8", "no chip here has an atomic add of i8; there are those of f32, f64, i32, i64, f16, bf16"),
    ("gfx942", "max", "f16", "no chip here has an atomic max of f16; there are those of f32, f64, i32, i64"),
])  # fmt: skip
def test_what_a_chip_lacks_is_named(chip: str, kind: str, dtype: str, message: str) -> None:
    """No compare-and-swap loop in its stead, and no crash of the backend."""
    with pytest.raises(PipelineFailure, match=message):
        compile_update(chip, kind, dtype)


def test_pairs_must_be_neighbours() -> None:
    """A row pitch that may be odd leaves no pairs of 16-bit elements."""
    with pytest.raises(PipelineFailure, match="f16 is updated in pairs"):
        compile_update("gfx942", "add", "f16", pitch_multiple=1)


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_dimensions_without_a_padding_end_too(chip: str) -> None:
    """Through a pointer, which no buffer's size keeps inside, as in a buffer."""
    arguments = {"x": ptr("bf16"), "y": ptr("bf16"), "m": i32}

    @kernel("update", target=get_target(chip), waves=2, arguments=arguments)
    def update(x: Pointer, y: Pointer, m: Scalar) -> None:
        tile = load(view(x, TILE, (TILE[1], 1)).window(TILE, (0, 0)), coalesced(TILE, 2, 1, 4))
        atomic_add(tile, view(y, (m, TILE[1]), (TILE[1], 1)).window(TILE, (0, 0)))

    x, y = (np.full(TILE, value, DTYPES["bf16"]) for value in (3, 1))
    _, found = compile_traced(update).run(x, y, 5)
    np.testing.assert_array_equal(found.astype(int), np.where(np.arange(TILE[0])[:, None] < 5, 4, 1) + np.zeros(TILE))


def test_lds_is_no_window() -> None:
    """What cannot be updated is said."""
    with pytest.raises(TracingError, match="atomic_add takes a window as window, not an LDS tensor"):

        @kernel("update", target=get_target("gfx942"), waves=2, arguments={"x": ptr("f32")})
        def update(x: Pointer) -> None:
            tile = load(view(x, TILE, (TILE[1], 1)).window(TILE, (0, 0)))
            atomic_add(tile, to_lds(tile))  # type: ignore[arg-type]
