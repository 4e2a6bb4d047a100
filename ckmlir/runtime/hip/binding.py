"""The door to hip-python: found when first needed, every call checked.

hip-python looks for the HIP library at its first call: inside the package `rocm`, in `rocm_sdk`, in `$ROCM_PATH`,
`$ROCM_HOME` or /opt/rocm, then by its bare name (hip-python 7: by its bare name only). Where a process has one already,
such as PyTorch's own, a second would not know the first one's memory and streams; so one that is mapped is opened under
its own name first, which makes the search end there.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import re
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from ckmlir.runtime.hip.errors import HipError, LibraryMissing, LibraryTooOld, error_of

LIBRARY = "libamdhip64.so"
OLDEST = (7, 2)
INSTALL = "pip install 'ckmlir[hip]'"
INSTALL_ROCM = "install ROCm, or set ROCM_PATH to where it is (https://rocm.docs.amd.com)"


class Binding:
    """hip-python's module `hip`, with calls that raise.

    Attributes:
        hip: the module.
        version: hip-python's version, as text.
    """

    def __init__(self, hip: ModuleType, version: str) -> None:
        self.hip = hip
        self.version = version
        self.success = hip.hipError_t.hipSuccess
        self._launch = hip.hipModuleLaunchKernel

    def call(self, function: str, *arguments: Any, what: str = "") -> Any:
        """Call a HIP function: its result, several as a tuple, None where it has none.

        Raises HipError, in the class of the error code, and LibraryMissing and LibraryTooOld where the library or one
        of its functions is not there.
        """
        try:
            code, *results = getattr(self.hip, function)(*arguments)
        except (RuntimeError, ValueError) as error:
            raise _translated(error, function, what) from None
        if code is not self.success:
            raise error_of(int(code), function, what, code.name)
        return results[0] if len(results) == 1 else tuple(results) or None

    def launch(self, *arguments: Any) -> None:
        """`hipModuleLaunchKernel` with as little as possible around it."""
        try:
            (code,) = self._launch(*arguments)
        except (RuntimeError, ValueError) as error:
            raise _translated(error, "hipModuleLaunchKernel", "") from None
        if code is not self.success:
            raise error_of(int(code), "hipModuleLaunchKernel", name=code.name)

    def has_function(self, function: str) -> bool:
        """Whether the HIP library has a function. hip-python 7 cannot say, and is taken to have all."""
        probe = getattr(self.hip, "has_symbol", None)
        return True if probe is None else bool(probe(function))

    def device_properties(self, ordinal: int) -> Any:
        """`hipDeviceProp_t` of a device; the signature differs between hip-python 7 and 10."""
        if int(self.version.split(".")[0]) >= 10:
            return self.call("hipGetDeviceProperties", ordinal)
        properties = self.hip.hipDeviceProp_t()
        self.call("hipGetDeviceProperties", properties, ordinal)
        return properties


_lock = threading.Lock()
_binding: Binding | None = None


def binding() -> Binding:
    """hip-python. Raises LibraryMissing or LibraryTooOld; the HIP library itself is opened by the first call."""
    global _binding
    with _lock:
        if _binding is None:
            _binding = _load()
        return _binding


def _load() -> Binding:
    try:
        from hip import hip
    except ImportError as error:
        reason = str(error).replace(";", ",")
        raise LibraryMissing(f"no library: the package hip-python cannot be imported ({reason}); {INSTALL}") from None
    version = importlib.metadata.version("hip-python")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise LibraryTooOld(f"library too old: hip-python {version}, at least {wanted} is needed; {INSTALL}")
    mapped = mapped_library()
    if mapped is not None:
        ctypes.CDLL(str(mapped), mode=ctypes.RTLD_GLOBAL)
        _prefer(mapped)
    return Binding(hip, version)


def _prefer(library: Path) -> None:
    """Make hip-python 10 take a library that the process has mapped already, instead of searching for one."""
    try:
        from rocm.bindings.util import paths
    except ImportError:
        return  # hip-python 7 asks for the bare name, which finds what is mapped
    found = paths.get_library_path

    def get_library_path(shortname: str, *arguments: Any, **options: Any) -> bytes:
        if shortname == "amdhip64":
            return str(library).encode()
        result: bytes = found(shortname, *arguments, **options)
        return result

    paths.get_library_path = get_library_path


def mapped_library() -> Path | None:
    """The HIP library that this process has loaded already, if it has one."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        file = line.split(maxsplit=5)[5:]
        if file and re.fullmatch(re.escape(LIBRARY) + r"(\.\d+)*", Path(file[0]).name):
            return Path(file[0])
    return None


def _translated(error: RuntimeError | ValueError, function: str, what: str) -> HipError:
    """What hip-python raised by itself: a library or a function is not there, or it does not know the code."""
    text = " ".join(str(error).split())
    if isinstance(error, ValueError):
        code = re.search(r"-?\d+", text)
        return error_of(int(code[0]) if code else 0, function, what, "an unknown error")
    if "dlsym" in text:
        return LibraryTooOld(f"library too old: {LIBRARY} lacks a function ({text}); update ROCm")
    if "dlopen" in text:
        missing = "No such file" in text
        how = "was not found" if missing else f"cannot be opened ({text})"
        return LibraryMissing(f"no library: {LIBRARY} {how}; {INSTALL_ROCM}")
    return HipError(text)
