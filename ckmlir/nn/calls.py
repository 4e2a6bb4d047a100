"""What functions on arrays have in common: reading what they are given, and giving back what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ckmlir.nn.array import Array
from ckmlir.nn.given import Given, read, read_numbers
from ckmlir.nn.gradients import refuse_gradients
from ckmlir.nn.homes import ON_HOST
from ckmlir.nn.outputs import Outputs, as_listed
from ckmlir.nn.overlaps import check_distinct
from ckmlir.nn.session import Session, current
from ckmlir.ops.dtypes import PACKED_TYPES, POWER, find_dtype, numpy_dtype
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.shared_places import crossing
from ckmlir.runtime.arguments import as_host_array
from ckmlir.runtime.device import DeviceError
from ckmlir.runtime.executable import GpuArray

OF_FUNCTIONS = {
    "soft_cap": "softcap", "dropout": "dropout_p", "out": "dtype", "splits": "num_splits",
    "block_q": "block_size[0]", "block_k": "block_size[1]",
}  # fmt: skip
"""Keys of operators -> what functions call them."""


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

    def scales(self, what: str, array: Any) -> Given:
        """Scales of groups: as `read`, with powers of two (e8m0) for what elements of bytes are.

        Raises DeviceError as `read`.
        """
        self._check_device(what, array)
        return read(what, array, self.session.target, octets=POWER.name)

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

    def written(self, what: str, array: Any, packed: str | None = None) -> Given:
        """An array that a kernel writes to, however it lies.

        Raises DeviceError as `read`, for one that is read-only, and for elements that share places.
        """
        self._check_device(what, array)
        found = read(what, array, self.session.target, packed, written=True)
        if crossing(found.shape, [abs(stride) for stride in found.strides]) is not None:
            shared = f"elements of it share places by strides {found.strides}"
            raise DeviceError(f"{what} would be written, and {shared}; expected an array whose elements do not")
        return found

    def out(self, what: str, array: Any, shape: tuple[int, ...], dtype: str) -> Given | None:
        """An array to be written, of this shape and type; None where it is to be made.

        Raises DeviceError for another one, and as `written`; NoGradient for a tensor that requires gradients.
        """
        if array is None:
            return None
        refuse_gradients(what, array)
        packed = dtype if dtype in PACKED_TYPES else None
        return self.written(what, array, packed).require(shape=shape, dtype=dtype)

    def outputs(self, out: Any, **wanted: tuple[tuple[int, ...], str]) -> Outputs:
        """What the call gives back: results of these shapes and types, in their order, by the operator's names.

        Args:
            out: what was given for them: an array, of several results for the first; or a tuple of one for each, of
                which those that are None are made.

        Raises DeviceError as `out`, and for another number of arrays.
        """
        called = "out[{}]" if isinstance(out, (tuple, list)) else "out"
        arrays = as_listed(out, len(wanted))
        return self.named_outputs([(called.format(place), one) for place, one in enumerate(arrays)], wanted)

    def named_outputs(
        self, named: Sequence[tuple[str, Any]], wanted: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> Outputs:
        """As `outputs`, of arrays that are arguments of their own, by the names of these."""
        arrays = dict(zip(wanted, named, strict=True))
        given = {name: self.out(*one, *wanted[name]) for name, one in arrays.items()}
        check_distinct(given.values())
        shapes = {name: shape for name, (shape, _) in wanted.items()}
        return Outputs(given, {name: one for name, (_, one) in arrays.items()}, shapes)

    def put(self, made: dict[str, Given], outputs: Mapping[str, Given | None]) -> dict[str, Given]:
        """Results that are there, copied to the arrays that were given for them."""
        for name, one in made.items():
            out = outputs[name]
            if out is not None:
                self.session.put(one, out, self.stream)
        return made

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
        in_place: Mapping[str, Collection[str]] = MappingProxyType({}),
        kept: Collection[str] = (),
    ) -> dict[str, Given]:
        """Run an operator; inputs that are None are left out. See `Session.run`.

        Raises RequestError as that, with the names that functions have for keys.
        """
        present = {name: one for name, one in inputs.items() if one is not None}
        homes = {type(one.home) for one in present.values()}
        if len(homes) > 1:
            given = [one for one in present.values() if one.what != CONSTANT]
            mixed = ", ".join(f"{one.what} ({type(one.array).__name__})" for one in given)
            raise DeviceError(f"arrays of several libraries: {mixed}; expected those of one")
        try:
            return self.session.run(
                operator, keys, present, outputs or {}, varying=varying, typical=typical, in_place=in_place,
                kept=kept, stream=self.stream,
            )
        except RequestError as error:
            from ckmlir.ops.inner import renamed  # only where something is refused

            raise RequestError(renamed(str(error), OF_FUNCTIONS)) from None


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


def beside(call: Call, other: Given, numbers: np.ndarray[Any, Any]) -> Given:
    """Numbers of the host, where another array lives."""
    if isinstance(other.array, np.ndarray):
        return call.read("starts", numbers)
    device = call.session.device
    made = call.read("starts", other.home.empty(other.array, numbers.shape, numbers.dtype, device))
    return call.filled(made, numbers)
