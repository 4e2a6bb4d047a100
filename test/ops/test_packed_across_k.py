"""Operands of 4 and 6 bits whose elements share bytes across K, as transposed matrices have them: every operator that
takes packed types, all layouts, sizes that fill no block, on every chip and under all checkers.
"""

from typing import Any

import numpy as np
import pytest
from checked_runs import compiled
from operator_runner import checked

from ckmlir.ops import find_operator
from ckmlir.ops.packing import pack_values, unpack_values
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.scheduling.machine_loop import steady_loop
from ckmlir.targets import get_target

MX = {"a_scale": "mx", "b_scale": "mx"}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("mx_gemm", "gfx950", {"dtype": "fp4", "layout": "CRR", "m": 70, "n": 130, "k": 263}),
    ("mx_gemm", "gfx950", {"dtype": "bf6", "b_dtype": "fp8", "layout": "CCR", "m": 36, "n": 61, "k": 263}),
    ("mx_gemm", "gfx950", {"dtype": "fp6", "b_dtype": "fp4", "layout": "RRR", "m": 33, "n": 70, "k": 200,
                           "lda": 208, "ldb": 90}),
    ("mx_gemm", "gfx942", {"dtype": "fp6", "layout": "CRR", "m": 68, "n": 36, "k": 129}),
    ("mx_gemm", "gfx90a", {"dtype": "fp4", "layout": "CRR", "m": 130, "n": 34, "k": 100}),
    ("mx_gemm", "gfx950", {"dtype": "fp4", "layout": "CRR", "m": 2, "n": 2, "k": 1}),
    ("mx_gemm", "gfx950", {"dtype": "fp6", "layout": "CRR", "m": 4, "n": 4, "k": 0}),
    ("mx_gemm", "gfx950", {"dtype": "fp6", "layout": "CRR", "m": 132, "n": 140, "k": 391}),
    ("mx_gemm", "gfx950", {"dtype": "fp4", "layout": "CRR", "m": 160, "n": 96, "k": 600, "schedule": "async"}),
    ("mx_gemm", "gfx950", {"dtype": "fp4", "layout": "CCR", "m": 260, "n": 300, "k": 576, "block": "256x256x256",
                           "wave": "2x4"}),
    ("gemm_quant", "gfx942", {"b_dtype": "i4", "layout": "RRR", "zeros": 1, "m": 33, "n": 70, "k": 201}),
    ("gemm_quant", "gfx90a", {"dtype": "i8", "b_dtype": "u4", "layout": "CRR", "m": 20, "n": 34, "k": 131}),
    ("gemm_quant", "gfx950", {"dtype": "bf8", "b_dtype": "i4", "layout": "RRR", "m": 20, "n": 34, "k": 131,
                              "b_scale": "1x32"}),
    ("gated_gemm_quant", "gfx942", {"b_dtype": "i4", "layout": "RRR", "m": 33, "n": 34, "k": 129}),
    ("batched_gemm_quant", "gfx950", {"b_dtype": "u4", "layout": "RRR", "m": 17, "n": 34, "k": 129, "batch": "2"}),
    ("gemm_fp4", "gfx942", {"layout": "RRR", "dtype": "bf16", "m": 33, "n": 70, "k": 263}),
    ("gemm_int4", "gfx942", {"layout": "RRR", "m": 33, "n": 70, "k": 263, "zeros": 1}),
    ("gemm_int4", "gfx950", {"layout": "CRR", "b_dtype": "u4", "dtype": "bf16", "m": 33, "n": 70, "k": 263}),
    ("gemm_int4", "gfx90a", {"layout": "CRR", "m": 33, "n": 34, "k": 1023, "split_k": 2, "ldb": 20}),
    ("moe_gemm", "gfx950", {"layout": "RRR", "dtype": "fp4", "n": 66, "k": 130, "t": 9, "e": 3, **MX}),
    ("moe_gemm", "gfx942", {"layout": "RRR", "dtype": "fp8", "b_dtype": "i4", "n": 66, "k": 131, "t": 9, "e": 3,
                            "a_scale": "1x128", "b_scale": "1x128", "op": "silu(gate)*up"}),
]  # fmt: skip


@pytest.mark.one_in(20)
@pytest.mark.parametrize(("name", "chip", "keys"), CASES)
def test_products(name: str, chip: str, keys: dict[str, Any]) -> None:
    checked(name, chip, keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("chip", "dtype"), [("gfx950", "fp4"), ("gfx950", "fp6"), ("gfx942", "bf6")])
def test_a_transposed_matrix_is_the_same(chip: str, dtype: str) -> None:
    """To the bit: the same elements packed along the other dimension make the same product."""
    operator, target = find_operator("mx_gemm"), get_target(chip)
    keys: dict[str, Any] = {"m": 64, "n": 36, "k": 132, "dtype": dtype, "out": "f32"}

    def product(arrays: dict[str, Any], layout: str) -> Any:
        problem = operator.problem(layout=layout, **keys)
        return run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs["c"]

    plain = operator.inputs(operator.problem(**keys), target, seed=5)
    turned = {name: pack_values(unpack_values(plain[name], dtype).T, dtype) for name in ("a", "b")}
    np.testing.assert_array_equal(product(plain, "RCR"), product({**plain, **turned}, "CRR"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "chip", "keys"), [
    ("mx_gemm", "gfx950", (("dtype", "fp4"), ("layout", "CRR"), ("m", 1024), ("n", 1024), ("k", 1024))),
    ("mx_gemm", "gfx950", (("dtype", "fp6"), ("layout", "CRR"), ("m", 1024), ("n", 1024), ("k", 1024))),
    ("mx_gemm", "gfx950", (("dtype", "fp4"), ("b_dtype", "fp8"), ("layout", "CRR"), ("m", 64), ("n", 64), ("k", 132))),
    ("gemm_quant", "gfx950", (("b_dtype", "u4"), ("layout", "CRR"), ("m", 1024), ("n", 1024), ("k", 1024),
                              ("b_scale", "1x128"), ("zeros", 1))),
    ("gemm_int4", "gfx90a", (("layout", "RRR"), ("m", 1024), ("n", 1024), ("k", 1024))),
])  # fmt: skip
def test_nothing_is_spilled(name: str, chip: str, keys: tuple[tuple[str, Any], ...]) -> None:
    metadata = compiled(name, keys, chip).kernel.code_object.kernel().metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size) == (0, 0, 0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", ["CRR", "RRR"])
def test_four_bits_are_turned_by_reads(layout: str) -> None:
    """On gfx950 reads of LDS turn them, which takes no vector instruction of the loop, and copies go past registers."""
    plan = (("block", "256x256x256"), ("schedule", "async_wide"))
    keys = (("dtype", "fp4"), ("layout", layout), *((size, 4096) for size in "mnk"), *plan)
    kernel = compiled("mx_gemm", keys, "gfx950")
    loop = steady_loop(kernel.kernel.code_object, kernel.kernel.kernel_name)
    turned = [one.mnemonic for one in loop.instructions].count("ds_read_b64_tr_b4")
    assert turned >= loop.mix["mfma"] / 2 and loop.mix["valu"] == 0, loop.mix


@pytest.mark.parametrize("schedule", ["async", "straight"])
def test_schedules_that_skip_registers_are_refused(schedule: str) -> None:
    target, operator = get_target("gfx950"), find_operator("mx_gemm")
    spec = operator.spec(operator.problem(dtype="fp6", layout="RRR", schedule=schedule), target)
    words = "elements of B share bytes across k and are turned in registers"
    assert any(words in str(reason) for reason in operator.validate(spec, target)), operator.validate(spec, target)
