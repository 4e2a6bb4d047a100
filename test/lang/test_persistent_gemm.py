"""Loops around a scheduled loop: workgroups that take one tile of a product after another, and of many products.

LDS is shared between the inner loop and the epilogue as it is without the outer loop, and the steady loop is the same:
what the outer loop advances is part of the 64-bit base.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, Compiled, compile_traced

from ckmlir.codeobject import CodeObject
from ckmlir.dialect.context import shared_context
from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Scalar,
    Tile,
    View,
    cast,
    i32,
    kernel,
    load,
    loop,
    mma,
    ptr,
    stage,
    store,
    to_lds,
    view,
    workgroup_id,
    zeros,
)
from ckmlir.mlir import ir
from ckmlir.ops.schedules import GEMM
from ckmlir.passes.check_schedule import check_module
from ckmlir.scheduling.machine_loop import MachineLoop, steady_loop
from ckmlir.targets import get_target

BLOCK = BM, BN, BK = 128, 128, 64
WAVES = (2, 2)
WORKERS = 2


def contract(product: Mma, a: View, b: View, row: Scalar, column: Scalar, k: Scalar, schedule: str) -> Tile:
    """A tile of a · bᵀ by a named schedule."""
    total = zeros((BM, BN), product.acc_dtype, product.c_over(WAVES, BM, BN))
    with loop(0, k, BK, carry=[total], schedule=Schedule.parse(GEMM[schedule])) as step:
        (total,) = step.carried
        with stage("load"):
            loaded = load(a.window((BM, BK), (row, step.index))), load(b.window((BN, BK), (column, step.index)))
        with stage("to_lds"):
            left, right = to_lds(loaded[0], "a"), to_lds(loaded[1], "b")
        with stage("from_lds"):
            operands = left.read(product.a_over(WAVES, BM, BK)), right.read(product.b_over(WAVES, BN, BK))
        with stage("math"):
            step.carry(mma(product, *operands, total))
    (total,) = step.results
    return total


def instruction(chip: str) -> Mma:
    """For blocks of 64 along K."""
    shape = "32x32x16" if chip == "gfx950" else "32x32x8"
    return Mma.select(get_target(chip), shape, "f16", block_k=BK, transposed=True)


def store_through_lds(total: Tile, c: View, row: Scalar, column: Scalar) -> None:
    """Whole rows of C, 16 bytes a lane."""
    store(to_lds(cast(total, "f16")).read(coalesced((BM, BN), 4, 1, 8)), c.window((BM, BN), (row, column)))


@cache
def compile_product(chip: str, schedule: str, *, persistent: bool, k_multiple: int = 8) -> Compiled:
    """c (m, n) = a (m, k) · b (n, k)ᵀ; `persistent`: workgroups take every `workers`-th tile, else each has one."""
    product = instruction(chip)
    sizes = dict.fromkeys(("m", "n", "k", "tiles", "workers"), i32)
    arguments = {"a": ptr("f16"), "b": ptr("f16"), "c": ptr("f16"), **sizes}

    @kernel("product", target=get_target(chip), waves=4, arguments=arguments)
    def multiply(given: Any) -> None:
        m, n, k = given.m, given.n.multiple_of(8), given.k.multiple_of(k_multiple)
        a, b = view(given.a, (m, k), (k, 1)).pad(BM, BK), view(given.b, (n, k), (k, 1)).pad(BN, BK)
        c = view(given.c, (m, n), (n, 1)).pad(BM, BN)

        def one(tile: Scalar) -> None:
            columns = (n + (BN - 1)) // BN
            row, column = tile // columns * BM, tile % columns * BN
            store_through_lds(contract(product, a, b, row, column, k, schedule), c, row, column)

        if persistent:
            with loop(workgroup_id(0), given.tiles, given.workers) as turn:
                one(turn.index)
        else:
            one(workgroup_id(0))

    return compile_traced(multiply)


def loop_of(compiled: Compiled) -> tuple[CodeObject, MachineLoop]:
    """The machine code and its steady loop."""
    code = CodeObject.parse(compiled.hsaco)
    return code, steady_loop(code, compiled.kernel.name)


FITTING = [
    *((chip, schedule) for chip in CHIPS for schedule in ("compv3", "compv4")),
    ("gfx950", "async_wide"), ("gfx942", "unpipelined"), ("gfx90a", "ping_pong"), ("gfx942", "compv5"),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("chip", "schedule"), FITTING)
def test_a_persistent_product_is_as_good_as_a_plain_one(chip: str, schedule: str) -> None:
    """The same bytes of LDS, no spills, and the same steady loop: no vector arithmetic, at most 10 scalar instructions
    a step (and M0 for each copy).
    """
    kernels = [loop_of(compile_product(chip, schedule, persistent=one, k_multiple=BK)) for one in (False, True)]
    (plain_code, plain), (code, steady) = kernels
    before, after = (one.kernels["product"].metadata for one in (plain_code, code))
    assert after.group_segment_size == before.group_segment_size
    assert (after.vgpr_spill_count, after.sgpr_spill_count, after.private_segment_size) == (0, 0, 0)
    for kind in ("mfma", "lds", "vmem", "barrier", "valu"):
        assert steady.mix[kind] == plain.mix[kind]
    steps = steady.mix["mfma"] // (BM * BN * BK // (4 * 32 * 32 * (16 if chip == "gfx950" else 8)))
    sets_m0 = steady.mix["vmem"] if schedule.startswith("async") else 0
    turns = sum(instruction.mnemonic == "s_setprio" for instruction in steady.instructions)
    assert steady.mix["valu"] == 0
    assert steady.mix["salu"] - sets_m0 - turns <= 10 * steps


def expect_products(compiled: Compiled, m: int, n: int, k: int) -> None:
    """Small integers add exactly."""
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-3, 4, (max(rows, 1), max(k, 8))).astype(np.float16) for rows in (m, n))
    tiles = -(-m // BM) * -(-n // BN)
    c = np.full((m, n), 7, np.float16) if m * n else np.zeros(8, np.float16)
    *_, result = compiled.run(a, b, c, m, n, k, tiles, WORKERS, grid=(WORKERS, 1, 1), checks="all")
    if m * n:
        np.testing.assert_array_equal(result, a[:m, :k].astype(np.float32) @ b[:n, :k].astype(np.float32).T)


SHAPES = ((200, 264, 232), (130, 8, 64), (64, 640, 8), (0, 8, 8), (130, 136, 0))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_a_persistent_product_is_right(chip: str) -> None:
    """Ragged tiles, workgroups with several turns, one or none, trip counts from none to four, under all checkers."""
    for shape in SHAPES:
        expect_products(compile_product(chip, "compv4", persistent=True), *shape)


OTHERS = ("unpipelined", "v1", "v2", "mem4", "mem2_interwave", "compv3", "compv5", "compv6", "hot_loop", "ping_pong")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "schedule"), [
    ("gfx90a", "ping_pong"), ("gfx942", "compv3"), ("gfx950", "async"),
    *(pytest.param(chip, one, marks=pytest.mark.full) for chip in CHIPS for one in OTHERS),
    *(pytest.param("gfx950", one, marks=pytest.mark.full) for one in ("async_wide", "async_double", "ping_pong_async")),
])  # fmt: skip
def test_named_schedules_run_in_turns(chip: str, schedule: str) -> None:
    """With each the loop is entered anew, out of phase or not, with copies of the last turn that nobody has read."""
    compiled = compile_product(chip, schedule, persistent=True)
    with shared_context():
        assert check_module(ir.Module.parse(compiled.scheduled)) == []
    for shape in SHAPES[:2]:
        expect_products(compiled, *shape)


COLUMNS = ("m", "n", "k", "first_tile", "a", "b", "c")
"""Of the table of products: sizes, the number of the first tile, and where the matrices begin, in elements."""


@cache
def compile_products(chip: str, schedule: str) -> Compiled:
    """Many products, which a table in memory lists; a tile finds its own by looking for the last that begins before."""
    product = instruction(chip)
    arguments = {"a": ptr("f16"), "b": ptr("f16"), "c": ptr("f16"), "table": ptr("i32")}
    arguments |= dict.fromkeys(("count", "tiles", "workers"), i32)

    @kernel("products", target=get_target(chip), waves=4, arguments=arguments)
    def multiply(given: Any) -> None:
        def entry(number: Scalar, name: str) -> Scalar:
            return given.table.scalar(number * len(COLUMNS) + COLUMNS.index(name))

        with loop(workgroup_id(0), given.tiles, given.workers) as turn:
            with loop(1, given.count, 1, carry=[given.count * 0]) as search:
                (found,) = search.carried
                search.carry((turn.index >= entry(search.index, "first_tile")).select(search.index, found))
            (number,) = search.results
            m, n, k = entry(number, "m"), entry(number, "n").multiple_of(8), entry(number, "k").multiple_of(8)
            a, b, c = (getattr(given, name).offset(entry(number, name).multiple_of(8)) for name in "abc")
            across, tile = (n + (BN - 1)) // BN, turn.index - entry(number, "first_tile")
            row, column = tile // across * BM, tile % across * BN
            rows, columns = view(a, (m, k), (k, 1)).pad(BM, BK), view(b, (n, k), (k, 1)).pad(BN, BK)
            total = contract(product, rows, columns, row, column, k, schedule)
            store_through_lds(total, view(c, (m, n), (n, 1)).pad(BM, BN), row, column)

    return compile_traced(multiply)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_products_of_a_table(chip: str) -> None:
    """Groups of several sizes, empty ones among them (no rows, no products to add), under all checkers."""
    compiled = compile_products(chip, "compv4")
    code, steady = loop_of(compiled)
    metadata = code.kernels["products"].metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert metadata.group_segment_size == 65536
    assert steady.mix["salu"] <= 20  # two steps
    random = np.random.default_rng(1)
    groups = [(200, 136, 232), (0, 128, 64), (64, 264, 0), (130, 72, 80)]
    table, starts, first = [], [0, 0, 0], 0
    for m, n, k in groups:
        table.append((m, n, k, first, *starts))
        starts = [start + size for start, size in zip(starts, (m * k, n * k, m * n), strict=True)]
        first += -(-m // BM) * -(-n // BN)
    a, b = (random.integers(-3, 4, size).astype(np.float16) for size in starts[:2])
    c = np.full(starts[2], 7, np.float16)
    arguments = a, b, c, np.array(table, np.int32), len(groups), first, 3
    result = compiled.run(*arguments, grid=(3, 1, 1), checks="all")[2]
    for (m, n, k), (*_, at_a, at_b, at_c) in zip(groups, table, strict=True):
        left = a[at_a : at_a + m * k].reshape(m, k).astype(np.float32)
        right = b[at_b : at_b + n * k].reshape(n, k).astype(np.float32)
        np.testing.assert_array_equal(result[at_c : at_c + m * n].reshape(m, n), left @ right.T)
