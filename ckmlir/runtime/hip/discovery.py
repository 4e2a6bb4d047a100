"""Which GPUs there are; where there is none, which of four reasons it has.

| reason | exception | how it shows |
|---|---|---|
| no library | LibraryMissing | hip-python cannot be imported, or cannot open libamdhip64.so |
| library too old | LibraryTooOld | a function is missing, or the driver is older than the library |
| no device | NoDevice | hipErrorNoDevice, or no such number |
| no permission | NoPermission | hipErrorNoDevice although /dev/kfd exists, which this user may not open |
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ckmlir.runtime.device import DeviceProperties
from ckmlir.runtime.hip.binding import Binding, binding
from ckmlir.runtime.hip.errors import HipError, InvalidRequest, LibraryTooOld, NoDevice, NoPermission

KERNEL_DRIVER = Path("/dev/kfd")
"""The amdgpu driver's compute device (Linux kernel, drivers/gpu/drm/amd/amdkfd)."""

FUNCTIONS = (
    "hipGetDeviceCount", "hipGetDevice", "hipSetDevice", "hipDeviceSynchronize", "hipMalloc", "hipFree",
    "hipHostMalloc", "hipHostFree", "hipMemcpy", "hipMemcpyAsync", "hipMemsetAsync", "hipStreamCreateWithFlags",
    "hipStreamDestroy", "hipStreamSynchronize", "hipStreamQuery", "hipStreamWaitEvent", "hipEventCreateWithFlags",
    "hipEventRecord", "hipEventSynchronize", "hipEventQuery", "hipEventElapsedTime", "hipEventDestroy",
    "hipModuleLoadData", "hipModuleUnload", "hipModuleGetFunction", "hipModuleLaunchKernel", "hipLaunchHostFunc",
)  # fmt: skip
"""What a device calls of the library; it is asked for them at once, not in the middle of a run."""


class Gpu(Struct, frozen=True):
    """A GPU: its number and what it is."""

    ordinal: int
    properties: DeviceProperties


def find_gpus() -> list[Gpu]:
    """All GPUs, at least one. Raises LibraryMissing, LibraryTooOld, NoDevice or NoPermission with the reason."""
    hip = binding()
    try:
        count = hip.call("hipGetDeviceCount")
    except NoDevice as error:
        raise _why_none(error) from None
    if not count:
        raise _why_none(NoDevice("", 100, "hipGetDeviceCount"))
    missing = [function for function in FUNCTIONS if not hip.has_function(function)]
    if missing:
        raise LibraryTooOld(f"library too old: the HIP library has no {', '.join(missing)}; update ROCm")
    return [Gpu(ordinal, properties_of(hip, ordinal)) for ordinal in range(count)]


def find_gpu(ordinal: int) -> Gpu:
    """One GPU. Raises as `find_gpus`, and NoDevice where there is none of this number."""
    gpus = find_gpus()
    if not 0 <= ordinal < len(gpus):
        raise NoDevice(f"no device: there is no GPU {ordinal}; there are {len(gpus)}, counted from 0", 101)
    return gpus[ordinal]


def properties_of(hip: Binding, ordinal: int) -> DeviceProperties:
    """What HIP says of a GPU."""
    found = hip.device_properties(ordinal)
    target_id = _text(found.gcnArchName)
    target = target_id.partition(":")[0]
    return DeviceProperties(
        name=f"GPU {ordinal} ({_text(found.name) or 'unnamed'}, {target})",
        target=target,
        compute_units=int(found.multiProcessorCount),
        wave_size=int(found.warpSize),
        lds_bytes=int(found.sharedMemPerBlock),
        workgroup_size=int(found.maxThreadsPerBlock),
        target_id=target_id,
        memory_bytes=int(found.totalGlobalMem),
        cache_bytes=int(found.l2CacheSize),
        clock_megahertz=int(found.clockRate) / 1000,
    )


def versions(hip: Binding) -> dict[str, str]:
    """Versions of the HIP runtime and driver, as far as they can be asked."""
    found = {}
    for name, function in (("runtime", "hipRuntimeGetVersion"), ("driver", "hipDriverGetVersion")):
        try:
            number = hip.call(function)
        except (HipError, InvalidRequest):
            continue
        found[name] = f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"
    return found


def _why_none(error: NoDevice) -> HipError:
    if KERNEL_DRIVER.exists() and not os.access(KERNEL_DRIVER, os.R_OK | os.W_OK):
        return NoPermission(
            f"no permission: this user may not open {KERNEL_DRIVER}; join the groups render and video "
            "(`sudo usermod -aG render,video $USER`, then log in again)",
            error.code,
            error.call,
        )
    driver = f"{KERNEL_DRIVER} exists" if KERNEL_DRIVER.exists() else f"there is no {KERNEL_DRIVER}: is amdgpu loaded?"
    return NoDevice(
        f"no device: HIP finds no GPU ({driver}); see HIP_VISIBLE_DEVICES and `rocminfo`", error.code, error.call
    )


def _text(value: str | bytes) -> str:
    """Names are text in hip-python 10 and bytes in 7."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
