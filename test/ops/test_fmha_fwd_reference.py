"""fmha_fwd: masks against their definition, the reference key by key, tolerances, specifications, refusals."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckmlir.ops import find_operator
from ckmlir.ops.attention import reference
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, FmhaFwdSpec
from ckmlir.ops.attention.masks import Mask
from ckmlir.ops.comparison import compare
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.targets import all_targets, get_target

FMHA = find_operator("fmha_fwd")
GFX942 = get_target("gfx942")

MASKS = st.one_of(
    st.sampled_from(["none", "top_left", "bottom_right"]),
    st.builds(
        "{}:{},{}{}".format,
        st.sampled_from(["window", "window_bottom_right"]),
        st.integers(-1, 12),
        st.one_of(st.integers(-1, 12), st.just(2**31 - 1)),
        st.sampled_from(["", ",0", ",1", ",5", ",2147483647"]),
    ),
    st.builds("generic:{},{}".format, st.integers(1, 12), st.integers(1, 12)),
    st.builds("{}:{}".format, st.sampled_from(["xformers", "xformers_bottom_right"]), st.integers(-2, 12)),
)


def _attends(mask: str, i: int, j: int, queries: int, keys: int) -> bool:
    """The definition, without the code under test."""
    aligned = i + keys - queries
    if mask == "none":
        return True
    if mask == "top_left":
        return j <= i
    if mask == "bottom_right":
        return j <= aligned
    kind, _, bounds = mask.partition(":")
    numbers = list(map(int, bounds.split(",")))
    center = aligned if "bottom_right" in kind else i
    if kind == "generic":
        y, x = numbers
        return i - y + 1 <= j < i + x
    if kind.startswith("xformers"):
        (width,) = numbers
        return j <= center if width <= 0 else -(width // 2) <= j - center < width - width // 2
    left, right, sink = (*numbers, 0)[:3]
    return (left == -1 or j >= center - left or j < sink) and (right == -1 or j <= center + right)


@given(mask=MASKS, queries=st.integers(0, 14), keys=st.integers(0, 14))
@settings(max_examples=300)
def test_masks_and_their_coordinates(mask: str, queries: int, keys: int) -> None:
    parsed = Mask.parse(mask)
    assert Mask.parse(str(parsed)) == parsed
    kept = parsed.kept(range(queries), queries, keys)
    y, x = parsed.coordinates(queries, keys)
    assert min(y, x) >= -(2**31)
    assert max(y, x) < 2**31
    for i in range(queries):
        first, last = max(0, i - y + 1), min(i + x, keys)
        for j in range(keys):
            expected = _attends(mask, i, j, queries, keys)
            assert kept[i, j] == expected
            assert (first <= j < last or j < min(parsed.sink, last)) == expected
            if parsed.kind == "causal":  # the kernel tests this bound only
                assert (j < min(i + x, keys)) == expected
            if parsed.kind == "none":
                assert expected
    assert parsed.pairs(queries, keys) == kept.sum()


@given(mask=MASKS, lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4))
@settings(max_examples=200)
def test_coordinates_of_sequences_follow_from_those_of_the_longest(mask: str, lengths: list[tuple[int, int]]) -> None:
    parsed = Mask.parse(mask)
    y, x = parsed.cornerless(*map(max, zip(*lengths, strict=True)))
    for queries, keys in lengths:
        shift = (keys - queries) * parsed.bottom_right
        for i in range(queries):
            end = min(i + x + shift, keys)
            begin = i - (y - shift) + 1 if parsed.kind in ("window", "sinks") else 0
            for j in range(keys):
                found = j < end and (j >= begin or j < parsed.sink) if parsed.kind != "none" else True
                assert found == _attends(mask, i, j, queries, keys)


def _softmax_row_by_row(problem, arrays) -> tuple[np.ndarray, np.ndarray]:
    o = np.zeros(problem.shape("o"))
    lse = np.full((problem.b, problem.h, problem.sq), -math.inf)
    bhsd = problem.layout == "bhsd"
    for b in range(problem.b):
        for h in range(problem.h):
            shared = h // (problem.h // problem.hk)
            for i in range(problem.sq):
                query = (arrays["q"][b, h, i] if bhsd else arrays["q"][b, i, h]).astype(np.float64)
                total, numerator = 0.0, np.zeros(problem.dv)
                for j in range(problem.sk):
                    if not _attends(str(problem.mask), i, j, problem.sq, problem.sk):
                        continue
                    key, value = (
                        (arrays[name][b, shared, j] if bhsd else arrays[name][b, j, shared]).astype(np.float64)
                        for name in ("k", "v")
                    )
                    weight = math.exp(problem.scale * float(query @ key))
                    total += weight
                    numerator += weight * value
                if total:
                    lse[b, h, i] = math.log(total)
                    o[(b, h, i) if bhsd else (b, i, h)] = numerator / total
    return o, lse


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(
    "mask", ["none", "top_left", "bottom_right", "window:2,1", "window_bottom_right:0,0", "window:-1,2"]
)
@pytest.mark.parametrize(("sq", "sk"), [(1, 1), (7, 5), (4, 9), (3, 0), (0, 3)])
def test_reference_key_by_key(layout: str, mask: str, sq: int, sk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "REFERENCE_ROWS", 3)  # several blocks of queries
    problem = FMHA.problem(b=2, h=4, hk=2, sq=sq, sk=sk, d=8, dv=16, mask=mask, layout=layout, lse=1)
    arrays = FMHA.inputs(problem, GFX942, seed=1)
    outputs = FMHA.reference(problem, arrays)
    o, lse = _softmax_row_by_row(problem, arrays)
    np.testing.assert_allclose(outputs["o"], o, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(outputs["lse"], lse, rtol=1e-11, atol=1e-12)


def test_large_scores_do_not_overflow() -> None:
    problem = FMHA.problem(sq=2, sk=3, h=1, d=8, scale=1e4, lse=1)
    outputs = FMHA.reference(problem, FMHA.inputs(problem, GFX942))
    assert np.isfinite(outputs["o"]).all()
    assert np.isfinite(outputs["lse"]).all()


def _flash_in_f32(problem, arrays, block: int, skip: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """One head as a kernel computes it: blocks of keys, f32 scores, P rounded to the dtype; `skip` drops one key."""
    q, k, v = (arrays[name][0, 0].astype(np.float32) for name in "qkv")
    dtype = numpy_dtype(problem.dtype, GFX942)
    largest = np.full(problem.sq, -np.inf, np.float32)
    total = np.zeros(problem.sq, np.float32)
    o = np.zeros((problem.sq, problem.dv), np.float32)
    for start in range(0, problem.sk, block):
        keys = slice(start, start + block)
        s = (q @ k[keys].T) * np.float32(problem.scale * math.log2(math.e))
        if skip is not None and start <= skip < start + block:
            s[:, skip - start] = -np.inf
        larger = np.maximum(largest, s.max(axis=1))
        rescale, p = np.exp2(largest - larger), np.exp2(s - larger[:, None])
        total = total * rescale + p.sum(axis=1)
        o = o * rescale[:, None] + p.astype(dtype).astype(np.float32) @ v[keys]
        largest = larger
    lse = largest * np.float32(math.log(2)) + np.log(total)
    return (o / total[:, None]).astype(dtype)[None, None], lse.astype(np.float32)[None, None]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(("sq", "sk", "d", "block"), [(64, 32, 32, 32), (64, 300, 128, 64), (32, 1500, 64, 32)])
def test_tolerances_admit_a_flash_kernel_and_no_missing_key(dtype: str, sq: int, sk: int, d: int, block: int) -> None:
    problem = FMHA.problem(b=1, h=1, sq=sq, sk=sk, d=d, dtype=dtype, lse=1)
    arrays = FMHA.inputs(problem, GFX942, seed=7)
    reference = FMHA.reference(problem, arrays)
    tolerances = FMHA.tolerances(problem, arrays, reference, GFX942)
    o, lse = _flash_in_f32(problem, arrays, block)
    for name, found in (("o", o), ("lse", lse)):
        result = compare(name, found, reference[name], tolerances[name])
        assert result.ok, str(result)
    o, lse = _flash_in_f32(problem, arrays, block, skip=sk // 2)
    assert not compare("o", o, reference["o"], tolerances["o"]).ok
    assert not compare("lse", lse, reference["lse"], tolerances["lse"]).ok


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_default_kernels(target) -> None:
    listed = FMHA.kernels(target)
    assert {spec.dtype for spec in listed} == {"f16", "bf16", "f32", *(["fp8"] if target.fp8 else [])}
    lacking = set() if target.fp8 else {"headscales", "blockscales", "outputscale"}
    if not any(one.scaled for one in target.mfmas("fp8")):
        lacking.add("mxscales")
    names = {part.name for part in FMHA.parts} - lacking
    assert {word.partition("_")[0] for spec in listed for word in spec.parts} == names
    assert any(spec.varied for spec in listed) and any(spec.v_columns for spec in listed)
    specs = [
        one for one in listed
        if one.dtype != "f32" and not (one.parts or one.varied or one.v_columns or one.mask == "sinks")
        and one.along_keys == 1 and not one.packed
    ]  # fmt: skip
    dtypes = 2 if target.fp8 is None else 3
    high = [spec.dtype for spec in specs if spec.block[0] == 256]  # of many workgroups
    assert sorted(high) == ["bf16", "f16", *["fp8"] * (target.name == "gfx942")]
    assert len(specs) - len(high) == dtypes * len(HEAD_TILES) * 3 * 2
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(re.fullmatch(r"[a-z0-9_]+", spec.name) for spec in specs)
    for spec in specs:
        assert FMHA.validate(spec, target) == []
        assert FmhaFwdSpec.from_json(spec.to_json()) == spec


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_every_pair_of_head_sizes_has_a_kernel(target) -> None:
    for d in range(8, 257, 8):
        for dv in (8, 40, 64, 96, 136, 256):
            spec = FMHA.spec(FMHA.problem(sq=100, sk=100, d=d, dv=dv), target)
            assert FMHA.validate(spec, target) == []
            assert spec.d_tile in HEAD_TILES
            assert spec.d_tile >= d > max([0, *(tile for tile in HEAD_TILES if tile < spec.d_tile)])
            assert (spec.pad_sq, spec.pad_sk) == (True, True)


@pytest.mark.parametrize(("layout", "swapped"), [("bhsd", False), ("bshd", True)])
def test_launch(layout: str, swapped: bool) -> None:
    problem = FMHA.problem(
        b=3, h=4, hk=2, sq=130, sk=77, d=64, dv=32, layout=layout, lse=1, mask="window_bottom_right:5,0", scale=0.5
    )
    spec = FMHA.spec(problem, GFX942)
    launch = FMHA.launch(problem, spec, GFX942)
    assert launch.grid == (2, 4, 3)
    assert launch.block == (256, 1, 1)
    assert launch.arguments[:5] == ("q", "k", "v", "o", "lse")
    assert [int(value) for value in launch.arguments[5:9]] == [130, 77, 4, 2]
    assert launch.arguments[9] == np.float32(0.5 * math.log2(math.e))
    assert launch.arguments[10] == 130  # rows of a head of LSE
    strides = launch.arguments[11:23]
    assert [type(value) for value in strides] == [np.int32, np.int64, np.int64] * 4
    expected = []
    for heads, length, channels in ((4, 130, 64), (2, 77, 64), (2, 77, 32), (4, 130, 32)):
        sequence, head = (heads * channels, channels) if swapped else (channels, length * channels)
        expected += [sequence, head, heads * length * channels]
    assert [int(value) for value in strides] == expected
    assert [int(value) for value in launch.arguments[23:]] == [5 + 1 - (77 - 130), 0 + 1 + (77 - 130)]
    for keys in ({"sq": 0}, {"sq": 17, "seqlens_q": (0, 0), "seqlens_k": (3, 0), "b": 2, "mode": "group"}):
        without = FMHA.problem(**keys)
        assert FMHA.launch(without, FMHA.spec(without, GFX942), GFX942).is_empty


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"dtype": "i8"}, "dtype", "f16|bf16"),
        ({"sequences": ("", "ends")}, "sequences", "startlength"),
        ({"v_columns": 3}, "v_columns", "power of two"),
        ({"parts": ("nosuch_4",)}, "parts", "expected bias, alibi"),
        ({"parts": ("dropout",), "mfma": (16, 16, 16), "block": (64, 64)}, "mfma", "32 queries"),
        ({"parts": ("dropout",), "block": (256, 32), "d": 32, "dv": 32}, "block", "a block of 32 queries a wave"),
        ({"d": 12}, "d", "multiple of 8"),
        ({"out": "f32"}, "out", "expected f16"),
        ({"dtype": "fp8", "out": "bf16", "d": 24}, "d", "multiple of 16"),
        ({"dv": 264}, "dv", "multiple of 8 from 8 to 256"),
        ({"mask": "alibi"}, "mask", "none|causal|window"),
        ({"block": (64, 64)}, "block", "multiple of 128 queries"),
        ({"block": (128, 16)}, "block", "multiple of 32 keys"),
        ({"block": (128, 256)}, "block", "bytes of LDS"),
        ({"mfma": (32, 32, 4)}, "mfma", "32x32x8"),
        ({"block": (512, 32), "d": 256, "dv": 256}, "block", "accumulators"),
        ({"waves": 3}, "waves", "power of two"),
    ],
)
def test_reasons(changes: dict[str, object], field: str, words: str) -> None:
    spec = replace(FMHA.spec(FMHA.problem(sq=1024), GFX942), **changes)
    reasons = FMHA.validate(spec, GFX942)
    assert field in [reason.field for reason in reasons]
    assert any(words in str(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"d": 20}, "d=20: heads of f16 have a multiple of 8"),
        ({"dv": 512}, "dv=512: heads of f16 have a multiple of 8 from 8 to 256"),
        ({"d": 24, "dtype": "fp8"}, "d=24: heads of fp8 have a multiple of 16"),
        ({"out": "f32"}, "out=f32: with dtype=f16 O is f16"),
        ({"k_scale": 2}, "k_scale=2.0: only fp8 is scaled, not f16"),
        ({"v_scale": -1, "dtype": "fp8"}, "v_scale=-1.0: expected a positive number"),
        ({"q_scale": 1e30, "k_scale": 1e30, "dtype": "fp8"}, "is not a number that f32 can hold"),
        ({"scale": 3e38}, "scale times q_scale times k_scale, 3e+38: times log2(e) it is not a number that f32 can"),
        ({"h": 6, "hk": 4}, "hk=4: h=6 is not a multiple"),
        ({"h": 0}, "h=0: expected a whole number from 1"),
        ({"mask": "causal"}, "mask=causal: expected none|top_left"),
        ({"mask": "window:3"}, "mask=window:3: expected"),
        ({"mask": "window:3,99999999999"}, "numbers are at most"),
        ({"layout": "sbhd"}, "layout=sbhd: expected bhsd|bshd"),
        ({"scale": "inf"}, "scale=inf: expected a finite number"),
        ({"b": 2**31 - 1}, "b=2147483647: a launch takes at most 65535 sequences"),
        ({"b": 2**16 - 1, "h": 2**16 - 1, "sq": 2**31 - 1}, "array q of shape"),
    ],
)
def test_requests_that_are_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError) as error:
        FMHA.problem(**keys)
    assert words in str(error.value)
