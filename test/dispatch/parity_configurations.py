"""The configurations of CK Tile's dispatcher examples, as requests here: for products and for attention.

A configuration is a request, and for products how CK's kernel does it: block, waves, instruction, pipeline, epilogue.
Sizes are small; what lies how to the blocks (in whole blocks or not) is what the configuration's padding asks for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

HALF = ("f16", "bf16")
CHIPS = ("gfx90a", "gfx942", "gfx950")
WITH_FP8 = CHIPS[1:]


@dataclass(frozen=True, eq=False)
class Configuration:
    """A kernel that CK's examples build.

    Attributes:
        example: which example it is of.
        algorithm: fields of the specification that CK's kernel decides; those left out are the operator's.
    """

    example: str
    operator: str
    chip: str
    keys: dict[str, Any]
    algorithm: dict[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """Example and operator."""
        return f"{self.example}_{self.operator}"

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in (*self.keys.items(), *self.algorithm.items())]
        return " ".join([self.example, self.operator, self.chip, *words]).replace(" ", "_")


def products() -> Iterator[Configuration]:
    """Those of the list for products."""
    ragged, whole = {"m": 100, "n": 72, "k": 136}, {"m": 128, "n": 128, "k": 128}
    for chip in CHIPS:
        for dtype, layout in itertools.product(HALF, ("RCR", "RRR", "CRR", "CCR")):
            yield Configuration("01_basic", "gemm", chip, {**ragged, "dtype": dtype, "layout": layout})
    for chip, dtype in itertools.product(WITH_FP8, ("fp8", "bf8", "i8")):
        yield Configuration("01_basic", "gemm", chip, {**ragged, "dtype": dtype})
    for m, n in ((128, 128), (256, 128), (64, 256)):
        yield Configuration("02_batch", "gemm", "gfx942", {"m": m, "n": n, "k": 128}, {"schedule": "compv4"})
    for pipeline, padded in itertools.product(("compv3", "compv4"), (False, True)):
        fields = {"block": (128, 128, 32), "waves": (2, 2), "mfma": (32, 32, 8), "schedule": pipeline}
        keys = ragged if padded else whole
        yield Configuration("03_benchmark", "gemm", "gfx942", keys, {**fields, "pad": "mnk" if padded else ""})
    blocks = ((64, 64, 64), (128, 64, 64), (128, 128, 64))
    pipelines = ("v1", "v2", "compv3", "compv4")
    for dtype, block, pipeline, epilogue in itertools.product(HALF, blocks, pipelines, ("cshuffle", "direct")):
        fields = {"block": block, "schedule": pipeline, "epilogue": epilogue, "pad": "mnk"}
        yield Configuration("07_stress", "gemm", "gfx942", {**ragged, "dtype": dtype}, fields)
    pools = ((32, 32, 64), (32, 128, 64), (64, 64, 64), (64, 128, 64), (128, 64, 64), (128, 128, 64))
    for block, pipeline in itertools.product(pools, pipelines):
        fields = {"block": block, "mfma": (16, 16, 16), "schedule": pipeline, "pad": "mnk"}
        yield Configuration("08_heuristics", "gemm", "gfx942", ragged, fields)
    for block, pipeline in (((128, 128, 64), "compv4"), ((64, 64, 64), "v1")):
        fields = {"block": block, "mfma": (16, 16, 16), "schedule": pipeline, "pad": "mnk"}
        yield Configuration("09_registries", "gemm", "gfx942", ragged, fields)
    for pipeline in ("mem3", "mem3_interwave", "compv5", "compv6"):
        yield Configuration("10_advanced_benchmark", "gemm", "gfx942", whole, {"schedule": pipeline})
    yield Configuration("10_advanced_benchmark", "gemm", "gfx942", {**ragged, "split_k": 2})
    for epilogue, kind in (("relu(acc + d0)", "full"), ("gelu(acc + d0)", "row")):
        keys = {**ragged, "op": epilogue, "d": "f16", "d_kind": kind}
        yield Configuration("multi_d", "gemm_multi_d", "gfx942", keys)
    yield Configuration("preshuffle", "flatmm", "gfx942", {**whole, "n": 256})
    yield Configuration("batched", "batched_gemm", "gfx942", {**ragged, "batch": 3})


def _forward() -> Iterator[tuple[str, dict[str, Any]]]:
    """Forward, of every chip, f16: what the example is called, and keys."""
    yield "01_basic", {"b": 2, "h": 2, "d": 128}
    for sq, sk in ((1, 70), (64, 64), (70, 100)):
        yield "02_multi_shape", {"sq": sq, "sk": sk, "d": 64}
    for mask in ("top_left", "bottom_right", "window:8,0", "window_bottom_right:8,2,3", "generic:9,5", "xformers:8"):
        yield "12_masks", {"mask": mask, "sk": 90}
    for bias in ("one", "head", "batch"):
        yield "13_bias", {"bias": bias, "b": 2, "h": 2}
    for alibi, mask in itertools.product(("head", "batch"), ("none", "bottom_right")):
        yield "13_bias", {"alibi": alibi, "mask": mask, "b": 2, "h": 2}
    yield "14_dropout", {"dropout": 0.2, "seed": 7, "randval": 1, "lse": 1}
    yield "14_dropout", {"dropout": 0.2, "seeds": "memory", "lse": 1}
    for hk in (1, 2):
        yield "15_gqa", {"h": 4, "hk": hk}
    yield "19_padding", {"b": 2, "seqlens_k": "70,33"}
    for more in ({}, {"slots_q": "8,48", "slots_k": "16,72"}):
        yield "19_padding", {"mode": "group", "seqlens_q": "5,33", "seqlens_k": "8,70", "sq": None, "sk": None, **more}
    yield "21_logits_soft_cap", {"soft_cap": 3.0}
    yield "22_sink", {"sink": 1, "h": 2}
    yield "24_vlayout_col", {"v_layout": "columns", "sk": 72}
    for layout in ("bhsd", "bshd"):
        yield "25_permutation", {"layout": layout, "b": 2, "h": 2}
    for d, dv in ((32, 32), (64, 64), (80, 96), (96, 128), (128, 128), (160, 160), (192, 128), (192, 192), (256, 256)):
        yield "26_hdim_variety", {"d": d, "dv": dv}
    for b, h in ((1, 1), (3, 2), (2, 8)):
        yield "29_sweeps", {"b": b, "h": h}


def _backward() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "18_backward", {}
    yield "27_bwd_dropout", {"dropout": 0.2, "seed": 7}
    for bias in ("one", "head", "batch"):
        yield "28_bwd_dbias", {"bias": bias, "dbias": 1, "b": 2, "h": 2}
    for mask in ("top_left", "bottom_right", "window:8,2"):
        yield "33_bwd_masks", {"mask": mask}
    yield "34_bwd_gqa", {"h": 4, "hk": 2}
    yield "37_bwd_deterministic", {"deterministic": 1}
    for d in (32, 64, 96, 128, 256):
        yield "38_bwd_sweep_hdim", {"d": d}
    yield "18_backward", {"mode": "group", "seqlens_q": "5,33", "seqlens_k": "8,70", "sq": None, "sk": None}


def attention() -> Iterator[Configuration]:
    """Those of the list for attention."""
    sizes = {"h": 1, "sq": 40, "sk": 70, "d": 64}
    for example, keys in _forward():
        for chip, dtype in itertools.product(CHIPS, HALF):
            yield Configuration(example, "fmha_fwd", chip, _given({**sizes, **keys, "dtype": dtype}))
    for chip, d in itertools.product(CHIPS, (32, 48, 64, 96, 128, 192, 256)):
        yield Configuration("f32", "fmha_fwd", chip, {**sizes, "d": d, "dtype": "f32"})
    for chip, (d, dv), out in itertools.product(
        WITH_FP8, ((64, 64), (128, 128), (192, 128), (256, 256)), ("bf16", "f32", "fp8")
    ):
        yield Configuration("20_fp8", "fmha_fwd", chip, {**sizes, "d": d, "dv": dv, "dtype": "fp8", "out": out})
    for chip, dtype, d in itertools.product(CHIPS, HALF, (64, 128)):
        few = {"h": 1, "sq": 3, "sk": 500, "d": d, "dtype": dtype, "splits": 4}
        yield Configuration("16_splitkv", "fmha_fwd_splitkv", chip, few)
        yield Configuration("16_splitkv", "fmha_fwd_splitkv", chip, {**few, "page_size": 128})
        yield Configuration("pagedkv", "fmha_fwd_pagedkv", chip, {**sizes, "d": d, "dtype": dtype, "page_size": 128})
        cache = {"b": 2, "h": 2, "hk": 1, "snew": 2, "cached": "17,30", "d": d, "dtype": dtype}
        for more in ({}, {"rotary": 32}, {"rotary": 32, "rotary_half": 1}, {"page_size": 16}):
            yield Configuration("17_appendkv", "fmha_fwd_appendkv", chip, {**cache, **more})
    packed = {"h": 1, "seqlens_q": "5,33", "seqlens_k": "8,70", "d": 128}
    for chip, dtype, table, kv in itertools.product(CHIPS, HALF, ("vllm", "sglang"), ("linear", "vectorised")):
        keys = {**packed, "dtype": dtype, "table": table, "kv_layout": kv, "page_size": 16}
        yield Configuration("23_batch_prefill", "fmha_batch_prefill", chip, keys)
    for example, keys in _backward():
        for chip, dtype in itertools.product(CHIPS, HALF):
            yield Configuration(example, "fmha_bwd", chip, _given({**sizes, **keys, "dtype": dtype}))


def _given(keys: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keys.items() if value is not None}


def configurations() -> list[Configuration]:
    """All of them."""
    return [*products(), *attention()]
