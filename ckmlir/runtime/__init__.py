"""Running code objects: the `Device` protocol, its devices, and operators run and compared on them.

from ckmlir.runtime import open_device, run_operator
"""

import importlib
from typing import TYPE_CHECKING, Any

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

_PLACES = {
    "Device": "ckmlir.runtime.device",
    "DeviceArray": "ckmlir.runtime.device_array",
    "DeviceError": "ckmlir.runtime.device",
    "DeviceProperties": "ckmlir.runtime.device",
    "Event": "ckmlir.runtime.device",
    "FindingsFault": "ckmlir.runtime.findings",
    "HostMemory": "ckmlir.runtime.device",
    "KernelFault": "ckmlir.runtime.device",
    "Memory": "ckmlir.runtime.device",
    "MemoryPart": "ckmlir.runtime.device",
    "Module": "ckmlir.runtime.device",
    "RunResult": "ckmlir.runtime.run",
    "Stream": "ckmlir.runtime.device",
    "check_outputs": "ckmlir.runtime.run",
    "download": "ckmlir.runtime.device_array",
    "empty": "ckmlir.runtime.device_array",
    "open_device": "ckmlir.runtime.selection",
    "run_operator": "ckmlir.runtime.run",
    "typed": "ckmlir.runtime.device_array",
    "upload": "ckmlir.runtime.device_array",
}
"""Name -> module, which is imported when the name is first asked for: the cache of kernels needs none of them."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_PLACES[name]), name)
    return found
