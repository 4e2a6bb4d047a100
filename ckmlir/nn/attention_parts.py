"""What a call of attention adds to scores, or drops of weights: arrays and keys of the operators' parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ckmlir.nn.calls import Call, beside, constant, dtype_name
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
    """A bias of scores, noted among the keys: (sq, sk), (h, sq, sk) or (b, h, sq, sk), of which b and h may be 1; of
    Q's `dtype`, beside 8 bits of f32. Raises DeviceError for another one.

    Args:
        sizes: b, h, sq, sk.
    """
    if bias is None:
        return None
    given = call.read("bias", bias).require(dtype="f32" if dtype == OCTETS else dtype).contiguous()
    shape = (1,) * (4 - given.ndim) + given.shape
    b, h, sq, sk = sizes
    kinds = {"one": (1, 1, sq, sk), "head": (1, h, sq, sk), "sequence": (b, 1, sq, sk), "batch": sizes}
    kind = next((kind for kind, one in kinds.items() if shape == one), None)
    if kind is None:
        right = f"expected {sizes[2:]}, {sizes[1:]} or {sizes}, of which batches and heads may be 1"
        raise DeviceError(f"bias: shape {given.shape}; {right}")
    keys["bias"] = kind
    return given.reshaped(*shape)


def scales_of(
    call: Call, scales: Mapping[str, Any], arrays: Mapping[str, Given], sequences: int, heads: tuple[int, int],
    keys: dict[str, object],
) -> dict[str, Given | None]:  # fmt: skip
    """What 8-bit elements of q, k and v are multiplied by in each head, `heads` of q and of k, noted among the keys;
    what is None counts as ones. Raises DeviceError beside other elements."""
    given = {name: one for name, one in scales.items() if one is not None}
    if not given:
        return {}
    if arrays["q"].dtype != OCTETS:
        raise DeviceError(f"{next(iter(given))}_scale: q is {arrays['q'].dtype}; expected scales beside fp8 only")
    keys["scales"] = "head"
    found: dict[str, Given | None] = {}
    for name in "qkv":
        shape = sequences, heads[name != "q"]
        if name in given:
            one = call.read(f"{name}_scale", given[name]).require(shape=shape, dtype="f32").contiguous()
        else:
            one = constant(call, arrays["q"], 1.0, shape[0] * shape[1], "f32").reshaped(*shape)
        found[f"{name}_scales"] = one
    return found


def result_type(q: Given, dtype: str | None, keys: dict[str, object]) -> str:
    """Of attention: that of q, beside 8 bits bf16, where none is named; a name is noted among the keys. Raises
    DeviceError for one that q's does not allow."""
    if dtype is None:
        return "bf16" if q.dtype == OCTETS else q.dtype
    keys["out"] = found = dtype_name("dtype", dtype)
    if q.dtype != OCTETS and found not in (q.dtype, OCTETS):
        raise DeviceError(f"dtype={dtype}: q is {q.dtype}; expected {q.dtype} or {OCTETS}")
    return found


OCTETS = "fp8"
"""Elements of 8 bits, which have scales."""


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
