"""Memory of a GPU, and pinned memory of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ckmlir.runtime.device import Allocation, Array
from ckmlir.runtime.hip.errors import InvalidRequest


class HipMemory(Allocation):
    """Memory of a GPU.

    Attributes:
        address: of the first byte; asking for it after the memory was given back raises InvalidRequest.
        size: bytes.
        ordinal: the GPU's number.
    """

    __slots__ = ("__weakref__", "address", "ordinal", "size", "ticket")
    address: int

    def __init__(self, address: int, size: int, ordinal: int) -> None:
        self.address = address
        self.size = size
        self.ordinal = ordinal
        self.ticket = 0
        super().__init__()

    def forget(self) -> None:
        """There is no address any more."""
        if self.ticket:
            self.ticket = 0
            del self.address

    def __getattr__(self, name: str) -> Any:
        # Found only once `address` is deleted: launches pay nothing for the check.
        if name == "address":
            raise InvalidRequest(f"this memory of {self.size} bytes was given back")
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<{self.size} bytes of GPU {self.ordinal}>"


class PinnedMemory:
    """Memory of the host that the GPU copies from and to without the processor.

    Attributes:
        size: bytes.
    """

    def __init__(self, address: int, size: int) -> None:
        self._address: int | None = address
        self.size = size
        self.ticket = 0

    @property
    def address(self) -> int:
        """Of the first byte. Raises InvalidRequest after it was given back."""
        if self._address is None:
            raise InvalidRequest(f"this pinned memory of {self.size} bytes was given back")
        return self._address

    @property
    def bytes(self) -> Array:
        """Its contents, shared; it keeps nothing alive and must not be used after the memory was given back."""
        if not self.size:
            return np.empty(0, np.uint8)
        contents: Array = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))
        return contents

    def forget(self) -> None:
        """There is no address any more."""
        self._address = None
