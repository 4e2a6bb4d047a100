"""Sorting by experts, and products of experts' matrices beside dense products and beside HBM, by the model of time.

    python benchmarks/experts.py [--arch gfx942] [--dtype bf16] [--parts sorting,many,few] [--unit U]
                                 [--tokens 1,2,4,8,16] [--layers 2048x1024,7168x256] [--experts 64]
                                 [--topk 8]

sorting: 4096 tokens of 8 among 256 experts, every kernel. many: products of 4096 tokens, in relation to a dense product
of as many rows. few: gate and up, and down with the weighted sum, of layers hidden x inter; the share is that of what
HBM delivers (.82 of its peak on gfx942) at which the matrices of the experts touched come. Microseconds are at the peak
clock, without the time between kernels and without fills. Every number is the model's. Prints tables and a JSON line.
"""

from __future__ import annotations

import argparse
import itertools
import json
from typing import Any

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.ops.dtypes import find_dtype
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.grid import GridEstimate
from ckmlir.sim.timing.memory_shares import hbm_bytes_per_cycle
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target
from ckmlir.targets.target import Target

MOE_GEMM, FUSED_MOE = find_operator("moe_gemm"), find_operator("fused_moe")
PARTS = ("sorting", "many", "few")
GATED = {"op": "silu(gate) * up"}
DOWN = {"a_rows": "entry", "c_rows": "token", "op": "acc * d0", "d": "f32", "d_kind": "place"}
LISTED = {"entry_ids": 1}
"""An array says which entries there are, as layers of experts have it, so that no zeros are written."""
ADDED = {"reduction": "atomic"}
ROUNDED = {"reduction": "rounded", **LISTED}
MANY: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (
    ("plain, 8 experts of 2", {"e": 8, "topk": 2, "n": 1024, "k": 1024}, "gemm", {}),
    ("gate and up, 32 experts of 4", {"e": 32, "topk": 4, "n": 512, "k": 1024, **GATED}, "gated_gemm", {}),
    ("down without its sum, 32 experts of 4", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, "c_rows": "entry"},
     "gemm", {}),
    ("down, 32 experts of 4", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, **LISTED}, "gemm", {}),
    ("the same beside one that stores f32", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, **LISTED}, "gemm",
     {"out": "f32"}),
    ("the same, entries rounded", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, **ROUNDED}, "gemm", {}),
    ("the same, added by memory", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, **ADDED}, "gemm", {}),
    ("the same in f32", {"e": 32, "topk": 4, "n": 1024, "k": 512, **DOWN, **ADDED, "out": "f32"}, "gemm", {}),
)
"""What it is, the request beside 4096 tokens and the unit, and the dense operator."""


def main() -> None:
    """Model and print."""
    parser = argparse.ArgumentParser(description="products of experts' matrices by the model")
    parser.add_argument("--arch", choices=TARGETS, default="gfx942")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--unit", type=int, help="places of a unit, of many; by default those of a layer on the chip")
    parser.add_argument("--tokens", default="1,2,4,8,16", help="of few")
    parser.add_argument("--layers", default="2048x1024,7168x256", help="hidden x inter, of few")
    parser.add_argument("--experts", type=int, default=64, help="of few")
    parser.add_argument("--topk", type=int, default=8, help="of few")
    options = parser.parse_args()
    target, found = get_target(options.arch), {}
    for part in options.parts.split(","):
        found[part] = {"sorting": sorting, "many": many, "few": few}[part](options, target)
    print(json.dumps({"arch": options.arch, "dtype": options.dtype, **found}))


def sorting(_: argparse.Namespace, target: Target) -> list[dict[str, Any]]:
    """Every kernel of one routing."""
    print("| kernel of moe_sorting | us |\n|---|---|")
    found = grids("moe_sorting", {"t": 4096, "e": 256, "k": 8}, target)
    rows = [{"kernel": name, "us": grid.microseconds} for name, grid in found]
    for row in rows:
        print(f"| {row['kernel']} | {row['us']:.1f} |", flush=True)
    return rows


