"""What an operator needs besides its arrays: workspaces, and how they are prepared before its kernel runs.

Everything here is queued on the caller's stream. No size depends on what device memory holds, only on upper bounds, so
nothing waits for the device. Where the preparation needs numbers from device memory, such as the lengths of sequences,
it is packed by a function on the host, in the stream's order; or by another operator on the device
(`ckmlir.ops.operator.PackOnDevice`) where streams are captured into graphs, which host functions cannot be part of on
every version of HIP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ckmlir.ops.comparison import Array


@dataclass(frozen=True)
class Workspace:
    """Device memory of an operator's own; kernel arguments name it as they name arrays. Its contents start undefined.

    Attributes:
        nbytes: an upper bound that follows from the problem alone.
    """

    name: str
    nbytes: int


@dataclass(frozen=True)
class Fill:
    """Set every byte of an array or workspace."""

    buffer: str
    byte: int


@dataclass(frozen=True)
class PackOnHost:
    """Fill a workspace by a function on the host.

    Attributes:
        workspace: what is filled, all of it.
        inputs: input arrays that the function reads, copied to the host before.
        function: called as `function(arrays, packed)` on a thread of the driver: the arrays by name, in their shapes,
            and the workspace's bytes (uint8), zeros at first, to be filled. It must not use the device.
    """

    workspace: str
    inputs: tuple[str, ...]
    function: Callable[[Mapping[str, Array], Array], None]
