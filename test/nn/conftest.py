"""A session on the simulator, with all its checkers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ckmlir import nn

sys.path.insert(0, str(Path(__file__).parent))  # what the tests of this directory share


@pytest.fixture(scope="package")
def device_session() -> Iterator[nn.Session]:
    session = nn.Session("gfx942", "sim", checks="all")
    yield session
    session.close()


@pytest.fixture
def session(device_session: nn.Session) -> Iterator[nn.Session]:
    from ckmlir.nn.session import _current

    token = _current.set(device_session)
    yield device_session
    _current.reset(token)


@pytest.fixture(autouse=True)
def numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test draws does not depend on which tests ran before it."""
    import common

    monkeypatch.setattr(common, "RANDOM", np.random.default_rng(3))
