"""What a call of attention adds to scores, or drops of weights: arrays and keys of the operators' parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, beside
from ckmlir.nn.given import Given
from ckmlir.runtime.device import DeviceError


def slopes_of(call: Call, slopes: Any, sequences: int, heads: int, keys: dict[str, object]) -> Given | None:
    """ALiBi's slopes, of heads or of sequences and heads, noted among the keys."""
    if slopes is None:
        return None
    given = call.read("alibi_slopes", slopes).require(dtype="f32")
    by_batch = given.ndim == 2
    keys["alibi"] = "batch" if by_batch else "head"
    return given.require(shape=(sequences, heads) if by_batch else (heads,)).contiguous()


def sinks_of(call: Call, sinks: Any, heads: int, keys: dict[str, object]) -> Given | None:
    """The logit of each head that joins its sums of exponentials, noted among the keys."""
    if sinks is None:
        return None
    keys["sink"] = True
    return call.read("sinks", sinks).require(shape=(heads,), dtype="f32").contiguous()


def bias_of(
    call: Call, bias: Any, sizes: tuple[int, int, int, int], dtype: str, keys: dict[str, object]
) -> Given | None:
    """A bias of scores, noted among the keys: of queries and keys, of heads too, or of all `sizes`; in Q's type. It may
    have dimensions of 1 in front. Raises DeviceError for another one."""
    if bias is None:
        return None
    given = call.read("bias", bias).require(dtype=dtype).contiguous()
    shape = given.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) not in KINDS_OF_BIAS or shape != sizes[-len(shape) :]:
        right = f"expected {sizes[2:]}, {sizes[1:]} or {sizes}: for all heads, for each, or for each of each batch"
        raise DeviceError(f"bias: shape {given.shape}; {right}")
    keys["bias"] = KINDS_OF_BIAS[len(shape)]
    return given.reshaped(*(1,) * (4 - len(shape)), *shape)


KINDS_OF_BIAS = {2: "one", 3: "head", 4: "batch"}
"""What operators call a bias of so many dimensions."""


def seeds_of(
    call: Call, dropout_p: float, seed: int | None, other: Given, keys: dict[str, object]
) -> dict[str, Given]:
    """Dropout, noted among the keys, and its seed as an array beside another one. The request does not hold the seed:
    every one launches the same kernel with the same arguments. Raises DeviceError for dropout without a seed."""
    if not dropout_p:
        return {}
    if seed is None or not 0 <= seed < 1 << 63:
        told = "it needs a seed" if seed is None else f"seed={seed}"
        raise DeviceError(f"dropout_p={dropout_p}: {told}; expected seed=, a whole number from 0 to 2^63 - 1")
    keys |= {"dropout": dropout_p, "seeds": "memory"}
    halves = {"drop_seed": np.array([seed], np.uint64).view(np.int32), "drop_offset": np.zeros(2, np.int32)}
    return {name: beside(call, other, numbers) for name, numbers in halves.items()}
