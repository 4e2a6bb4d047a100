"""Empty arrays, and sizes at the end of what a kernel counts: no access outside, no traceback, RequestError where a
request cannot be met."""

from __future__ import annotations

from typing import Any

import pytest
from operator_runner import CHIPS

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError
from ckmlir.runtime import run_operator
from ckmlir.runtime.run import check_outputs
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.sim.checks import parse_checks
from ckmlir.targets import get_target

ALL = parse_checks("all")
EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("reduce", {"shape": (0, 3, 9), "dims": (2,), "split": 16}),
    ("reduce", {"shape": (0, 3, 9), "dims": (2,), "ops": "sum,max", "split": 3}),
    ("reduce", {"shape": (3, 0, 9), "dims": (1,), "split": 4, "ops": "mean,max"}),
    ("reduce", {"shape": (5, 0), "atomic": 1, "out": "f32", "ops": "amax", "split": 2}),
    ("reduce", {"shape": (0,)}),
    ("reduce", {"shape": (3, 0, 70000, 70000), "dims": (1, 2, 3)}),
    ("quantize_blocks", {"m": 17, "n": 0, "stride": 8, "out": "i8"}),
    ("quantize_blocks", {"m": 0, "n": 70000, "block": "128x128", "out": "i8"}),
    ("quantize_rows", {"m": 17, "n": 0, "stride": 8, "out": "i8"}),
    ("quantize_tensor", {"shape": (3, 0, 70000, 70000), "out": "i8"}),
    ("dequantize", {"m": 0, "n": 70000, "block": "128x128", "dtype": "i8"}),
    ("moe_smoothquant", {"m": 17, "n": 0, "k": 5, "stride": 2}),
    ("moe_smoothquant", {"m": 17, "n": 5, "k": 0}),
    ("moe_smoothquant", {"m": 17, "n": 5, "experts": 0}),
    ("layernorm2d", {"m": 17, "n": 0, "stride": 8, "ystride": 16, "save_stats": 1}),
    ("rmsnorm2d", {"m": 3, "n": 0, "stride": 4, "quant": "dynamic", "q_stride": 16}),
    ("softmax", {"m": 300, "n": 0, "stride": 8, "mask": 1, "mask_stride": 16}),
    ("permute", {"shape": (0, 65536, 65536), "perm": (1, 0, 2)}),
    ("cast", {"shape": (0, 65536, 65536), "strides": (1, 65536, 1)}),
    ("cast", {"shape": (65536, 65536, 0), "dtype": "f32", "out": "f16"}),
    ("elementwise", {"op": "a + b", "shape": (70000, 0, 70000, 70000), "b": (1,)}),
    ("batched_transpose", {"n": 0, "c": MAXIMUM_SIZE, "h": 70000}),
    ("img2col", {"n": 0, "image": (70000, 70000)}),
    ("img2col", {"image": (0, 70000), "pads": (1, 0), "window": (2, 3), "strides": (1, 7000), "c": 2}),
    ("pooling", {"n": 0, "image": (70000, 70000)}),
    ("conv_bwd_data", {"n": 0, "image": (70000, 70000)}),
    ("conv_bwd_data", {"image": (0, 5), "c": 256, "k": 256}),
    ("conv_bwd_weight", {"n": 0, "image": (700, 700)}),
    ("conv_fwd", {"n": 0, "image": (70000, 70000)}),
    ("conv_fwd", {"image": (0, 700), "pads": (1, 0), "c": 3}),
    ("pooling", {"image": (0, 700), "pads": (1, 0), "c": 3, "index": 1}),
    ("fmha_fwd", {"sq": 0, "h": MAXIMUM_SIZE, "layout": "bshd", "lse": 1}),
    ("fmha_fwd", {"b": 0, "h": MAXIMUM_SIZE}),
    ("fmha_fwd", {"sk": 0, "sq": 5, "lse": 1}),
    ("gemm", {"m": 5, "n": 7, "k": 0, "lda": 8, "ldb": 16}),
    ("gemm", {"m": 0, "n": 70000, "k": 50}),
    ("unpack_int4", {"shape": (0, MAXIMUM_SIZE - 1)}),
    ("scatter_rows", {"rows": 0, "m": 5}),
    ("moe_sorting", {"t": 0, "width": 5}),
    ("moe_gemm", {"t": 0, "n": 70000}),
    ("fused_moe", {"t": 0, "hidden": 70000}),
    ("fused_moe", {"t": 3, "hidden": 0}),
    ("moe_layer", {"t": 3, "inter": 0}),
    ("batchnorm2d", {"n": 0, "hw": 70000}),
    ("batchnorm2d", {"c": 0, "hw": 70000, "running": 1}),
    ("batchnorm2d_infer", {"hw": 0, "layout": "nchw"}),
    ("batchnorm2d_bwd", {"n": 0, "hw": 70000, "layout": "nchw"}),
    ("layernorm2d_bwd", {"m": 0, "n": 70000}),
    ("rmsnorm2d_bwd", {"m": 5, "n": 0}),
    ("softmax_bwd", {"m": 0, "n": 70000}),
    ("mhc", {"m": 0, "c": 70000}),
    ("mhc", {"m": 5, "c": 0}),
    ("mhc_coefficients", {"m": 0, "parts": 70000}),
    ("mhc_input", {"m": 5, "c": 0, "ystride": 8}),
    ("mhc_post", {"m": 0, "c": 70000}),
    ("moe_gemm", {"n": 0, "k": 70000, "c_rows": "token"}),
    ("moe_gemm", {"k": 0, "c_rows": "token", "t": 5}),
]  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "keys"), EMPTY)
def test_what_has_no_elements_touches_nothing(name: str, keys: dict[str, Any]) -> None:
    """Under all checkers, and compared with the reference; nothing to launch where no output has elements."""
    chip = CHIPS[len(keys) % len(CHIPS)]
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    device = SimulatorDevice(target, checks=ALL)
    result = run_operator(operator, problem, arrays, target, device)
    comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
    if not any(array.nbytes for array in operator.arrays(problem) if array.role == "out"):
        assert not result.plan.steps


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("cast", {"shape": (0, *[MAXIMUM_SIZE] * 3)}, "its lengths span more than 2^63 - 1 bytes"),
        ("cast", {"shape": (2147483640, 8192, 65537, 0)}, "its lengths span more than 2^63 - 1 bytes"),
        ("reduce", {"shape": (2**19, 2147483640, 0)}, "workgroups; one launch takes"),
        ("reduce", {"shape": (5, 7), "split": 2**24}, "split=16777216: as many for each tile of results are 16777216"),
        ("reduce", {"shape": (70000, 70000, 3), "dims": (2,), "split": 2}, "there are 4900000000 results"),
        ("img2col", {"n": 1, "image": (70000, 70000), "strides": (40000,)}, "from one image to the next"),
        ("img2col", {"image": (MAXIMUM_SIZE,), "window": (1,), "pads": (5,), "strides": (MAXIMUM_SIZE,), "c": 1},
         "an image with its padding is as long as 2147483657"),
        ("img2col", {"image": (9,), "window": (1,), "g": 70000, "c": 70000}, "from one image to the next"),
        ("pooling", {"image": (9,), "window": (3,), "dilations": (2**30,), "pads": (MAXIMUM_SIZE,)}, "as long as"),
        ("pooling", {"image": (2**20, 2**20), "window": (2**16, 2**16), "strides": (2**20,), "c": 1}, "number"),
        ("copy", {"m": MAXIMUM_SIZE, "n": MAXIMUM_SIZE}, "workgroups; one launch takes"),
        ("gather_rows", {"rows": 9, "n": 4, "stride": MAXIMUM_SIZE}, "9x4 with rows 2147483647 elements apart takes"),
        ("elementwise", {"op": "+".join("a" * 1000)}, "characters; expected at most 2000"),
        ("elementwise", {"op": "a + 3000000000", "dtype": "i32"}, "3000000000 is not a 32-bit integer"),
        ("elementwise", {"op": lambda a: a * float("nan")}, "nan is not a part of an expression"),
    ],
)  # fmt: skip
def test_sizes_that_kernels_do_not_count_are_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as error:
        find_operator(name).problem(**keys)
    assert words in str(error.value)


