"""HIP's error codes as exceptions that say what went wrong and what to do.

Codes and names: `hipError_t` in HIP's hip_runtime_api.h. A code may be returned by a later call than the one it belongs
to: kernels fail after their launch.
"""

from __future__ import annotations

from msgspec import Struct

from ckmlir.runtime.device import DeviceError, KernelFault


class HipError(DeviceError):
    """HIP returned an error.

    Attributes:
        code: the hipError_t as a number; 0 where the call did not come that far.
        call: the HIP function.
    """

    def __init__(self, text: str, code: int = 0, call: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.call = call


class Unavailable(HipError):
    """There is no GPU to use: no library, a library that is too old, no device, or no permission."""


class LibraryMissing(Unavailable):
    """hip-python or the HIP library is not installed."""


class LibraryTooOld(Unavailable):
    """hip-python, the HIP library or the driver is too old."""


class NoDevice(Unavailable):
    """There is no GPU, or none of that number."""


class NoPermission(Unavailable):
    """There is a GPU, and this user may not open it."""


class OutOfMemory(HipError):
    """The device or the host has not enough memory."""


class InvalidCodeObject(HipError):
    """The code object is damaged, or not for this GPU."""


class KernelNotFound(HipError):
    """The code object has no such kernel."""


class InvalidRequest(HipError):
    """HIP refused an argument of a call."""


class InvalidLaunch(HipError):
    """HIP refused a launch: its grid, block or resources."""


class InvalidHandle(HipError):
    """A stream, event, module or kernel that HIP does not know (any more)."""


class NotSupported(HipError):
    """This GPU or this version of ROCm cannot do that."""


class NotReady(HipError):
    """Work that was asked about is not done yet."""


class GpuFault(HipError, KernelFault):
    """A kernel failed while it ran."""


class ErrorKind(Struct, frozen=True):
    """A row of the table: HIP's name, the exception, what the user can do."""

    name: str
    exception: type[HipError]
    advice: str


_FAULT = "check the arguments' sizes; the simulator (device sim) names the access. The process's GPU state is lost"

ERRORS: dict[int, ErrorKind] = {
    1: ErrorKind("hipErrorInvalidValue", InvalidRequest, "an argument is out of range, or no pointer of this device"),
    2: ErrorKind("hipErrorOutOfMemory", OutOfMemory, "free memory, or make the problem smaller"),
    9: ErrorKind("hipErrorInvalidConfiguration", InvalidLaunch, "the grid or the block is too large for this GPU"),
    35: ErrorKind("hipErrorInsufficientDriver", LibraryTooOld, "the amdgpu driver is older than ROCm needs: update it"),
    100: ErrorKind("hipErrorNoDevice", NoDevice, "no AMD GPU is visible; see HIP_VISIBLE_DEVICES and `rocminfo`"),
    101: ErrorKind("hipErrorInvalidDevice", NoDevice, "there is no GPU of that number; `ckmlir doctor` lists them"),
    200: ErrorKind("hipErrorInvalidImage", InvalidCodeObject, "this is not a code object; compile it again"),
    209: ErrorKind("hipErrorNoBinaryForGpu", InvalidCodeObject, "compile for the GPU's own chip"),
    218: ErrorKind("hipErrorInvalidKernelFile", InvalidCodeObject, "the code object is damaged; compile it again"),
    400: ErrorKind("hipErrorInvalidHandle", InvalidHandle, "it was closed, or belongs to another device"),
    500: ErrorKind("hipErrorNotFound", KernelNotFound, "there is no such kernel; `ckmlir inspect` lists them"),
    600: ErrorKind("hipErrorNotReady", NotReady, "synchronize first"),
    700: ErrorKind("hipErrorIllegalAddress", GpuFault, f"a kernel accessed memory it may not; {_FAULT}"),
    701: ErrorKind("hipErrorLaunchOutOfResources", InvalidLaunch, "registers or LDS do not suffice for this block"),
    719: ErrorKind("hipErrorLaunchFailure", GpuFault, f"a kernel failed; {_FAULT}"),
    801: ErrorKind("hipErrorNotSupported", NotSupported, "this GPU or ROCm version cannot do that"),
}  # fmt: skip

_OTHER = ErrorKind("", HipError, "`ckmlir doctor` shows the versions in use")


def error_of(code: int, call: str, what: str = "", name: str = "") -> HipError:
    """The exception for a code that `call` returned.

    Args:
        what: what was attempted, for people; empty where the call says it.
        name: HIP's name of a code that is not in the table.
    """
    kind = ERRORS.get(code, _OTHER)
    attempted = f"{what}: " if what else ""
    failure = f"{call} failed with {kind.name or name} ({code})"
    return kind.exception(f"{attempted}{failure}; {kind.advice}", code, call)
