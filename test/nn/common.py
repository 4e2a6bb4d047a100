"""What the tests of functions on arrays share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckmlir import nn
from ckmlir.ops.attention.philox import random_bytes

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(3)
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
RELATIVE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 2e-6}
"""A few units in the last place of results of about 1; operators' own tests have the derived bounds."""


def normal(*shape: int, dtype: str = "f16") -> Array:
    return RANDOM.standard_normal(shape).astype(TYPES[dtype])


def exact(array: Any) -> Array:
    found = array.numpy() if isinstance(array, nn.Array) else np.asarray(array)
    return found.astype(np.float64)


def assert_close(found: Any, expected: Array, dtype: str = "f16", factor: float = 2.0) -> None:
    """Within a few roundings of the dtype, relative to the largest expected element."""
    values = exact(found)
    assert values.shape == expected.shape
    assert np.isfinite(values).all()
    most = np.abs(expected).max(initial=1.0)
    assert np.abs(values - expected).max(initial=0.0) <= factor * RELATIVE[dtype] * most


def on_host(array: Array) -> Array:
    return array


def as_tensor(array: Array) -> Any:
    """A tensor of PyTorch on the host."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its tensors are not given")
    return torch.from_numpy(np.ascontiguousarray(array))


HOMES: dict[str, Callable[[Array], Any]] = {"NumPy": on_host, "device": nn.asarray}
"""How a test's array is given: as it is, or as an array of the device."""
WITH_TENSORS = {**HOMES, "PyTorch": as_tensor}


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True)
    return found


def kept(b: int, h: int, sq: int, sk: int, p: float, seed: int) -> np.ndarray:
    """What weights are multiplied by, (b, h, sq, sk)."""
    places = [random_bytes(seed, 64 * place, range(sq), sk) for place in range(b * h)]
    return np.stack(places).reshape(b, h, sq, sk) <= int((1 - p) * 255)
