"""Code objects that a GPU has loaded, and launches through one argument structure.

hip-python passes a launch's arguments best as one ctypes structure (`extra=(structure,)`): its bytes arrive exactly as
they are. The structure comes from the code object's own metadata, each argument at its offset; HIP itself adds the
hidden arguments, and reads the explicit ones before the call returns.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ckmlir.codeobject import Argument as ArgumentMetadata
from ckmlir.codeobject import CodeObject
from ckmlir.runtime.device import Argument, DeviceError, DeviceProperties, Extent, Memory, Stream
from ckmlir.runtime.hip.driver import Driver
from ckmlir.runtime.hip.memory import HipMemory
from ckmlir.runtime.hip.streams import stream_handle
from ckmlir.runtime.launch_check import check_arguments, check_geometry, check_grid, explicit_arguments

_FORMATS: dict[type, str] = {np.int32: "i", np.int64: "q", np.float32: "f", np.float64: "d"}
_POINTER = "Q"
_REMEMBERED = 1024
"""Different launches of a kernel that are remembered as checked."""


class HipKernel:
    """A kernel of a loaded module: how its arguments are packed, and which launches have been found right."""

    def __init__(self, code_object: CodeObject, name: str, function: Any) -> None:
        # It does not refer to its module, which refers to it: a module that is forgotten is given back at once.
        self._code_object = code_object
        self.name = name
        self.function = function  # what hip-python takes for a kernel
        self._arguments = explicit_arguments(code_object.kernels[name])
        size = max((argument.offset + argument.size for argument in self._arguments), default=0)
        self._structure = argument_structure(size)
        self._packers: dict[tuple[type, ...], tuple[struct.Struct, tuple[bool, ...]]] = {}
        self._checked: set[tuple[Extent, Extent, int]] = set()
        self._forms: dict[tuple[type, ...], LaunchForm] = {}

    def check(self, grid: Extent, block: Extent, dynamic_lds: int, properties: DeviceProperties) -> None:
        """Raise DeviceError for a launch that cannot be right; each different one is looked at once."""
        key = (grid, block, dynamic_lds)
        if key not in self._checked:
            check_geometry(self._code_object, self.name, grid, block, dynamic_lds, properties)
            if len(self._checked) >= _REMEMBERED:
                self._checked.clear()
            self._checked.add(key)

    def pack(self, arguments: Sequence[Argument]) -> ctypes.Structure:
        """The argument structure. Raises DeviceError for a wrong number or kind of arguments."""
        types = tuple(map(type, arguments))
        known = self._packers.get(types)
        if known is None:
            check_arguments(self.name, self._arguments, arguments)
            known = self._packers[types] = _packer(self._arguments, types)
        packer, pointers = known
        values = [
            one.address if is_pointer else one  # type: ignore[union-attr]  # `pointers` says which has an address
            for one, is_pointer in zip(arguments, pointers)
        ]
        return self._structure.from_buffer_copy(packer.pack(*values))

    def form(self, arguments: Sequence[np.generic | None], ordinal: int) -> LaunchForm:
        """How launches with arguments of these types are made, None standing for memory of the GPU `ordinal`. Raises
        DeviceError for a wrong number or kind of arguments.
        """
        types = tuple(map(type, arguments))
        known = self._forms.get(types)
        if known is None:
            example = HipMemory(0, 0, ordinal)
            given = [example if one is None else cast("Argument", one) for one in arguments]
            self.pack(given)
            packer, pointers = _packer(self._arguments, tuple(map(type, given)))
            addresses = {place: self._arguments[place].offset for place, pointer in enumerate(pointers) if pointer}
            known = self._forms[types] = LaunchForm(packer, self._structure, len(pointers), addresses)
        return known


class LaunchForm:
    """How the arguments of a launch become bytes: all but their values, which many launches have in common.

    Attributes:
        structure: what holds the bytes.
        memories: how many there are.
        runs: of memories that follow each other among the arguments: what packs their addresses, where, and which.
    """

    def __init__(
        self, packer: struct.Struct, structure: type[ctypes.Structure], arguments: int, addresses: Mapping[int, int]
    ) -> None:
        """Of how many `arguments`, and where the `addresses` of memories are in the structure, by argument."""
        self.structure = structure
        places = list(addresses)
        self.memories = len(places)
        firsts = [number for number, place in enumerate(places) if not number or place != places[number - 1] + 1]
        self.runs = [
            (struct.Struct(f"<{end - first}{_POINTER}").pack_into, addresses[places[first]], slice(first, end))
            for first, end in zip(firsts, [*firsts[1:], len(places)])
        ]
        self._pack, self._no_memories = packer.pack, (0,) * self.memories
        # Most kernels take memories first. Where one does not, its order of values is restored.
        order = [*places, *(place for place in range(arguments) if place not in addresses)]
        self._order = None if order == sorted(order) else operator.itemgetter(*map(order.index, range(arguments)))

    def pack(self, scalars: Sequence[int | float]) -> bytes:
        """The arguments without addresses of memories. Raises OverflowError for a value that its type does not hold."""
        values = (*self._no_memories, *scalars)
        try:
            return self._pack(*(values if self._order is None else self._order(values)))
        except struct.error as error:
            raise OverflowError(str(error)) from None


class HipLaunch:
    """A launch with everything fixed but its memory: see `Device.prepare`.

    Only what can change between two launches is looked at: the memories, the stream, whether the module is loaded.
    """

    __slots__ = ("_block", "_driver", "_form", "_kernel", "_size", "_ticket")

    def __init__(
        self, driver: Driver, module: HipModule, kernel: HipKernel, grid: Extent, block: Extent,
        arguments: Sequence[np.generic | None],
    ) -> None:  # fmt: skip
        self._driver, self._ticket, self._kernel, self._block = driver, module.ticket, kernel, block
        self._form = kernel.form(arguments, driver.gpu.ordinal)
        self._size = self.sized(grid, [one.item() for one in arguments if one is not None])

    def sized(self, grid: Extent, scalars: Sequence[int | float]) -> tuple[Extent, bytes]:
        """See `PreparedLaunch`. It is much of what taking kernels to another problem costs."""
        check_grid(self._kernel.name, grid, self._block)
        return grid, self._form.pack(scalars)

    def __call__(self, memories: Sequence[Memory], stream: Stream | None = None, size: Any = None) -> None:
        """See `PreparedLaunch`."""
        driver, form = self._driver, self._form
        driver.check_usable()
        if self._ticket not in driver.resources.live:
            raise DeviceError("the module was unloaded")
        if len(memories) != form.memories:
            raise DeviceError(f"{form.memories} memories are needed, not {len(memories)}")
        grid, scalars = size or self._size
        packed = form.structure.from_buffer_copy(scalars)
        addresses = [memory.address for memory in memories]
        for pack, offset, which in form.runs:
            pack(packed, offset, *addresses[which])
        handle = None if stream is None else stream_handle(driver, stream)
        driver.launch(self._kernel.function, *grid, *self._block, 0, handle, None, (packed,))


class HipModule:
    """A loaded code object. HIP may read its bytes as long as it is loaded (HIP's clr, `hipModuleLoadData`), so they
    are kept with the handle."""

    def __init__(self, code_object: CodeObject, handle: Any) -> None:
        self.code_object = code_object
        self.handle = handle
        self.ticket = 0
        self.functions: dict[str, HipKernel] = {}

    @property
    def kernels(self) -> Sequence[str]:
        """The names of its kernels."""
        return tuple(self.code_object.kernels)


@functools.cache
def argument_structure(size: int) -> type[ctypes.Structure]:
    """A structure of `size` bytes; one class for each size, since classes are costly to collect."""
    return type("Arguments", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_uint8 * size)]})


def _packer(arguments: Sequence[ArgumentMetadata], types: tuple[type, ...]) -> tuple[struct.Struct, tuple[bool, ...]]:
    """How values of these types become the bytes of the structure, and which of them are passed by address."""
    text, end = "<", 0
    for argument, kind in zip(arguments, types, strict=True):
        text += f"{argument.offset - end}x" + _FORMATS.get(kind, _POINTER)
        end = argument.offset + argument.size
    return struct.Struct(text), tuple(kind not in _FORMATS for kind in types)
