"""Profiles: every space of each has kernels, and they are those that its users call and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ckmlir.dispatch import Space, expand
from ckmlir.dispatch import profiles as module
from ckmlir.dispatch.profiles import profiles, read_profile
from ckmlir.ops.request import RequestError
from ckmlir.targets import get_target

HALF = {"f16", "bf16"}
RULES: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    "default": lambda op, keys: keys["dtype"] != "f32",
    "flash_forward": lambda op, keys: keys["dtype"] in HALF and not {"bias", "sink", "v_layout", "scales"} & set(keys),
    "flash_backward": lambda op, keys: op == "fmha_bwd" and keys["dtype"] in HALF and "bias" not in keys,
    "pytorch": lambda op, keys: keys["dtype"] in HALF and not {"alibi", "soft_cap", "sink", "scales"} & set(keys),
    "aiter_batch": lambda op, keys: op == "fmha_fwd" and keys["dtype"] != "f32" and "mode" not in keys,
    "aiter_group": lambda op, keys: op == "fmha_batch_prefill" or keys["mode"] == "group",
    "aiter_backward": lambda op, keys: op == "fmha_bwd",
    "f32": lambda op, keys: keys["dtype"] == "f32" and "soft_cap" not in keys,
    "fp8": lambda op, keys: keys["dtype"] in {"fp8", "bf8"},
}
"""By profile what holds for each of its requests, as CK Tile's profiles have it."""


def test_there_are_rules_for_all() -> None:
    assert set(profiles()) == set(RULES)
    assert all(len(summary) > 10 for summary in profiles().values())
    with pytest.raises(RequestError, match="flash is neither a file nor a profile; "):
        read_profile("flash")


@pytest.mark.parametrize("name", RULES)
def test_every_request_is_one_that_its_users_make(name: str) -> None:
    for space in read_profile(name):
        for request in space._requests():
            assert RULES[name](space.operator.name, request), (space.operator.name, request)


def small(space: Space) -> Space:
    """The first value of every key, on one chip."""
    keys = {key: (axis if isinstance(axis, str) else axis[0],) for key, axis in space.keys.items()}
    return msgspec.structs.replace(space, targets=(get_target("gfx942"),), keys=keys)


@pytest.mark.parametrize("name", RULES)
def test_every_space_has_kernels(name: str) -> None:
    for space in read_profile(name):
        found = small(space).expand()
        assert len(found.kernels) == 1, (space, found)


@pytest.mark.full
@pytest.mark.parametrize("name", RULES)
def test_nothing_is_dropped_but_by_its_reason(name: str) -> None:
    """What is dropped are pages smaller than vectors, in the vectorised layout."""
    found = expand(read_profile(name))
    assert all(reason.startswith("fmha_batch_prefill: page_size=1: ") for reason in found.dropped)
    assert len(found.kernels) > 100


def test_a_profile_that_is_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps({"schema": 1, "spaces": []}))
    with pytest.raises(RequestError, match="profile mine: no field summary"):
        read_profile("mine")
