"""The convolutions of ResNet-50, forward and both gradients, beside products of matrices of their size, by the model.

    python benchmarks/resnet.py [--arch gfx942] [--images 32] [--dtype f16] [--parts forward,data,weight] [--layers 0,2]

For each of its 23 different convolutions (224 x 224 images, strides in the windows of 3 x 3) the microseconds of all
kernels at the peak clock, without the time between them, and the rate as a share of that of the product of plain
matrices that it comes to. Behind them sums over all 53. Every number is the model's. Prints a table and a JSON line.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from ckmlir.ops import find_operator
from ckmlir.ops.arrays import MAXIMUM_ARRAY_BYTES
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.scalars import ceil_div
from ckmlir.runtime.timing import model_kernels
from ckmlir.sim.chips import TARGETS
from ckmlir.sim.timing.parameters import load
from ckmlir.targets import get_target
from ckmlir.targets.target import Target

OPERATORS = {"forward": "conv_fwd", "data": "conv_bwd_data", "weight": "conv_bwd_weight"}


@dataclass(frozen=True)
class Layer:
    """A convolution of square images, and how many of the network's are like it."""

    length: int
    c: int
    k: int
    window: int
    stride: int
    times: int

    @property
    def name(self) -> str:
        """In few words."""
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{self.length}x{self.length}, {self.c} to {self.k}, {self.window}x{self.window}{stride}"

    @property
    def keys(self) -> dict[str, Any]:
        """As requests have it."""
        return {"image": (self.length,) * 2, "c": self.c, "k": self.k, "window": self.window, "strides": self.stride,
                "pads": self.window // 2}  # fmt: skip


LAYERS = (
    Layer(224, 3, 64, 7, 2, 1),
    Layer(56, 64, 64, 1, 1, 1), Layer(56, 256, 64, 1, 1, 2), Layer(56, 64, 64, 3, 1, 3), Layer(56, 64, 256, 1, 1, 4),
    Layer(56, 256, 128, 1, 1, 1), Layer(28, 512, 128, 1, 1, 3), Layer(56, 128, 128, 3, 2, 1),
    Layer(28, 128, 128, 3, 1, 3), Layer(28, 128, 512, 1, 1, 4), Layer(56, 256, 512, 1, 2, 1),
    Layer(28, 512, 256, 1, 1, 1), Layer(14, 1024, 256, 1, 1, 5), Layer(28, 256, 256, 3, 2, 1),
    Layer(14, 256, 256, 3, 1, 5), Layer(14, 256, 1024, 1, 1, 6), Layer(28, 512, 1024, 1, 2, 1),
    Layer(14, 1024, 512, 1, 1, 1), Layer(7, 2048, 512, 1, 1, 2), Layer(14, 512, 512, 3, 2, 1),
    Layer(7, 512, 512, 3, 1, 2), Layer(7, 512, 2048, 1, 1, 3), Layer(14, 1024, 2048, 1, 2, 1),
)  # fmt: skip
"""He et al. 2015, table 1, with the stride in the 3 x 3 convolution as PyTorch's model has it."""


def main() -> None:
    """Model and print."""
    parser = argparse.ArgumentParser(description="the convolutions of ResNet-50 by the model")
    parser.add_argument("--arch", choices=TARGETS, default="gfx942")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--parts", default=",".join(OPERATORS))
    parser.add_argument("--layers", default="", help="numbers of layers, from 0; by default all")
    options = parser.parse_args()
    parts, target = options.parts.split(","), get_target(options.arch)
    chosen = [LAYERS[int(one)] for one in options.layers.split(",") if one] or LAYERS
    print("| layer | times |" + "".join(f" {part} | of the product |" for part in parts))
    print("|---|---|" + "---|---|" * len(parts))
    rows, sums = [], {part: [0.0, 0.0] for part in parts}
    for layer in chosen:
        found = {}
        for part in parts:
            keys = {"n": options.images, **layer.keys, "dtype": options.dtype}
            own = microseconds(OPERATORS[part], keys, target)
            plain = of_product({**product(part, layer, options.images), "dtype": options.dtype}, target)
            found[part] = (own, plain)
            sums[part] = [total + layer.times * one for total, one in zip(sums[part], found[part], strict=True)]
        rows.append({"layer": layer.name, "times": layer.times, "microseconds": found})
        print(f"| {layer.name} | {layer.times} |" + written(found), flush=True)
    print(f"| all | {sum(layer.times for layer in chosen)} |" + written(sums))
    print(json.dumps({"arch": options.arch, "images": options.images, "dtype": options.dtype, "rows": rows}))


def written(times: dict[str, Any]) -> str:
    """Cells of a row: microseconds, and those of the product in relation to them."""
    return "".join(f" {own:.1f} | {plain / own:.2f} |" for own, plain in times.values())


def product(part: str, layer: Layer, images: int) -> dict[str, Any]:
    """The product of plain matrices with the arithmetic of a convolution, or of a gradient."""
    positions, places = images * ceil_div(layer.length, layer.stride) ** 2, layer.window**2
    if part == "forward":
        return {"m": positions, "n": layer.k, "k": places * layer.c, "layout": "RCR"}
    if part == "weight":
        return {"m": layer.k, "n": places * layer.c, "k": positions, "layout": "CRR"}
    met = ceil_div(places * layer.k, layer.stride**2)  # of the window's places, by each of the image
    return {"m": images * layer.length**2, "n": layer.c, "k": met, "layout": "RRR"}


def of_product(keys: dict[str, Any], target: Target) -> float:
    """Microseconds of a product; of half its rows twice, if A is more than kernels address."""
    if keys["m"] * keys["k"] * find_dtype(keys["dtype"]).bytes > MAXIMUM_ARRAY_BYTES:
        return 2 * of_product({**keys, "m": ceil_div(keys["m"], 2)}, target)
    return microseconds("gemm", keys, target)


def microseconds(operator_name: str, keys: dict[str, Any], target: Target) -> float:
    """Of all kernels."""
    operator, parameters = find_operator(operator_name), load(target.name)
    found = model_kernels(operator, operator.problem(**keys), target, parameters, mode="analytic")
    return sum(one.under(parameters).grid.microseconds for one in found)


if __name__ == "__main__":
    main()
