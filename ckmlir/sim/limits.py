"""How long the simulator lets a kernel run."""

from __future__ import annotations

import os

from ckmlir.errors import CkmlirError

PATIENCE = "CKMLIR_SIMULATOR_PATIENCE"
"""Seconds of processor time that one workgroup may take, or inf."""

SECONDS = 30.0
"""The default. Workgroups of real problems take milliseconds, a thousand times less than this even under all checks;
one that does not end is stopped within a minute also where half the processor is somebody else's."""


def default_patience() -> float:
    """What the environment says, else the default. Raises CkmlirError for what is not a number of seconds."""
    text = os.environ.get(PATIENCE)
    if not text:
        return SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise CkmlirError(f"{PATIENCE}={text}: expected seconds above 0, or inf")
    return seconds
