"""What an operator queues besides its kernel: workspaces, and the steps before and behind it that no kernel makes.

Everything here is queued on the caller's stream. No size depends on what device memory holds, only on upper bounds, so
nothing waits for the device. Where a step needs numbers from device memory, such as the lengths of sequences, it is
packed by a function on the host, in the stream's order; or by a kernel (`ckmlir.ops.operator.Run`) where streams are
captured into graphs, which host functions cannot be part of on every version of HIP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ckmlir.ops.comparison import Array


class Workspace(Struct, frozen=True):
    """Device memory of an operator's own; kernel arguments and steps name it as they name arrays. Its contents start
    undefined.

    Attributes:
        nbytes: an upper bound that follows from the problem, the specification and the chip alone.
    """

    name: str
    nbytes: int


class Fill(Struct, frozen=True):
    """Set every byte of an array or workspace.

    Raises ValueError for a byte that is none.
    """

    buffer: str
    byte: int

    def __post_init__(self) -> None:
        if not 0 <= self.byte <= 255:
            raise ValueError(f"{self.buffer} cannot be filled with {self.byte}: expected a byte, 0 to 255")


class PackOnHost(Struct, frozen=True):
    """Fill a workspace by a function on the host.

    Attributes:
        workspace: what is filled, all of it.
        inputs: arrays that the function reads, copied to the host before.
        function: called as `function(arrays, packed)` on a thread of the driver: the arrays by name, in their shapes,
            and the workspace's bytes (uint8), zeros at first, to be filled. It must not use the device.
        places: arrays and workspaces of which the function wants to know where they lie: their addresses, int64 without
            dimensions, are among the arrays under the names that `place_of` gives.
    """

    workspace: str
    inputs: tuple[str, ...]
    function: Callable[[Mapping[str, Array], Array], None]
    places: tuple[str, ...] = ()


def place_of(name: str) -> str:
    """What functions on the host know the address of an array or workspace by."""
    return f"&{name}"


class OwnKernel(Struct, frozen=True):
    """The operator's own kernel, that of its specification, as `Operator.launch` says."""


OWN_KERNEL = OwnKernel()
