"""Which device is taken and why; the four reasons for no GPU, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckmlir.runtime import DeviceError, open_device
from ckmlir.runtime.hip import discovery, errors
from ckmlir.runtime.hip.device import HipDevice
from ckmlir.runtime.selection import select_device
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.targets import get_target

GFX942, GFX950 = get_target("gfx942"), get_target("gfx950")
HERE = Path(__file__).parent

PREAMBLE = f"""
import sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent.parent)!r}]
from ckmlir.runtime.selection import select_device
from ckmlir.targets import get_target
def ask(kind):
    try:
        selection = select_device(kind, get_target("gfx942"))
        print(selection.device.properties.name, "|", selection.reason)
    except Exception as error:
        print(type(error).__name__, "|", error)
"""


def answers(code: str) -> list[str]:
    """What a new process says when it asks for hip and for auto."""
    program = f"{PREAMBLE}\n{code}\nask('hip')\nask('auto')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_no_package() -> None:
    hip, auto = answers("sys.modules['hip'] = None")
    assert hip.startswith("LibraryMissing | device hip: no library: the package hip-python cannot be imported")
    assert "pip install 'ckmlir[hip]'" in hip
    assert auto.startswith("simulator (gfx942) | no GPU to use (no library: the package hip-python")


def test_no_library() -> None:
    pytest.importorskip("hip")
    if Path("/opt/rocm").exists():
        pytest.skip("ROCm is installed here")
    hip, auto = answers("")
    assert hip.startswith("LibraryMissing | device hip: no library: libamdhip64.so was not found; install ROCm")
    assert auto == "simulator (gfx942) | no GPU to use (no library: libamdhip64.so was not found)"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("missing", ["hipGetDeviceCount", "hipLaunchHostFunc", "hipGetDevicePropertiesR0600"])
def test_a_library_without_a_function(missing: str) -> None:
    hip_python = pytest.importorskip("hip")
    if missing == "hipLaunchHostFunc" and not hasattr(hip_python.hip, "has_symbol"):
        pytest.skip("hip-python 7 cannot say in advance which functions the library has")
    hip, auto = answers(
        "from driver_double import DriverDouble\n"
        f"double = DriverDouble(missing=[{missing!r}])\ndouble.start(['gfx942'])"
    )
    assert hip.startswith("LibraryTooOld | device hip: library too old: ")
    assert missing in hip and "update ROCm" in hip
    assert auto.startswith("simulator (gfx942) | no GPU to use (library too old: ")


def test_hip_python_that_is_too_old() -> None:
    pytest.importorskip("hip")
    hip, _ = answers("import importlib.metadata\nimportlib.metadata.version = lambda name: '6.3.1'")
    assert hip.startswith("LibraryTooOld | device hip: library too old: hip-python 6.3.1, at least 7.2 is needed")


def test_a_library_that_the_process_has_is_taken(tmp_path: Path) -> None:
    """PyTorch brings its own, under another path; a second one would not know its memory."""
    pytest.importorskip("hip")
    decoy = tmp_path / "rocm" / "lib"
    decoy.mkdir(parents=True)
    (decoy / "libamdhip64.so").write_bytes(b"not a library")
    hip, auto = answers(
        "import driver_double, os\n"
        f"os.environ['ROCM_PATH'] = {str(decoy.parent)!r}\n"
        "driver_double.DriverDouble().start(['gfx942:sramecc+:xnack-'])\n"
    )
    assert hip == "GPU 0 (Double 0, gfx942) | asked for"
    assert auto == "GPU 0 (Double 0, gfx942) | a GPU of this chip is there"


def test_a_driver_that_is_too_old(driver: Any) -> None:
    driver.inject("hipGetDeviceCount", 35)
    with pytest.raises(errors.LibraryTooOld, match="the amdgpu driver is older than ROCm needs"):
        open_device("hip", GFX942)


@pytest.mark.parametrize("code", [100, 101, None])
def test_no_device(driver: Any, code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "KERNEL_DRIVER", tmp_path / "kfd")
    if code is None:
        monkeypatch.setattr(driver, "hipGetDeviceCount", lambda result: driver._out(result, 0))
    else:
        driver.inject("hipGetDeviceCount", code)
    with pytest.raises(errors.NoDevice, match=r"device hip: no device: HIP finds no GPU .*is amdgpu loaded"):
        open_device("hip", GFX942)


def test_no_permission(driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kfd"
    file.touch()
    monkeypatch.setattr(discovery, "KERNEL_DRIVER", file)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    driver.inject("hipGetDeviceCount", 100)
    with pytest.raises(
        errors.NoPermission, match=r"no permission: this user may not open .*kfd; join the groups render"
    ):
        open_device("hip", GFX942)
    monkeypatch.setattr("os.access", lambda path, mode: True)
    driver.inject("hipGetDeviceCount", 100)
    with pytest.raises(errors.NoDevice, match="kfd exists"):
        open_device("hip", GFX942)


def test_auto_takes_a_gpu_that_suits(driver: Any) -> None:
    driver.stop()
    driver.start(["gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-"])
    selection = select_device("auto", GFX942)
    assert isinstance(selection.device, HipDevice) and selection.device.gpu.ordinal == 1
    selection.device.close()
    other = select_device("auto", GFX950)
    assert isinstance(other.device, SimulatorDevice)
    assert "none of the GPUs is a gfx950: GPU 0 (Double 0, gfx90a), GPU 1 (Double 1, gfx942)" in other.reason
    with pytest.raises(errors.NoDevice, match="compile for their chip"):
        open_device("hip", GFX950)


def test_the_variable_decides_for_auto_only(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    selection = select_device("auto", GFX942)
    assert isinstance(selection.device, SimulatorDevice) and selection.reason == "CKMLIR_DEVICE=sim"
    asked = open_device("hip", GFX942)
    assert isinstance(asked, HipDevice)
    asked.close()
    monkeypatch.setenv("CKMLIR_DEVICE", "hip")
    with pytest.raises(errors.NoDevice):
        open_device("auto", GFX950)
    monkeypatch.setenv("CKMLIR_DEVICE", "gpu")
    with pytest.raises(DeviceError, match=r"CKMLIR_DEVICE: unknown device 'gpu'; expected sim\|hip\|auto"):
        open_device("auto", GFX942)


def test_nothing_of_hip_python_is_imported_for_the_simulator() -> None:
    program = f"{PREAMBLE}\nask('sim')\nprint([name for name in ('hip', 'rocm') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["simulator (gfx942) | asked for", "[]"]