def test_steps_of_a_reduction_are_no_workgroups() -> None:
    """A kernel covers the problem that it was chosen for, however many tiles are reduced."""
    operator, target = find_operator("reduce"), get_target("gfx942")
    problem = operator.problem(shape=(2**16, 2**27), dims=(1,), dtype="i8", out="f32")
    assert not operator.mismatches(problem, operator.spec(problem, target), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_size_is_read_or_refused(name: str) -> None:
    """Each key of a size at its ends, alone and with all others small: a problem with a launch, or a RequestError."""
    operator, target = find_operator(name), get_target("gfx942")
    sizes = [key.name for key in operator.keys if type(key).__name__ == "Integer"]
    for size in sizes:
        for number in (0, 1, 65537, MAXIMUM_SIZE):
            for others in (0, 1, None):
                keys = dict.fromkeys(sizes, others) if others is not None else {}
                try:
                    problem = operator.problem(**{**keys, size: number})
                    spec = operator.spec(problem, target)
                    if not operator.validate(spec, target):
                        operator.launch(problem, spec, target)
                except RequestError:
                    continue


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "keys",
    [
        {"m": 16, "n": 16, "dtype": "i8"},
        {"m": 100, "n": 1, "dtype": "i8", "ystride": 4},
        {"m": 1, "n": 4, "dtype": "f32"},
        {"m": 3, "n": 1028, "dtype": "i8"},
        {"m": 33, "n": 24, "dtype": "f16", "stride": 32, "ystride": 40},
    ],
)
def test_small_copies_straight_to_lds(keys: dict[str, Any], chip: str) -> None:
    """Every wave copies bytes of its own, a whole instruction's at least."""
    operator, target = find_operator("copy"), get_target(chip)
    problem = operator.problem(through="direct", **keys)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, SimulatorDevice(target, checks=ALL))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
