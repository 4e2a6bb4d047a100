"""Operands that lie in LDS as they do in memory, with K not contiguous: read transposed where the chip can."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernel_runner import DTYPES, Compiled, compile_traced

from ckmlir.compiler import compile_kernel
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Pointer,
    Scalar,
    copy_to_lds,
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
    zeros,
)  # fmt: skip
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

BLOCK = (64, 128, 32)
SCHEDULE = "schedule ahead 1; ahead copy 1; buffers 2; order interleave; fences memory"


def compile_product(chip: str, dtype: str, shape: str, *, copied: bool) -> Compiled:
    """c (m, n) = aᵀ · b of one block, a (k, m) and b (k, n): in neither is K contiguous."""
    target = get_target(chip)
    bm, bn, bk = BLOCK
    product = Mma.select(target, shape, dtype, block_k=bk)
    waves = (2, 2)
    arguments = {"a": ptr(dtype), "b": ptr(dtype), "c": ptr("f32"), "k": i32}

    @kernel("product", target=target, waves=4, arguments=arguments)
    def gemm(a: Pointer, b: Pointer, c: Pointer, k: Scalar) -> None:
        A, B = (view(one, (rows, k), (1, rows)).pad(rows, bk) for one, rows in ((a, bm), (b, bn)))
        start = zeros((bm, bn), "f32", product.c_over(waves, bm, bn))
        text = SCHEDULE if copied else "schedule plain 1"
        with loop(0, k, bk, carry=[start], schedule=Schedule.parse(text)) as step:
            (total,) = step.carried
            with stage("copy"):
                windows = A.window((bm, bk), (0, step.index)), B.window((bn, bk), (0, step.index))
                la, lb = (copy_to_lds(one) if copied else to_lds(load(one)) for one in windows)
            with stage("math"):
                ra, rb = la.read(product.a_over(waves, bm, bk)), lb.read(product.b_over(waves, bn, bk))
                step.carry(mma(product, ra, rb, total))
        store(step.results[0], view(c, (bm, bn), (bn, 1)).window((bm, bn), (0, 0)))

    return compile_traced(gemm)


def expect_product(compiled: Compiled, dtype: str) -> None:
    random = np.random.default_rng(5)
    for k in (1, 32, 100):
        a, b = (random.integers(-4, 5, (k, rows)).astype(DTYPES[dtype]) for rows in BLOCK[:2])
        *_, c = compiled.run(a, b, np.zeros(BLOCK[:2], np.float32), k)
        np.testing.assert_array_equal(c, a.astype(np.float32).T @ b.astype(np.float32))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("shape", ["32x32x16", "16x16x32", "32x32x8", "16x16x16"])
@pytest.mark.parametrize("copied", [False, True])
def test_gfx950_reads_transposed(dtype: str, shape: str, copied: bool) -> None:
    """The product is right, through registers and by copies, without shuffles of elements between registers."""
    compiled = compile_product("gfx950", dtype, shape, copied=copied)
    expect_product(compiled, dtype)
    assert "ds_read_b64_tr_b16" in compiled.assembly
    assert not re.search(r"\bv_perm_b32|\bds_read_u16|\bds_write_b16", compiled.assembly)
    assert set(re.findall(r"conflict_cycles = (\d+)", compiled.scheduled)) == {"0"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("copied", [False, True])
def test_other_chips_do_without(copied: bool) -> None:
    """The same program elsewhere: blocks transposed in registers, or, after copies, reads of single elements."""
    compiled = compile_product("gfx942", "f16", "32x32x8", copied=copied)
    expect_product(compiled, "f16")
    assert "tr_b16" not in compiled.assembly


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "keys"), [
    ("gemm", {"m": 256, "n": 256, "k": 256, "layout": "RRR"}),
    ("gemm", {"m": 256, "n": 256, "k": 256, "layout": "CRR"}),
    ("fmha_fwd", {"sq": 256, "d": 128}), ("fmha_fwd", {"sq": 256, "d": 64, "dtype": "bf16"}),
])  # fmt: skip
def test_operators_read_transposed(name: str, keys: dict[str, object]) -> None:
    """V of attention, and B of a GEMM with rows of N, keep their order in LDS on gfx950, without bank conflicts."""
    operator, target = find_operator(name), get_target("gfx950")
    spec = operator.spec(operator.problem(**keys), target)
    artifacts = compile_kernel(operator, spec, target, keep=("asm", "scheduled")).artifacts
    assert "ds_read_b64_tr_b16" in str(artifacts["asm"])
    assert "order 1,0" in str(artifacts["scheduled"])
    assert set(re.findall(r"conflict_cycles = (\d+)", str(artifacts["scheduled"]))) == {"0"}