def many(options: argparse.Namespace, target: Target) -> list[dict[str, Any]]:
    """Products of 4096 tokens, and dense ones of as many rows."""
    print("| product | us | dense | rate of the dense product |\n|---|---|---|---|")
    rows = []
    for name, keys, dense, more in MANY:
        unit = options.unit or layer_unit(keys, options.dtype, target)
        own = total("moe_gemm", {"t": 4096, "unit": unit, "dtype": options.dtype, **keys}, target)
        sizes = {"m": 4096 * keys["topk"], "n": keys["n"], "k": keys["k"], "dtype": options.dtype}
        plain = total(dense, {**sizes, **more}, target)
        rows.append({"product": name, "us": own, "dense": plain})
        print(f"| {name} | {own:.1f} | {plain:.1f} | {plain / own:.2f} |", flush=True)
    return rows


def layer_unit(keys: dict[str, Any], dtype: str, target: Target) -> int:
    """Places of a unit that a layer with such products takes."""
    hidden, inter = (keys["n"], keys["k"]) if "a_rows" in keys else (keys["k"], keys["n"])
    experts = {name: keys[name] for name in ("e", "topk")}
    layer = FUSED_MOE.problem(t=4096, hidden=hidden, inter=inter, dtype=dtype, **experts)
    return int(layer.on(target).first.unit)


def few(options: argparse.Namespace, target: Target) -> list[dict[str, Any]]:
    """Products of few tokens, and how fast their matrices come."""
    print("| layer | tokens | experts touched | gate and up, us | of HBM | down, us | of HBM | sums, us |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for layer, tokens in itertools.product(options.layers.split(","), map(int, options.tokens.split(","))):
        hidden, inter = map(int, layer.split("x"))
        common = {"t": tokens, "e": options.experts, "topk": options.topk, "unit": 16, "dtype": options.dtype}
        first = {**common, **GATED, "n": inter, "k": hidden}
        second = {**common, **DOWN, **LISTED, "n": hidden, "k": inter}
        live, size = touched(first, target), inter * hidden * find_dtype(options.dtype).bytes
        bound = live * size / hbm_bytes_per_cycle(load(target.name))
        gated, down, sums = (grid for request in (first, second) for _, grid in grids("moe_gemm", request, target))
        shares = 2 * bound / gated.cycles, bound / down.cycles
        rows.append({"layer": layer, "tokens": tokens, "experts": live, "shares": shares,
                     "us": [grid.microseconds for grid in (gated, down, sums)]})  # fmt: skip
        print(f"| {layer} | {tokens} | {live} | {gated.microseconds:.1f} | {shares[0]:.2f} | {down.microseconds:.1f} "
              f"| {shares[1]:.2f} | {sums.microseconds:.1f} |", flush=True)  # fmt: skip
    return rows


def touched(keys: dict[str, Any], target: Target) -> int:
    """Experts that the tokens of a request, as the model makes them, go to."""
    lists = MOE_GEMM.inputs(MOE_GEMM.problem(**{**keys, "n": 1, "k": 1}), target)
    return len(np.unique(lists["expert_ids"][: lists["totals"][0] // keys["unit"]]))


def grids(name: str, keys: dict[str, Any], target: Target) -> list[tuple[str, GridEstimate]]:
    """Kernels of a request, by operator, and what each launch takes."""
    operator, parameters = find_operator(name), load(target.name)
    found = model_kernels(operator, operator.problem(**keys), target, parameters, mode="sampled")
    return [(one.step.operator.name, one.under(parameters).grid) for one in found]


def total(name: str, keys: dict[str, Any], target: Target) -> float:
    """Microseconds of all kernels."""
    return sum(grid.microseconds for _, grid in grids(name, keys, target))


if __name__ == "__main__":
    main()
