"""What functions on arrays have in common: reading what they are given, and giving back what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ckmlir.nn.array import Array
from ckmlir.nn.given import ON_HOST, Given, read, read_numbers
from ckmlir.nn.session import Session, current
from ckmlir.ops.dtypes import find_dtype, numpy_dtype
from ckmlir.ops.request import RequestError, show
from ckmlir.runtime.arguments import as_host_array
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.executable import GpuArray


class Call:
    """A call of a function.

    Attributes:
        session: the current one.
    """

    def __init__(self, stream: object = None) -> None:
        self.session: Session = current()
        self.stream = stream

    def read(self, what: str, array: Any, packed: str | None = None) -> Given:
        """An array that was given; `packed` is what its bytes hold, where they do.

        Raises DeviceError for what is none, and for one of another device.
        """
        self._check_device(what, array)
        return read(what, array, self.session.target, packed)

    def numbers(self, what: str, array: Any) -> Given:
        """Numbers of rows, lengths and the like: as `read`, with i32 for whatever integers arrays of the host have.

        Raises DeviceError as `read`, and for numbers that 32 bits do not hold.
        """
        self._check_device(what, array)
        return read_numbers(what, array, self.session.target)

    def _check_device(self, what: str, array: Any) -> None:
        if isinstance(array, Array) and array.device is not self.session.device:
            raise DeviceError(f"{what}: an array of another device than the session's")

    def optional(self, what: str, array: Any) -> Given | None:
        """An array that may be None."""
        return None if array is None else self.read(what, array)

    def written(self, what: str, array: Any) -> Given:
        """An array that a kernel writes to.

        Raises DeviceError as `read`, and for NumPy's with gaps or of another byte order, whose copy would be written in
        its stead.
        """
        if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
            raise DeviceError(f"{what}: an array with gaps; expected a contiguous one, which is written as it is")
        if isinstance(array, np.ndarray) and not array.dtype.isnative:
            expected = f"expected {array.dtype.newbyteorder('=')}, which is written as it is"
            raise DeviceError(f"{what}: elements of type {array.dtype} have another machine's byte order; {expected}")
        self._check_device(what, array)
        return read(what, array, self.session.target, written=True)

    def out(self, what: str, array: Any, shape: tuple[int, ...], dtype: str) -> Given | None:
        """An array to be written, of this shape and type; None where it is to be made.

        Raises DeviceError for another one, and as `written`.
        """
        return None if array is None else self.written(what, array).require(shape=shape, dtype=dtype)

    def filled(self, made: Given, numbers: np.ndarray[Any, Any]) -> Given:
        """A new array, with these numbers written to it."""
        device = self.session.device
        if made.address:
            stream = None if self.stream is None else device.stream_of(self.stream)
            memory: Any = made.argument if isinstance(made.array, Array) else GpuArray(made.address, numbers.nbytes)
            device.write(memory, numbers, stream)
        else:  # a tensor of the host
            as_host_array(made.array)[...] = numbers
        return made

    def run(
        self,
        operator: str,
        keys: Mapping[str, object],
        inputs: Mapping[str, Given | None],
        outputs: Mapping[str, Given | None] | None = None,
        varying: tuple[str, ...] = (),
        typical: Mapping[str, object] | None = None,
        in_place: Collection[str] = (),
    ) -> dict[str, Given]:
        """Run an operator; inputs that are None are left out. See `Session.run`."""
        present = {name: one for name, one in inputs.items() if one is not None}
        homes = {type(one.home) for one in present.values()}
        if len(homes) > 1:
            given = [one for one in present.values() if one.what != CONSTANT]
            mixed = ", ".join(f"{one.what} ({type(one.array).__name__})" for one in given)
            raise DeviceError(f"arrays of several libraries: {mixed}; expected those of one")
        return self.session.run(
            operator, keys, present, outputs or {}, varying=varying, typical=typical, in_place=in_place,
            stream=self.stream,
        )


def dtype_name(what: str, dtype: str) -> str:
    """An element type by its name here ("f16") or NumPy's ("float16"). Raises DeviceError for one that is none."""
    if not isinstance(dtype, str):
        raise DeviceError(f"{what}={show(dtype)}: expected the name of a type, such as f16")
    name = _NUMPY_NAMES.get(dtype, dtype)
    try:
        return find_dtype(name).name
    except RequestError as error:
        raise DeviceError(f"{what}={show(dtype)}: {error}") from None


_NUMPY_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int8": "i8", "int32": "i32",
}  # fmt: skip


CONSTANT = "constant"
"""How `constant` calls what it makes, which nobody gave."""


def constant(call: Call, beside: Given, value: float, n: int, dtype: str) -> Given:
    """A vector of equal numbers where another array lives."""
    kind = numpy_dtype(dtype, call.session.target)
    numbers = np.full(n, value, kind)
    if beside.home is ON_HOST:
        return call.read(CONSTANT, numbers)
    made = beside.home.empty(beside.array, (n,), kind, call.session.device)
    return call.filled(call.read(CONSTANT, made), numbers)
