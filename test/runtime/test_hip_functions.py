"""Functions on arrays through the real hip-python and the driver double: numbers, views, and nothing left behind."""

from __future__ import annotations

import gc
import sys
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from driver_double import DriverDouble

from ckmlir import nn

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape).astype(np.float16)


def close(found: Any, expected: np.ndarray[Any, Any]) -> bool:
    return bool(np.allclose(np.asarray(found, np.float64), expected, atol=5e-3 * np.abs(expected).max()))


def exact(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float64)


def test_functions_on_a_gpu(driver: DriverDouble) -> None:
    """Of the host's arrays and of the device's, in the default stream and another one."""
    x, weight, bias = normal(3, 7, 40), normal(24, 16), normal(24)
    product = exact(x)[:, :5, :16] @ exact(weight).T
    powers = np.exp(product)
    with nn.Session("gfx942", "hip") as session:
        assert session.device.properties.name == "GPU 0 (Double 0, gfx942)"
        assert close(nn.linear(np.ascontiguousarray(x[:, :5, :16]), weight, bias), product + exact(bias))
        view = nn.asarray(x)[:, :5, :16]
        made = nn.linear(view, nn.asarray(weight), nn.asarray(bias))
        assert close(made.numpy(), product + exact(bias))
        stream = session.device.create_stream()
        summed = nn.matmul(view, nn.asarray(weight).T, stream=stream)
        weights = nn.softmax(summed, 0, stream=stream)
        assert close(weights.numpy(stream), powers / powers.sum(0))
        behind = nn.asarray(x)[:, :5, 3:19]  # begins within the vectors that are loaded
        shifted = nn.linear(behind, nn.asarray(weight), nn.asarray(bias), stream=stream)
        assert close(shifted.numpy(stream), exact(x)[:, :5, 3:19] @ exact(weight).T + exact(bias))
        stream.close()
        del view, made, summed, weights, behind, shifted
        assert len(driver.launches) >= 5
    gc.collect()


class CupyArray:
    """Of CuPy what functions on arrays look at."""

    __module__ = "cupy"

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], steps: Any = None) -> None:
        self.memory, self.shape, self.dtype = memory, shape, dtype
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": dtype.str, "data": (memory.address, False), "strides": steps, "version": 3,
        }  # fmt: skip


def test_arrays_of_cupy(driver: DriverDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is passed as it lies, and results are CuPy's; by a stand-in for it, which needs a real GPU."""
    with nn.Session("gfx942", "hip") as session:
        device = session.device

        def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> CupyArray:
            return CupyArray(device.allocate(max(prod(shape) * dtype.itemsize, 1)), shape, dtype)

        def as_strided(array: CupyArray, shape: tuple[int, ...], steps: tuple[int, ...]) -> CupyArray:
            return CupyArray(array.memory, shape, array.dtype, steps)

        def put(numbers: np.ndarray[Any, Any]) -> CupyArray:
            made = empty(numbers.shape, numbers.dtype)
            device.write(made.memory, np.ascontiguousarray(numbers))
            return made

        cupy = ModuleType("cupy")
        vars(cupy).update(empty=empty, lib=SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=as_strided)))
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        x, weight = normal(3, 7, 40), normal(24, 16)
        view = as_strided(put(x), (3, 5, 16), (560, 80, 2))
        made = nn.linear(view, put(weight))
        assert isinstance(made, CupyArray)
        read = np.empty((3, 5, 24), np.float16)
        device.read(read, made.memory)
        assert close(read, exact(x)[:, :5, :16] @ exact(weight).T)
        del view, made
    gc.collect()
