"""Attention on views: q, k and v in one packed array, heads and batches at any distance, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime import MemoryPart, check_outputs, open_device, run_operator
from ckmlir.runtime.executable import Executable
from ckmlir.targets import TARGETS, get_target

FMHA = find_operator("fmha_fwd")


def packed_problem(dtype: str, layout: str, **keys: Any) -> Any:
    """Of an array (batch, row, q or k or v, head, channel), and an output with as many rows and heads as it likes."""
    h, s, d = keys["h"], keys["sq"], keys["d"]
    strides = (s * 3 * h * d, d, 3 * h * d)
    return FMHA.problem(
        **keys, sk=s, dtype=dtype, layout=layout, q_strides=strides, k_strides=strides, v_strides=strides,
        o_strides=(2 * s * h * d, d, 2 * h * d),
    )  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(
    ("chip", "dtype", "schedule"),
    [
        ("gfx90a", "f16", None),
        ("gfx942", "bf16", "qr_async"),
        ("gfx942", "fp8", None),
        ("gfx950", "f16", "qr_async_trload"),
    ],
)
def test_q_k_and_v_are_views_of_one_array(chip: str, dtype: str, schedule: str | None, layout: str) -> None:
    """Nothing but the output is written, and of that nothing between its rows."""
    target = get_target(chip)
    b, h, s, d = 2, 3, 70, 48
    problem = packed_problem(dtype, layout, b=b, h=h, sq=s, d=d, mask="top_left", schedule=schedule)
    kind = numpy_dtype(dtype, target)
    qkv = np.random.default_rng(1).standard_normal((b, s, 3, h, d), np.float32).astype(kind)
    arrays = {name: problem.by_head(qkv[:, :, place].transpose(0, 2, 1, 3)) for place, name in enumerate("qkv")}
    device = open_device("sim", target, checks=("memory",))
    whole = device.allocate(qkv.nbytes)
    device.write(whole, qkv.view(np.uint8).reshape(-1))
    row = h * d * kind.itemsize
    memories: dict[str, Any] = {
        name: MemoryPart(whole, place * row, whole.size - place * row) for place, name in enumerate("qkv")
    }
    out = numpy_dtype(problem.out, target)
    o = np.full((b, s, 2, h, d), 7, np.float32).astype(out)
    memories["o"] = device.allocate(o.nbytes)
    device.write(memories["o"], o.view(np.uint8).reshape(-1))
    executable = Executable(device, FMHA, problem, target=target)
    executable(**memories)
    contents = np.empty(o.nbytes, np.uint8)
    device.read(contents, memories["o"])
    o = contents.view(out).reshape(o.shape)
    assert (o[:, :, 1].astype(np.float32) == 7).all()
    found = problem.by_head(o[:, :, 0].transpose(0, 2, 1, 3))
    assert [one.ok for one in check_outputs(FMHA, problem, arrays, {"o": found}, target)] == [True]
    device.read(contents := np.empty(qkv.nbytes, np.uint8), whole)
    np.testing.assert_array_equal(contents, qkv.view(np.uint8).reshape(-1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", TARGETS)
def test_distant_rows_heads_and_batches(chip: str) -> None:
    """Any order of the dimensions, gaps everywhere; lengths of 0 and 1."""
    target = get_target(chip)
    for keys in (
        {"b": 2, "h": 2, "sq": 65, "sk": 33, "d": 64, "q_strides": (200, 30000, 400), "o_strides": (64, 128, 264)},
        {"b": 3, "h": 1, "sq": 1, "sk": 1, "d": 8, "k_strides": (8, 8, 8), "q_strides": (104, 8, 16)},
        {"b": 1, "h": 2, "sq": 5, "sk": 0, "d": 32, "k_strides": (8, 8, 32), "lse": 1},
    ):
        problem = FMHA.problem(**keys)
        arrays = FMHA.inputs(problem, target, 2)
        result = run_operator(FMHA, problem, arrays, target, open_device("sim", target))
        assert all(one.ok for one in check_outputs(FMHA, problem, arrays, result.outputs, target)), keys


def test_strides_are_no_part_of_the_specification() -> None:
    target = get_target("gfx942")
    plain = FMHA.problem(b=2, h=2, sq=128, sk=128, d=64)
    far = FMHA.problem(b=2, h=2, sq=128, sk=128, d=64, q_strides="1000000x64x128")
    assert FMHA.spec(plain, target) == FMHA.spec(far, target)
    assert FMHA.mismatches(far, FMHA.spec(plain, target), target) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"q_strides": "32768x4096x60"}, "q_strides=32768x4096x60: 60 elements of f16; expected multiples of 8"),
        ({"q_strides": "32768x4096x72", "dtype": "fp8"}, "72 elements of fp8; expected multiples of 16"),
        ({"k_strides": "32768x4096x56"}, "k_strides=32768x4096x56: rows have 64 channels; expected at least that"),
        ({"v_strides": "32768x64x64"}, "elements of shape 2x2x64x64 would share a place"),
        ({"o_strides": "4096x4096x64"}, "o_strides=4096x4096x64x1: elements of shape .* would share a place"),
        ({"o_strides": "0x4096x64"}, "o_strides=0x4096x64: expected 3 positive whole numbers"),
        ({"v_strides": "32768x4096"}, "v_strides=32768x4096: expected 3 positive whole numbers"),
        ({"b": 1, "sq": 200, "q_strides": "8x2147483640x8000000"}, "a head of array q reaches over .* bytes; kernels"),
        ({"b": 1, "h": 1, "sq": 1, "o_strides": "8x8x8388616"}, "rows of array o lie 8388616 elements apart; expected"),
    ],
)  # fmt: skip
def test_strides_that_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        FMHA.problem(**{"b": 2, "h": 2, "sq": 64, "sk": 64, "d": 64, **keys})
