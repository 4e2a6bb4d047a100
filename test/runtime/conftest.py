"""Makes the driver double importable, and gives it to tests that ask for GPUs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from driver_double import DriverDouble


@pytest.fixture
def driver() -> Iterator[DriverDouble]:
    """A machine with one gfx942; at the end, nothing may be left of what the test took."""
    pytest.importorskip("hip", reason="hip-python is not installed: nothing of the GPU runtime is tested")
    from driver_double import the_double

    double = the_double()
    double.start(["gfx942:sramecc+:xnack-"])
    try:
        yield double
        double.settle()
        assert double.complaints == []
        assert double.live() == {}
    finally:
        double.stop()
