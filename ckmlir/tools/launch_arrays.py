"""The arrays and numbers of a launch description (`launch_description.py`), and where they lie in the simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from ckmlir.codeobject.metadata import Argument
from ckmlir.errors import CkmlirError, suggest
from ckmlir.files import write_file
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import ADDRESS, DTYPES, POWER, numpy_dtype, storage_dtype
from ckmlir.ops.request import RequestError
from ckmlir.sim import DeviceMemory, LaunchError, Simulator
from ckmlir.sim.launch import KernelArgument
from ckmlir.targets import Target
from ckmlir.tools.arrays import load_npy, npy_bytes
from ckmlir.tools.launch_description import (
    ArrayArgument,
    BytesArgument,
    LaunchDescription,
    SameArgument,
    ScalarArgument,
)

MOST_BYTES = 8 << 30
_PLAIN: Mapping[str, Any] = {
    "i16": np.int16, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
"""Element types of foreign kernels that no operator here has."""


class Passed(Struct):
    """A launch's arguments in the simulator's memory.

    Attributes:
        values: of the kernel's own arguments, in order.
        arrays: by the argument's name, or its field where it has no name.
    """

    values: list[KernelArgument] = field(default_factory=list)
    arrays: dict[str, tuple[ArrayArgument, DeviceMemory, np.dtype[Any]]] = field(default_factory=dict)

    def contents(self, name: str) -> Array:
        """What an array holds now."""
        described, memory, dtype = self.arrays[name]
        found: Array = memory.read(storage_dtype(dtype), described.shape).view(dtype)
        return found

    def save(self) -> list[Path]:
        """Write the arrays that are to be kept; the files."""
        files = []
        for name, (described, _, _) in self.arrays.items():
            if described.save is not None:
                write_file(described.save, npy_bytes(self.contents(name)))
                files.append(described.save)
        return files


def dtype_of(name: str, target: Target, what: str) -> np.dtype[Any]:
    """The NumPy type of an element type; 8-bit floats are the chip's. Raises CkmlirError that names the field."""
    if name in _PLAIN:
        plain: np.dtype[Any] = np.dtype(_PLAIN[name])
        return plain
    known = (*DTYPES, ADDRESS.name, POWER.name, *_PLAIN)
    if name not in known:
        raise CkmlirError(f"{what}.dtype={name}: unknown; {suggest(name, known)}")
    try:
        return numpy_dtype(name, target)
    except RequestError as error:
        raise CkmlirError(f"{what}.{error}") from None


def pass_arguments(launch: LaunchDescription, simulator: Simulator, target: Target) -> Passed:
    """Make the arrays of a launch and put them into the simulator's memory.

    Raises:
        CkmlirError: an unknown type, a number that does not fit its type, a file that cannot be used; too much memory.
    """
    passed = Passed()
    for number, (where, argument, described) in enumerate(launch.arguments):
        what = f"{launch.where}: {where}"
        if isinstance(described, ScalarArgument):
            passed.values.append(_scalar(described, argument, target, what))
        elif isinstance(described, BytesArgument):
            passed.values.append(int.from_bytes(described.value, "little"))
        elif isinstance(described, ArrayArgument):
            dtype = dtype_of(described.dtype, target, what)
            memory = _upload(described, dtype, simulator, argument.name or where, launch.seed + number, what)
            passed.arrays[argument.name or where] = described, memory, dtype
            start = described.offset * dtype.itemsize
            passed.values.append(memory.address + start if start else memory)
        else:
            passed.values.append(0)
    for number, (where, _, described) in enumerate(launch.arguments):
        if isinstance(described, SameArgument):
            array, memory, dtype = passed.arrays[described.name]
            if not 0 <= described.offset <= math.prod(array.shape):
                raise CkmlirError(f"{launch.where}: {where}.offset={described.offset}: not within {described.name}")
            passed.values[number] = memory.address + described.offset * dtype.itemsize
    return passed


def _scalar(described: ScalarArgument, argument: Argument, target: Target, what: str) -> KernelArgument:
    """A number in its type's bytes; without a type it takes the argument's size."""
    value, bits = described.value, 8 * argument.size
    if described.dtype is not None:
        dtype = dtype_of(described.dtype, target, what)
    elif isinstance(value, float):
        if argument.size not in (2, 4, 8):
            raise CkmlirError(f"{what}={value}: the argument has {argument.size} bytes and cannot be a float")
        dtype = np.dtype(f"f{argument.size}")
    else:
        if not -(1 << bits) // 2 <= value < 1 << bits:
            raise CkmlirError(f"{what}={value}: does not fit into the argument's {argument.size} bytes")
        return value
    if dtype.itemsize != argument.size:
        raise CkmlirError(f"{what}.dtype={described.dtype}: {dtype.itemsize} bytes; the argument has {argument.size}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not float(value).is_integer() or not limits.min <= value <= limits.max:
            raise CkmlirError(f"{what}.scalar={value}: expected a whole number from {limits.min} to {limits.max}")
        value = int(value)
    with np.errstate(over="ignore"):
        number = np.array([value]).astype(dtype)
    # Types that NumPy lacks are passed as their bits.
    bits_of: np.generic = number.view(storage_dtype(dtype))[0]
    return bits_of


def _upload(
    described: ArrayArgument, dtype: np.dtype[Any], simulator: Simulator, name: str, seed: int, what: str
) -> DeviceMemory:
    elements = math.prod(described.shape)
    if elements * dtype.itemsize > MOST_BYTES:
        raise CkmlirError(
            f"{what}.shape: {elements * dtype.itemsize} bytes are more than the {MOST_BYTES} that fit here"
        )
    try:
        memory = simulator.allocate(elements * dtype.itemsize, name, read_only=described.access == "read")
    except LaunchError as error:
        raise CkmlirError(f"{what}: {error}") from None
    if described.fill == "undefined":
        return memory
    contents = _contents(described, dtype, np.random.default_rng(seed), what)
    memory.write(np.ascontiguousarray(contents).view(storage_dtype(dtype)))
    return memory


def _contents(described: ArrayArgument, dtype: np.dtype[Any], random: np.random.Generator, what: str) -> Array:
    if isinstance(described.fill, Path):
        return _from_file(described.fill, described.shape, dtype, what)
    if described.fill == "zeros":
        return np.zeros(described.shape, dtype)
    if described.fill == "arange":
        # Counts are taken modulo 2^bits by integers; floats of 8 and 16 bits round.
        counts = np.arange(math.prod(described.shape), dtype=np.int64).reshape(described.shape)
        return counts.astype(dtype) if dtype.kind in "iu" else counts.astype(np.float64).astype(dtype)
    if dtype.kind in "iu":
        small = random.integers(0 if dtype.kind == "u" else -8, 8, described.shape)
        return small.astype(dtype)
    if described.dtype == POWER.name:
        return np.exp2(random.integers(-3, 4, described.shape)).astype(dtype)
    return random.standard_normal(described.shape).astype(dtype)


def _from_file(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
    try:
        array = load_npy(path)
    except CkmlirError as error:
        raise CkmlirError(f"{what}.file: {error}") from None
    stored = storage_dtype(dtype)
    if array.shape != shape:
        raise CkmlirError(f"{what}.file: {path} has shape {array.shape}; shape says {shape}")
    given = array.dtype.newbyteorder("=")
    if given not in (dtype, stored):
        raise CkmlirError(f"{what}.file: {path} has type {array.dtype}; expected {dtype}")
    return np.ascontiguousarray(array.astype(given)).view(dtype)
