"""Which device runs the code: the simulator, or a GPU where there is one that suits.

| asked for | taken |
|---|---|
| sim | the simulator |
| hip | the first GPU of the target's chip; the reason where there is none |
| auto | the first GPU of the target's chip, else the simulator; `CKMLIR_DEVICE=sim` or `=hip` decides instead |
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct

from ckmlir.errors import absent, suggest
from ckmlir.runtime.device import Device, DeviceError
from ckmlir.targets import Target, get_target

DEVICES = ("sim", "hip", "auto")
VARIABLE = "CKMLIR_DEVICE"


class Selection(Struct, frozen=True):
    """A device, and in a few words why it was taken."""

    device: Device
    reason: str


def open_device(
    kind: str, target: Target | str, *, seed: int = 0, checks: str | Iterable[str] = (), jobs: int = 1
) -> Device:
    """A device that runs code for `target`, a chip or its name: "sim", "hip", or "auto" for whatever is there.

    "auto" takes a GPU of the target's chip where there is one, else the simulator; `CKMLIR_DEVICE` overrides it. Which
    it was and why is `select_device`'s to say. The seed varies what the simulator leaves open: the content of memory
    nobody wrote, the order of waves and of streams. `checks` are names of the simulator's checkers
    (`ckmlir.sim.checks`), or "all"; a GPU has none, so that with checks "auto" is the simulator. `jobs` threads of the
    simulator share the workgroups of a launch.

    Raises DeviceError for a device that does not exist, UnsupportedTarget for an unknown chip.
    """
    return select_device(kind, target, seed=seed, checks=checks, jobs=jobs).device


def select_device(
    kind: str, target: Target | str, *, seed: int = 0, checks: str | Iterable[str] = (), jobs: int = 1
) -> Selection:
    """The device for code of `target`; the arguments are those of `open_device`.

    Raises DeviceError for an unknown kind, and for "hip" without a suitable GPU: a subclass of
    `ckmlir.runtime.hip.errors.Unavailable` says whether the library is missing or too old, or no device or permission.
    """
    target = target if isinstance(target, Target) else get_target(target)
    reason, wanted = "asked for", _named(checks)
    if not isinstance(kind, str):
        raise DeviceError(f"unknown device {kind!r:.80}; expected {'|'.join(DEVICES)}, as text")
    if wanted and kind == "hip":
        raise DeviceError("device hip: a GPU has no checkers; run them on the simulator")
    if wanted and kind == "auto":
        kind, reason = "sim", "checkers are the simulator's"
    if kind == "auto" and os.environ.get(VARIABLE):
        kind, reason = os.environ[VARIABLE], f"{VARIABLE}={os.environ[VARIABLE]}"
    if kind not in DEVICES:
        where = f"{VARIABLE}: " if reason != "asked for" else ""
        raise DeviceError(f"{where}unknown device {kind!r}; expected {'|'.join(DEVICES)}; {suggest(kind, DEVICES)}")
    if kind == "sim":
        return Selection(_simulator(target, seed, wanted, jobs), reason)
    try:
        device = _gpu(target)
    except DeviceError as error:
        if kind == "hip":
            error.args = (f"device hip: {error}",)
            raise
        return Selection(_simulator(target, seed, wanted, jobs), f"no GPU to use ({_first_words(error)})")
    return Selection(device, reason if kind == "hip" else "a GPU of this chip is there")


def _named(checks: str | Iterable[str]) -> frozenset[str]:
    from ckmlir.sim.checks import parse_checks

    try:
        return parse_checks(checks or ())
    except ValueError as error:
        raise DeviceError(f"checks: {error}") from None


def _simulator(target: Target, seed: int, checks: frozenset[str], jobs: int) -> Device:
    try:
        from ckmlir.runtime.simulator_device import SimulatorDevice
    except ModuleNotFoundError as error:
        raise DeviceError(f"the simulator: {absent(error)}") from None
    return SimulatorDevice(target, seed=seed, checks=checks, jobs=jobs)


def _gpu(target: Target) -> Device:
    """The first GPU that runs code for `target`."""
    from ckmlir.runtime.hip.discovery import find_gpus
    from ckmlir.runtime.hip.errors import NoDevice

    gpus = find_gpus()
    for gpu in gpus:
        if gpu.properties.target == target.name:
            from ckmlir.runtime.hip.device import HipDevice

            return HipDevice(gpu, several=len(gpus) > 1)
    found = ", ".join(gpu.properties.name for gpu in gpus)
    raise NoDevice(f"no device: none of the GPUs is a {target.name}: {found}; compile for their chip")


def _first_words(error: DeviceError) -> str:
    """The reason without the advice."""
    return str(error).partition(";")[0]
