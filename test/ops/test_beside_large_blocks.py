"""Products with matrices beside the sums of large blocks, or single elements of C: which block and instruction they
are given, and that nothing is spilled."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.targets import get_target

FOUR = {"op": "gelu(acc) * d0 + d1 * d2 + silu(d3)", "d": "f32,f32,f32,f32"}
BIAS = {"m": 6722, "n": 8439, "k": 2304, "op": "gelu(acc + d0) + d1", "d_kind": "row,full"}


BESIDE: list[tuple[str, str, dict[str, Any], tuple[int, int, int], tuple[int, int, int]]] = [
    # Three matrices or more beside the sums, or single elements of two, or of one and 8 bits: small slices.
    ("gfx950", "gemm", {**BIAS, **FOUR, "d_kind": "full,full,full,full", "out": "f32"}, (256, 256, 64), (16, 16, 32)),
    ("gfx942", "gemm", {**BIAS, **FOUR, "d_kind": "full,full,full,full", "out": "f32"}, (192, 256, 64), (16, 16, 16)),
    ("gfx942", "gemm", {**BIAS, "n": 8440, "op": "gelu(acc + d0) + d1 + d2 + d3", "d_kind": "row,full,full,full",
                        "dtype": "i8", "out": "f32"}, (192, 256, 128), (16, 16, 32)),
    ("gfx950", "gemm", {**BIAS, "out": "fp8"}, (256, 256, 64), (16, 16, 32)),
    # What needs fewer registers keeps the largest block and instruction.
    ("gfx950", "gemm", BIAS, (256, 256, 64), (32, 32, 16)),
    ("gfx942", "gemm", {**BIAS, "n": 8440, "d_kind": "full,full"}, (256, 256, 64), (32, 32, 8)),
    # A block that the request names: matrix instructions of few columns.
    ("gfx90a", "gemm", {"m": 1000, "n": 515, "k": 1020, "dtype": "bf16", "layout": "CCR", "block": (256, 256, 16),
                        "wave": (2, 2), "op": "gelu(acc + d0) * 0.5 + d1"}, (256, 256, 16), (16, 16, 16)),
    # Straight from the sums, slices with the same columns come after each other: lanes have 64 and 32 columns.
    ("gfx90a", "gemm", {"m": 1000, "n": 515, "k": 1020, "dtype": "bf16", "layout": "CCR", "block": (256, 256, 16),
                        "wave": (4, 1), "op": "gelu(acc + d0) * 0.5 + d1"}, (256, 256, 16), (16, 16, 16)),
    ("gfx950", "batched_gemm", {"m": 1024, "n": 1023, "k": 256, "dtype": "bf16", "batch": (4,), "op": "gelu(acc) * d0",
                                "block": (256, 256, 64), "wave": (4, 2), "epilogue": "direct"}, (256, 256, 64),
     (32, 32, 16)),
    # Single elements straight from the sums, in a batch.
    ("gfx942", "batched_gemm", {"m": 2784, "n": 2401, "k": 3968, "dtype": "i8", "batch": (2, 2)}, (192, 256, 128),
     (32, 32, 16)),
    # Bytes that an expression combines as they are loaded one by one.
    ("gfx90a", "gemm_multi_abd", {"m": 512, "n": 512, "k": 513, "dtype": "i8", "layout": "CCR"}, (64, 64, 128),
     (16, 16, 16)),
    ("gfx942", "gemm_multi_abd", {"m": 514, "n": 514, "k": 514, "dtype": "i8"}, (64, 64, 128), (16, 16, 32)),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "name", "keys", "block", "mfma"), BESIDE)
def test_what_is_beside_large_blocks(
    chip: str, name: str, keys: dict[str, Any], block: tuple[int, int, int], mfma: tuple[int, int, int]
) -> None:
    """Matrices beside the sums, and single elements of C, take registers that large blocks leave few of."""
    operator = find_operator(name)
    spec = operator.spec(operator.problem(**keys), get_target(chip))
    assert isinstance(spec, ContractionSpec) and (spec.block, spec.mfma) == (block, mfma)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("chip", "name", "keys"), [case[:3] for case in BESIDE])
def test_what_is_beside_large_blocks_spills_nothing(chip: str, name: str, keys: dict[str, Any]) -> None:
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**keys), target)
    kernel = compile_kernel(operator, spec, target)
    found = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (found.vgpr_spill_count, found.sgpr_spill_count, found.private_segment_size) == (0, 0, 0)
