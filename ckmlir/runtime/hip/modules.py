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
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

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
        self._function = function
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
            known = self._forms[types] = LaunchForm(packer.pack, self._structure, pointers)
        return known

    @property
    def function(self) -> Any:
        """What hip-python takes for a kernel."""
        return self._function


class LaunchForm:
    """How the arguments of a launch become bytes: all but their values, which many launches have in common.

    Memories come first, scalars after them; where the kernel has another order, it is restored.

    Attributes:
        pack, structure: what makes the bytes of values in the kernel's order, and what holds them.
        order: the kernel's order of memories and scalars; None where it is this one.
        memories, no_memories: how many, and as many addresses of 0.
    """

    def __init__(self, pack: Callable[..., bytes], structure: type[ctypes.Structure], pointers: Sequence[bool]) -> None:
        self.pack, self.structure = pack, structure
        places = sorted(range(len(pointers)), key=lambda place: not pointers[place])
        given = {place: number for number, place in enumerate(places)}
        order = [given[place] for place in range(len(pointers))]
        self.order = None if order == sorted(order) else operator.itemgetter(*order)
        self.memories = sum(pointers)
        self.no_memories = (0,) * self.memories


class HipLaunch:
    """A launch with everything fixed but its memory: see `Device.prepare`.

    Only what can change between two launches is looked at: the memories, the stream, whether the module is loaded.
    """

    __slots__ = ("_fixed", "_scalars", "_shared")

    def __init__(
        self, driver: Driver, module: HipModule, kernel: HipKernel, grid: Extent, block: Extent,
        arguments: Sequence[np.generic | None],
    ) -> None:  # fmt: skip
        # What launches of other sizes have in common is one object: `again` is much of what taking another size costs.
        form = kernel.form(arguments, driver.gpu.ordinal)
        self._shared = _Shared(kernel, block, driver, module.ticket, form)
        self._fixed: tuple[Any, ...] = (kernel.function, *grid, *block, 0)
        self._scalars = tuple([one.item() for one in arguments if one is not None])

    def again(self, grid: Extent, scalars: Sequence[int | float]) -> HipLaunch:
        """See `PreparedLaunch`."""
        kernel, block, _, _, form = shared = self._shared
        check_grid(kernel.name, grid, block)
        other = object.__new__(HipLaunch)
        other._shared, other._fixed = shared, (kernel.function, *grid, *block, 0)
        other._scalars = scalars = tuple(scalars)
        try:
            values = form.no_memories + scalars
            form.pack(*(values if form.order is None else form.order(values)))
        except struct.error as error:
            raise OverflowError(str(error)) from None
        return other

    def __call__(self, memories: Sequence[Memory], stream: Stream | None = None) -> None:
        """See `PreparedLaunch`."""
        _, _, driver, ticket, form = self._shared
        driver.check_usable()
        if ticket not in driver.resources.live:
            raise DeviceError("the module was unloaded")
        if len(memories) != form.memories:
            raise DeviceError(f"{form.memories} memories are needed, not {len(memories)}")
        values: tuple[Any, ...] = (*[memory.address for memory in memories], *self._scalars)
        if form.order is not None:
            values = form.order(values)
        packed = form.structure.from_buffer_copy(form.pack(*values))
        handle = None if stream is None else stream_handle(driver, stream)
        driver.launch(*self._fixed, handle, None, (packed,))


class _Shared(NamedTuple):
    """What a launch and those of other sizes have in common."""

    kernel: HipKernel
    block: Extent
    driver: Driver
    ticket: int
    form: LaunchForm


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
