"""What a specification covers: its own problem, those that it computes right, and no others."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.runtime import check_outputs, open_device
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.strided import elements, to_memory, untouched
from ckmlir.targets import TARGETS, get_target

GFX942 = get_target("gfx942")

SIZES: dict[str, dict[str, tuple[Any, ...]]] = {
    "gemm": {"m": (1, 64, 128, 129), "n": (8, 64, 100, 192), "k": (0, 32, 40, 96), "block": ("64x64x32",)},
    "gemm_multi_d": {"m": (1, 64, 129), "n": (8, 64, 100), "k": (32, 40), "block": ("64x64x32",)},
    "gemm_multi_abd": {"m": (1, 64, 129), "n": (8, 64, 100), "k": (32, 40), "block": ("64x64x32",)},
    "flatmm": {"m": (1, 64, 129), "n": (8, 64, 100), "k": (32, 40), "block": ("64x64x32",)},
    "shuffle_b": {"n": (0, 1, 64, 100), "k": (1, 8, 64, 100), "layout": ("C", "R"), "ldb": (None, 128)},
    "gated_gemm": {"m": (1, 64, 129), "n": (8, 64, 100), "k": (32, 40), "block": ("64x64x32",)},
    "gemm_quant": {"m": (1, 64, 129), "n": (8, 64, 200), "k": (32, 128, 300), "block": ("64x64x128",),
                   "a_scale": ("row", "1x128", "1x32"), "b_scale": ("tensor", "1x64", "128x128")},
    "gemm_sparse": {"m": (1, 64, 129), "n": (8, 64, 200), "k": (32, 64, 128, 300), "ld_index": (None, 64),
                    "block": ("64x64x128",)},
    "compress_sparse": {"m": (0, 1, 64, 129), "k": (8, 64, 300, 515), "stride": (None, 1024), "ld_index": (None, 256)},
    "mx_gemm": {"m": (1, 64, 129), "n": (8, 64, 200), "k": (32, 128, 300), "block": ("64x64x128",)},
    "batched_gemm": {"batch": ("1", "3", "2x2"), "m": (1, 129), "n": (8, 64), "k": (32, 40), "block": ("64x64x32",),
                     "split_k": (None, 1, 2)},
    "batched_gemm_quant": {"batch": ("1", "3", "2x2"), "m": (1, 129), "n": (8, 200), "k": (128, 300),
                           "block": ("64x64x128",), "a_scale": ("row", "1x128"), "b_scale": ("1x64", "128x128")},
    "batched_gated_gemm_quant": {"batch": ("1", "3"), "m": (1, 129), "n": (8, 200), "k": (128, 300),
                                 "block": ("64x64x128",), "a_scale": ("row", "1x128"), "b_scale": ("1x64", "128x128")},
    "batched_contraction": {"g": ("1", "2x2"), "m": ("3", "2x33"), "n": ("8", "4x8"), "k": ("40", "2x16"),
                            "block": ("64x64x32",)},
    "conv_fwd": {"n": (1, 3), "c": (3, 8, 32), "k": (8, 20), "g": (1, 2), "image": ("7", "5x6"), "window": (1, 3),
                 "pads": (0, 1), "strides": (1, 2), "block": ("64x64x32",)},
    "conv_bwd_data": {"n": (1, 3), "c": (3, 8, 32), "k": (8, 20), "g": (1, 2), "image": ("7", "5x6"), "window": (1, 3),
                      "pads": (0, 1), "strides": (1, 2), "block": ("64x64x32",)},
    "conv_bwd_weight": {"n": (3, 32), "c": (3, 8, 32), "k": (8, 20), "g": (1, 2), "image": ("7", "5x6"),
                        "window": (1, 3), "pads": (0, 1), "block": ("64x64x32",), "split_k": (None, 2)},
    "grouped_gemm": {"m": ("1", "64,129", "0,5,64"), "n": ("8", "64", "100"), "k": ("32", "40"), "block": ("64x64x32",),
                     "persistent": (None, 0, 1), "split_k": (1, 2)},
    "grouped_gemm_quant": {"m": ("1", "0,5,64"), "n": ("8", "200"), "k": ("128", "300"), "block": ("64x64x128",),
                           "persistent": (None, 0, 1), "a_scale": ("row", "1x128"), "b_scale": ("1x64", "128x128")},
    "grouped_gated_gemm_quant": {"m": ("1", "0,5,64"), "n": ("8", "200"), "k": ("128", "300"), "block": ("64x64x128",),
                                 "persistent": (0, 1), "a_scale": ("row", "1x128"), "b_scale": ("1x64", "128x128")},
    "streamk_gemm": {"m": (1, 64, 129), "n": (8, 64, 100), "k": (0, 40, 300), "block": ("64x64x32",),
                     "workgroups": (None, 1, 3, 5), "reduction": ("linear", "tree")},
    "sum_parts": {"parts": (1, 3, 9), "shape": ("64x64", "33x70", "2x3x64", "5"), "out": ("f16", "f32")},
    "mhc": {"m": (0, 1, 40, 200), "c": (0, 8, 40, 70), "streams": (1, 4), "layout": ("RCR", "RRR"),
            "split_k": (None, 1, 2), "ystride": (None, 100), "block": ("32x32x64",), "dtype": ("f16",)},
    "mhc_input": {"m": (0, 1, 9), "c": (8, 64, 100, 1500), "streams": (1, 4), "stride": (None, 6400)},
    "mhc_post": {"m": (0, 1, 9), "c": (8, 64, 100, 1500), "streams": (1, 4), "fstride": (None, 1600)},
    "mhc_coefficients": {"parts": (1, 3, 9), "m": (0, 1, 16, 40), "streams": (3, 4), "ystride": (None, 100, 101)},
    "layernorm2d": {"m": (0, 1, 4, 33), "n": (0, 1, 60, 64, 72, 500, 9000, 10240), "stride": (None, 10304)},
    "rmsnorm2d": {"m": (1, 5, 16), "n": (7, 128, 1000, 1024)},
    "layernorm2d_bwd": {"m": (0, 1, 4, 33), "n": (0, 1, 60, 64, 72, 500, 9000, 10240), "stride": (None, 10304)},
    "rmsnorm2d_bwd": {"m": (1, 5, 160), "n": (7, 128, 1000, 1024), "add": (0, 1)},
    "softmax_bwd": {"m": (0, 1, 5, 16), "n": (7, 128, 1000, 9000), "dy_stride": (None, 10304)},
    "add_rmsnorm2d_rdquant": {"m": (1, 6), "n": (64, 96, 100)},
    "quantize_blocks": {"m": (0, 1, 64, 129), "n": (0, 8, 64, 300), "stride": (None, 304), "out": ("fp8", "i8"),
                        "scales": ("f32",), "block": ("1x32", "128x128")},
    "quantize_rows": {"m": (0, 1, 8, 31), "n": (0, 64, 72, 256), "scales": ("dynamic", "given")},
    "quantize_tensor": {"shape": ("0", "7", "64x64", "3x70x32", "33x100"), "scales": ("dynamic", "given")},
    "dequantize": {"m": (0, 1, 64, 129), "n": (0, 8, 64, 300), "stride": (None, 304),
                   "block": ("row", "1x32", "128x128")},
    "batchnorm2d": {"n": (0, 1, 3), "c": (1, 5, 64), "hw": (1, 33, 64), "layout": ("nhwc", "nchw"),
                    "dtype": ("f16", "f32"), "residual": (0, 1), "stride": (None, 8192)},
    "batchnorm2d_sums": {"n": (0, 1, 3), "c": (1, 5, 64), "hw": (1, 33, 64), "layout": ("nhwc", "nchw"),
                         "of": ("moments", "gradients"), "stride": (None, 8192), "split": (1, 2)},
    "batchnorm2d_infer": {"n": (0, 1, 3), "c": (1, 5, 64), "hw": (1, 33, 64), "stride": (None, 8192)},
    "batchnorm2d_bwd": {"n": (0, 1, 3), "c": (1, 5, 64), "hw": (1, 33, 64), "stride": (None, 8192),
                        "activation": ("none", "relu")},
    "smoothquant": {"m": (1, 8, 31), "n": (64, 72, 256)},
    "moe_smoothquant": {"m": (1, 9), "n": (64, 100), "k": (1, 3), "experts": (2, 5), "row_ids": (0, 1)},
    "topk_softmax": {"m": (1, 20), "n": (8, 30, 64), "k": (2, 4)},
    "softmax": {"m": (0, 3, 17), "n": (16, 30, 1024, 1500, 8200, 12000)},
    "fmha_fwd": {"b": (1, 2), "h": (1, 2), "sq": (1, 128, 130), "sk": (0, 33, 64, 128), "d": (64,),
                 "mask": ("none", "top_left", "bottom_right", "window:7,9"), "layout": ("bhsd", "bshd"),
                 "sink": (0, 0, 1), "v_layout": ("rows", "rows", "columns")},
    "fmha_fwd_pagedkv": {"b": (1, 2), "h": (1, 2), "sq": (1, 3, 130), "sk": (0, 33, 64, 128), "d": (64,),
                         "mask": ("none", "bottom_right"), "page_size": (16, 64), "layout": ("bhsd", "bshd")},
    "unified_attention": {"h": (4,), "hk": (1, 2), "seqlens_q": ("3", "1,0,130"), "seqlens_k": ("70", "5,100,133"),
                          "d": (64,), "page_size": (1, 16, 128), "splits": (0, 1, 3), "balanced": (0, 1)},
    "fmha_batch_prefill": {"h": (2,), "seqlens_q": ("3", "1,0,130"), "seqlens_k": ("70", "5,100,33"), "d": (64,),
                           "page_size": (16, 64), "table": ("vllm", "sglang"), "kv_layout": ("linear", "vectorised")},
    "fmha_fwd_appendkv": {"b": (1, 2), "h": (2, 4), "hk": (1, 2), "snew": (0, 1, 40), "sq": (0, 1, 33), "d": (64,),
                          "rotary": (0, 16, 64), "page_size": (None, 16, 64)},
    "fmha_fwd_splitkv": {"b": (1, 2), "h": (1, 2), "sq": (1, 3, 130), "sk": (0, 33, 128, 300), "d": (64,),
                         "mask": ("none", "bottom_right"), "splits": (0, 1, 2, 5, 128), "sink": (0, 0, 1)},
    "fmha_fwd_splitkv_combine": {"splits": (1, 2, 9), "b": (0, 1, 2), "sq": (1, 8, 70), "dv": (64, 200),
                                 "layout": ("bhsd", "bshd"), "counted": (0, 1)},
    "fmha_fwd_shares": {"b": (0, 1, 70), "sq": (0, 1, 64, 70), "sk": (0, 33, 300), "together": (1, 3)},
    "fmha_bwd_dot_do_o": {"b": (1, 2), "sq": (1, 64, 70), "dv": (64,), "layout": ("bhsd", "bshd")},
    "fmha_bwd": {"b": (1, 2), "h": (2,), "hk": (1, 2), "sq": (1, 64, 70), "sk": (0, 33, 128), "d": (32,),
                 "mask": ("none", "top_left", "bottom_right"), "deterministic": (0, 1, 1), "persistent": (0, 1),
                 "workgroups": (None, None, 3), "ranges": ("steps", "steps", "blocks"), "layout": ("bhsd", "bshd")},
    "fmha_bwd_costs": {"b": (0, 1, 70), "h": (1, 3), "sq": (0, 1, 64, 70), "sk": (0, 33, 300),
                       "ranges": ("steps", "blocks")},
    "fmha_bwd_turns": {"b": (0, 1, 64, 70)},
    "fmha_bwd_convert_dq": {"b": (1, 2), "sq": (0, 1, 64, 70), "sk": (0, 33, 300), "d": (32,), "workgroups": (1, 3, 9),
                            "layout": ("bhsd", "bshd"), "ranges": ("steps", "blocks")},
    "fmha_bwd_join": {"b": (1, 2), "sq": (0, 1, 64, 700), "sk": (0, 33, 300), "d": (32,), "workgroups": (1, 3, 9),
                      "layout": ("bhsd", "bshd")},
    "reduce": {"shape": ("3x100", "3x4096", "8x9000", "3x5000", "16x70x8"), "dims": ("1",), "split": (1, 3),
               "ops": ("sum", "max")},
    "elementwise": {"shape": ("100", "4096", "70x64", "33x128", "3x5x7"), "dtype": ("f32",)},
    "cast": {"shape": ("100", "4096", "70x64", "33x129"), "strides": (None,)},
    "permute": {"shape": ("8x64x32", "9x64x30", "16x128x64"), "perm": ("0x2x1", "2x1x0")},
    "transpose2d": {"m": (1, 64, 128, 100), "n": (64, 128, 72)},
    "batched_transpose": {"n": (1, 2, 5), "c": (64, 128), "h": (8, 10), "w": (8, 16)},
    "copy": {"m": (0, 1, 64, 100), "n": (64, 128, 100), "ystride": (None, 256)},
    "img2col": {"n": (1, 2), "c": (4, 8, 3), "image": ("14x14", "9x10"), "pads": (0, 1), "window": (3, 2)},
    "pooling": {"n": (1, 2), "c": (8, 32, 5), "image": ("14x14", "9x10"), "pads": (0, 1), "window": (3, 2)},
    "moe_sorting": {"t": (0, 3, 60), "k": (1, 4), "e": (4, 9), "unit": (1, 8), "width": (0, 5),
                    "phases": ("one", "many")},
    "listed_entries": {"t": (0, 3, 60), "topk": (1, 4), "e": (4, 9), "unit": (1, 8, 48)},
    "moe_gemm": {"t": (0, 3, 20), "topk": (1, 3), "e": (2, 5), "unit": (16, 48), "n": (8, 64, 100), "k": (0, 40, 128),
                 "c_rows": ("entry", "token")},
    "fused_moe": {"t": (0, 3, 20), "topk": (1, 3), "e": (2, 5), "unit": (16, 48), "hidden": (8, 64), "inter": (40, 128),
                  "local": (None, 2), "between": ("memory", "lds")},
    "moe_layer": {"t": (1, 5, 20), "topk": (1, 2), "e": (3, 5), "unit": (16, 32), "hidden": (8, 64), "inter": (40, 64)},
    "histogram": {"n": (0, 5, 600, 3000), "part": (None, 256, 300, 1000), "bins": (3, 300)},
    "nonzero": {"m": (0, 1, 5), "n": (0, 7, 64, 300), "stride": (None, 304)},
    "hstu_attention": {"h": (1, 2), "seqlens_q": ("3", "1,0,130", "64,200,7"), "d": (64,), "causal": (0, 1),
                       "context": (0, 5), "window": (0, 20), "mode": ("batch", "group")},
    "hstu_bwd": {"h": (1, 2), "seqlens_q": ("3", "1,0,130", "64,140,7"), "d": (64,), "causal": (0, 1),
                 "context": (0, 5), "window": (0, 20), "mode": ("batch", "group"), "deterministic": (0, 1)},
    "ssd_fwd": {"b": (0, 1, 2), "h": (2, 4), "g": (1, 2), "s": (0, 1, 33, 64, 130), "d": (8, 64, 72), "n": (8, 32),
                "gate": (0, 1), "layout": ("bshd", "bhds")},
    "sparse_attention": {"b": (1, 2), "h": (1, 2), "sq": (1, 70, 200), "sk": (0, 33, 128, 300), "d": (64,),
                         "mask": ("none", "bottom_right"), "lists": ("map", "deltas", "list"), "block_k": (64, 128)},
    "block_means": {"b": (0, 1, 2), "h": (1, 2), "s": (0, 1, 64, 70, 300), "d": (64,), "layout": ("bhsd", "bshd")},
    "predict_blocks": {"b": (1, 2), "h": (2,), "hk": (1, 2), "sq": (0, 1, 70, 200), "sk": (0, 33, 128, 300), "d": (64,),
                       "mask": ("none", "bottom_right"), "topk": (None, 0.5), "lists": (0, 1)},
    "sparge_attention": {"b": (1, 2), "h": (2,), "hk": (1, 2), "sq": (1, 70, 200), "sk": (0, 33, 128, 300), "d": (64,),
                         "mask": ("none", "bottom_right"), "topk": (None, 0.5), "block_k": (64, 128)},
    "quantize_heads": {"b": (0, 1, 2), "h": (1, 2), "s": (0, 1, 64, 70, 300), "d": (64,), "layout": ("bhsd", "bshd")},
    "sparge_sage_attention": {"b": (1, 2), "h": (2,), "hk": (1, 2), "sq": (1, 70, 200), "sk": (0, 33, 128, 300),
                              "d": (64,), "mask": ("none", "bottom_right"), "topk": (None, 0.5), "block_k": (64, 128)},
    "cumsum": {"m": (0, 1, 5), "n": (0, 7, 64, 300), "along": ("rows", "columns"), "stride": (None, 304)},
    "gather_rows": {"rows": (0, 9), "m": (0, 1, 37), "n": (0, 8, 37, 600), "stride": (None, 608)},
    "scatter_rows": {"rows": (0, 9), "m": (0, 1, 37), "n": (0, 8, 37, 600), "stride": (None, 608)},
    "embedding_bag": {"rows": (0, 9), "m": (0, 1, 37), "k": (0, 1, 5), "n": (0, 8, 37, 600), "stride": (None, 608)},
    "segment_sum": {"m": (0, 1, 37), "n": (0, 8, 37, 600), "segments": (1, 5), "stride": (None, 608)},
    "argsort": {"m": (0, 1, 3), "n": (0, 1, 70, 300, 500), "stride": (None, 512)},
    "topk": {"m": (0, 1, 3), "n": (9, 70, 300, 500), "k": (0, 1, 9), "stride": (None, 512)},
    "ragged_tiles": {"rows": (1, 5), "total": (0, 100, 900)},
    "ragged_row_sums": {"rows": (1, 5), "total": (0, 100, 900), "pack": ("host", "device")},
}  # fmt: skip
"""Keys that sizes and strides are drawn from; not every combination is a request. Others have defaults."""


def drawn(name: str, seed: int) -> Any:
    """A problem of an operator, None where the keys do not fit together."""
    generator = random.Random(f"{name} {seed}")
    keys = {key: generator.choice(values) for key, values in SIZES.get(name, {}).items()}
    try:
        return find_operator(name).problem(**keys)
    except RequestError:
        return None


def computed_right(executable: Executable, operator: Any, device: Any) -> bool:
    """On arrays that lie as the problem says, gaps included."""
    problem, memories = executable.problem, {}
    inputs = operator.inputs(problem, GFX942, 1)
    for spec in executable.arrays.values():
        contents = to_memory(inputs[spec.name], spec) if spec.role == "in" else untouched(spec)
        memories[spec.name] = device.allocate(spec.nbytes)
        device.write(memories[spec.name], contents)
    executable.launch(memories)
    outputs = {}
    for spec in executable.arrays.values():
        if spec.role == "out":
            contents = untouched(spec)
            device.read(contents, memories[spec.name])
            outputs[spec.name] = elements(contents, spec, numpy_dtype(spec.dtype, GFX942))
    return all(one.ok for one in check_outputs(operator, problem, inputs, outputs, GFX942))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_specification_covers_the_problem_that_chose_it(name: str) -> None:
    operator = find_operator(name)
    for chip in TARGETS:
        target = get_target(chip)
        for problem in filter(None, (drawn(name, seed) for seed in range(40))):
            spec = operator.spec(problem, target)
            assert operator.mismatches(problem, spec, target) == [], (problem, spec)


@pytest.mark.one_in(96)
@pytest.mark.parametrize("name", SIZES)
def test_what_is_covered_is_computed_right(name: str) -> None:
    """Problems that a kernel was not chosen for, but that it covers."""
    operator, device = find_operator(name), open_device("sim", GFX942, checks=("memory",))
    problems = [one for one in (drawn(name, seed) for seed in range(40)) if one is not None]
    assert len(problems) > 20

    chosen = {operator.spec(problem, GFX942): problem for problem in problems}
    covered = {
        spec: [one for one in problems if one != own and not operator.mismatches(one, spec, GFX942)]
        for spec, own in chosen.items()
    }
    several = sorted((spec for spec in covered if covered[spec]), key=lambda spec: -len(covered[spec]))
    assert several
    # The kernel that covers most, and those that cover least, which promise most.
    for spec in dict.fromkeys((several[0], *several[-3:])):
        first = Executable(device, operator, chosen[spec], spec=spec)
        for problem in covered[spec][:4]:
            with_it = first.bind(problem)
            assert computed_right(with_it, operator, device), problem
            with_it.close()
        refused = [one for one in problems if operator.mismatches(one, spec, GFX942)]
        for problem in refused[:3]:
            with pytest.raises(RequestError, match=f"{name}: kernel "):
                first.bind(problem)


@pytest.mark.parametrize("name", SIZES)
def test_other_choices_are_not_covered(name: str) -> None:
    """Whatever field names what is computed: a kernel of another one is refused, with the field's name."""
    operator = find_operator(name)
    problem = operator.problem()
    spec = operator.spec(problem, GFX942)
    changed = 0
    fields = ("dtype", "out", "layout", "mask", "kinds", "expression", "op", "lse", "quant", "dtypes", "tile",
              "bins", "unit", "sequences", "counted", "form")  # fmt: skip
    for field in fields:
        value = getattr(spec, field, None)
        if isinstance(value, str):
            other = replace(spec, **{field: value + "x"})
        elif isinstance(value, bool):
            other = replace(spec, **{field: not value})
        elif isinstance(value, int):
            other = replace(spec, **{field: value * 2})
        elif field in ("dtypes", "kinds", "sequences") and value is not None:
            other = replace(spec, **{field: ("other", *value[1:])})
        else:
            continue
        assert field in {reason.field for reason in operator.mismatches(problem, other, GFX942)}, field
        changed += 1
    assert changed or name in ("ragged_row_sums", "unpack_int4", "fmha_bwd_turns")
