"""Convolutions by their definition, in loops, and geometries drawn at random."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.compiler import compile_kernel
from ckmlir.ops.operator import Operator
from ckmlir.runtime import open_device
from ckmlir.runtime.device import Device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

Array = npt.NDArray[Any]
Touched = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def per_dimension(keys: dict[str, Any], name: str, default: int) -> list[int]:
    """A key's numbers, one for each spatial dimension."""
    given = keys.get(name, default)
    return [given] * len(keys["image"]) if isinstance(given, int) else list(given)


def touched(keys: dict[str, Any], positions: tuple[int, ...]) -> Iterator[Touched]:
    """Every position, place in the window, and place of the image that they meet, where there is one."""
    strides, dilations = (per_dimension(keys, name, 1) for name in ("strides", "dilations"))
    pads, window = (per_dimension(keys, name, default) for name, default in (("pads", 1), ("window", 3)))
    for position in itertools.product(*map(range, positions)):
        for place in itertools.product(*map(range, window)):
            at = tuple(
                o * stride + f * dilation - pad
                for o, stride, f, dilation, pad in zip(position, strides, place, dilations, pads, strict=True)
            )
            if all(0 <= coordinate < length for coordinate, length in zip(at, keys["image"], strict=True)):
                yield position, place, at


def convolved(keys: dict[str, Any], x: Array, w: Array, positions: tuple[int, ...]) -> Array:
    """y (n, positions…, g, k) in float64."""
    y = np.zeros((x.shape[0], *positions, w.shape[0], w.shape[1]))
    wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
    for position, place, at in touched(keys, positions):
        weights = wide_w[(slice(None), slice(None), *place)]
        y[(slice(None), *position)] += np.einsum("ngc,gkc->ngk", wide_x[(slice(None), *at)], weights)
    return y


def weight_gradient(keys: dict[str, Any], dy: Array, x: Array, shape: tuple[int, ...]) -> Array:
    """dw (g, k, window…, c) in float64."""
    dw = np.zeros(shape)
    wide_dy, wide_x = dy.astype(np.float64), x.astype(np.float64)
    for position, place, at in touched(keys, dy.shape[1:-2]) if len(x) else ():  # no images may be large ones
        products = np.einsum("ngk,ngc->gkc", wide_dy[(slice(None), *position)], wide_x[(slice(None), *at)])
        dw[(slice(None), slice(None), *place)] += products
    return dw


def image_gradient(keys: dict[str, Any], dy: Array, w: Array, shape: tuple[int, ...]) -> Array:
    """dx (n, spatial…, g, c) in float64."""
    dx = np.zeros(shape)
    wide_dy, wide_w = dy.astype(np.float64), w.astype(np.float64)
    for position, place, at in touched(keys, dy.shape[1:-2]):
        weights = wide_w[(slice(None), slice(None), *place)]
        dx[(slice(None), *at)] += np.einsum("ngk,gkc->ngc", wide_dy[(slice(None), *position)], weights)
    return dx


def draw(seed: int) -> dict[str, Any]:
    """Keys of a convolution: images, windows and paddings of any small size, few or many channels, groups."""
    random = Random(seed)
    rank = random.choice((1, 2, 2, 3))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(random.randint(least, most) for _ in range(rank))

    g, c = random.choice((1, 1, 2, 3)), random.choice((1, 2, 3, 5, 7, 8, 16, 24, 64))
    k = random.choice((1, 3, 8, 33, 72))
    if random.random() < 0.2:
        g, c, k = random.choice((4, 8)), 1, random.choice((1, 2))  # depthwise
    window, dilations = each(1, 4), each(1, 3)
    spans = ((places - 1) * step for places, step in zip(window, dilations, strict=True))
    fits = random.random() < 0.8  # else there may be no position
    image = tuple(random.randint(1, (40, 7, 3)[rank - 1]) + (span if fits else 0) for span in spans)
    return {
        "n": random.choice((0, 1, 1, 2, 2, 3, 3)), "g": g, "c": c, "k": k, "image": image, "window": window,
        "strides": each(1, 3), "dilations": dilations, "pads": each(0, 3), "right_pads": each(-2, 3),
        "dtype": random.choice(("f16", "bf16", "f32", "i8", "fp8")),
    }  # fmt: skip


ALIKE = 40
"""Geometries that are run by default."""


def draw_alike(seed: int) -> dict[str, Any]:
    """Keys of small padded convolutions of any geometry that have a kernel or two between them."""
    random = Random(seed)

    def each(least: int, most: int) -> tuple[int, int]:
        return random.randint(least, most), random.randint(least, most)

    window, dilations, pads = each(1, 3), each(1, 3), each(0, 3)
    fits = random.random() < 0.9  # else there may be no position
    spans = ((places - 1) * step if fits else 0 for places, step in zip(window, dilations, strict=True))
    return {
        "n": random.randint(1, 3), "g": 2, "c": random.choice((8, 24, 40)), "k": random.choice((8, 24, 40)),
        "image": tuple(random.randint(1, 4) + span for span in spans), "window": window, "strides": each(1, 3),
        "dilations": dilations, "pads": pads if any(pads) else (1, 0), "right_pads": each(-2, 3),
        "dtype": "f16", "block": (32, 32, 32), "wave": (1, 1),
    }  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """A simulator with all checkers and the kernels that ran on it: a geometry costs hundredths of a second there."""

    operator: Operator[Any, Any]
    chip: str
    kernels: dict[Any, CompiledKernel] = field(default_factory=dict)

    @cached_property
    def device(self) -> Device:
        return open_device("sim", get_target(self.chip), seed=5, checks="all")

    def run(self, keys: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Run a request of one kernel and compare it with the reference: inputs, and what the reference gives."""
        target, operator = get_target(self.chip), self.operator
        problem = operator.problem(**keys)
        spec = operator.spec(problem, target)
        if spec not in self.kernels:
            self.kernels[spec] = compile_kernel(operator, spec, target)
        arrays = operator.inputs(problem, target, seed=3)
        kernel = self.kernels[spec]
        result = run_operator(operator, problem, arrays, target, self.device, spec=spec, compiled=kernel)
        comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
        assert all(one.ok for one in comparisons), "; ".join(map(str, comparisons))
        return arrays, operator.reference(problem, arrays)
