"""Running code objects: the `Device` protocol, its devices, and operators run and compared on them.

from ckmlir.runtime import open_device, run_operator
"""

from typing import TYPE_CHECKING

from ckmlir.deferred import deferred

if TYPE_CHECKING:
    from ckmlir.runtime.device import (
        Device,
        DeviceError,
        DeviceProperties,
        Event,
        HostMemory,
        KernelFault,
        Memory,
        MemoryPart,
        Module,
        Stream,
    )
    from ckmlir.runtime.device_array import DeviceArray, download, empty, typed, upload
    from ckmlir.runtime.findings import FindingsFault
    from ckmlir.runtime.run import RunResult, check_outputs, run_operator
    from ckmlir.runtime.selection import open_device

__all__ = [
    "Device",
    "DeviceArray",
    "DeviceError",
    "DeviceProperties",
    "Event",
    "FindingsFault",
    "HostMemory",
    "KernelFault",
    "Memory",
    "MemoryPart",
    "Module",
    "RunResult",
    "Stream",
    "check_outputs",
    "download",
    "empty",
    "open_device",
    "run_operator",
    "typed",
    "upload",
]

# The cache of kernels needs none of them.
__getattr__ = deferred(
    __name__,
    {
        "device": "Device DeviceError DeviceProperties Event HostMemory KernelFault Memory MemoryPart Module Stream",
        "device_array": "DeviceArray download empty typed upload",
        "findings": "FindingsFault",
        "run": "RunResult check_outputs run_operator",
        "selection": "open_device",
    },
)
