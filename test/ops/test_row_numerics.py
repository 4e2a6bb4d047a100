"""Row operators through their real code objects on the simulator, against their references within derived tolerances.

By default every variant of every operator runs at a few lengths, its chip and dtype changing from case to case, and
every operator once on every chip and dtype. `-m full` runs all variants, dtypes, chips and lengths.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from operator_runner import CHIPS, agree

DTYPES = ("f16", "bf16", "f32")
LENGTHS = (0, 1, 2, 7, 64, 100, 127, 512, 1000, 1024, 1025, 2048, 4096, 4099, 8191, 8192, 8193, 12289)
EXPERTS = (1, 2, 7, 8, 32, 60, 64, 127, 128, 192, 256, 300, 512)
MOE = {"experts": 5, "k": 3}

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "layernorm2d": [
        {}, {"add": "add", "bias": 1}, {"add": "store", "save_stats": 1}, {"variance": "squares", "save_stats": 1},
        {"variance": "welford", "save_stats": 1}, {"variance": "centred", "add": "store", "bias": 1},
        {"quant": "dynamic"}, {"quant": "dynamic", "rounding": "nearest", "save_stats": 1},
        {"quant": "smooth", "add": "store"}, {"quant": "smooth", "out": "fp8", "keep_y": 1, "bias": 1},
    ],
    "rmsnorm2d": [
        {}, {"add": "store", "save_stats": 1, "bias": 1}, {"t5": 1}, {"t5": 1, "add": "store"},
        {"t5": 1, "quant": "smooth", "keep_y": 1}, {"quant": "dynamic", "add": "add"},
        {"quant": "dynamic", "out": "fp8", "keep_y": 1},
    ],
    "add_rmsnorm2d_rdquant": [{}, {"save_x": 0, "rounding": "nearest"}, {"out": "fp8"}],
    "smoothquant": [{}, {"rounding": "nearest"}, {"out": "fp8"}],
    "quantize_rows": [{"out": "i8"}, {"out": "bf8", "scales": "given"}],
    "moe_smoothquant": [MOE, {**MOE, "rounding": "nearest"}, {**MOE, "out": "fp8"}, {**MOE, "row_ids": 1},
                        {**MOE, "out": "bf8"}],
    "softmax": [{}, {"mask": 1}, {"scale": -0.25}, {"scale": 0.0, "mask": 1}],
    "topk_softmax": [
        {"activation": activation, "renormalize": renormalize, "k": k}
        for activation in ("softmax", "sigmoid") for renormalize in (0, 1) for k in (1, 2, 6)
    ],
}  # fmt: skip

Case = tuple[str, str, str, int, dict[str, Any]]


def allowed(chip: str, n: int, variant: dict[str, Any]) -> bool:
    """gfx90a has no 8-bit floats; there are no more experts to choose than there are."""
    return not (chip == "gfx90a" and variant.get("out") in ("fp8", "bf8")) and variant.get("k", 0) <= max(
        n, variant.get("experts", 0)
    )


def every_case() -> Iterator[Case]:
    for name, variants in VARIANTS.items():
        lengths = EXPERTS if name == "topk_softmax" else LENGTHS
        for case in itertools.product([name], CHIPS, DTYPES, lengths, variants):
            if allowed(case[1], case[3], case[4]):
                yield case


def some_cases() -> Iterator[Case]:
    """Each variant at a short, a middle, a long and a streamed length; chips and dtypes take turns."""
    turns = itertools.cycle(itertools.product(CHIPS, DTYPES))
    for name, variants in VARIANTS.items():
        lengths = (8, 60, 192, 512) if name == "topk_softmax" else (100, 1024, 4099, 8193)
        for variant, n in itertools.product(variants, lengths):
            chip, dtype = next(turns)
            while not allowed(chip, n, variant):
                chip, dtype = next(turns)
            yield name, chip, dtype, n, variant
        yield from ((name, chip, dtype, 64, variants[0]) for chip in CHIPS for dtype in DTYPES)
        edges = (1,) if name == "topk_softmax" else (0, 1, 8192)
        yield from ((name, "gfx942", "f16", n, variants[0]) for n in edges)


def label(case: Case) -> str:
    name, chip, dtype, n, variant = case
    return "-".join([name, chip, dtype, str(n), *(f"{key}={value}" for key, value in variant.items())])


@pytest.mark.one_in(48)
@pytest.mark.parametrize("case", list(some_cases()), ids=label)
def test_some(case: Case) -> None:
    """A representative part of the grid."""
    name, chip, dtype, n, variant = case
    agree(name, chip, m=5, n=n, dtype=dtype, **variant)


@pytest.mark.full
@pytest.mark.parametrize("case", list(every_case()), ids=label)
def test_every(case: Case) -> None:
    """The whole grid."""
    name, chip, dtype, n, variant = case
    agree(name, chip, m=5, n=n, dtype=dtype, **variant)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("m", [0, 1, 2, 4, 17, 300])
@pytest.mark.parametrize("name", VARIANTS)
def test_numbers_of_rows(name: str, m: int) -> None:
    """Row counts around those of a workgroup, also none."""
    agree(name, "gfx950", m=m, n=64, dtype="bf16")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("name", "keys"), [
    ("layernorm2d", {"stride": 333, "ystride": 208, "residual_stride": 201, "sum_stride": 202, "add": "store"}),
    ("rmsnorm2d", {"stride": 208, "q_stride": 216, "quant": "dynamic"}),
    ("add_rmsnorm2d_rdquant", {"a_stride": 204, "b_stride": 208, "stride": 212, "q_stride": 224}),
    ("smoothquant", {"stride": 256, "q_stride": 264}),
    ("moe_smoothquant", {"stride": 207, **MOE}),
    ("softmax", {"stride": 204, "mask_stride": 201, "ystride": 205, "mask": 1}),
    ("topk_softmax", {"stride": 201, "weights_stride": 9, "indices_stride": 5, "k": 5}),
])  # fmt: skip
@pytest.mark.parametrize("n", [200, 199])
def test_strides(name: str, keys: dict[str, Any], n: int) -> None:
    """Rows with gaps between them: nothing is read from the gaps, and nothing written there."""
    agree(name, "gfx942", m=19, n=n, **keys)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [100, 2000, 9000])
def test_many_tokens_keep_x_while_they_go_through_their_slots(n: int) -> None:
    """With as many workgroups as compute units, each takes all slots of its tokens."""
    agree("moe_smoothquant", "gfx90a", m=130 if n > 100 else 900, n=n, k=2, experts=3)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("base", [2, 4, 8])
@pytest.mark.parametrize("name", VARIANTS)
def test_narrower_accesses(name: str, base: int) -> None:
    """Arrays promised to less than 16 bytes give the same results by narrower accesses."""
    agree(name, "gfx950", m=5, n=256, base=base, **(MOE if name == "moe_smoothquant" else {}))
