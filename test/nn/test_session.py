"""Sessions: which one functions take, which kernels they use, how few, and that closing gives everything back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from common import assert_close, exact, normal, softmax

from ckmlir import nn
from ckmlir.dispatch import Dispatcher, Kernel, NoKernel, Registry
from ckmlir.nn import session as sessions
from ckmlir.ops import find_operator
from ckmlir.runtime import open_device
from ckmlir.runtime.device import DeviceError
from ckmlir.targets import get_target


def test_there_has_to_be_a_session() -> None:
    assert not sessions._lasting
    with pytest.raises(DeviceError, match=r"there is no session: expected nn.use\('gfx942'\)"):
        nn.softmax(normal(2, 8))
    with pytest.raises(DeviceError, match="a session needs a chip, such as 'gfx942'"):
        nn.Session()


def test_the_session_of_the_block_then_that_of_use() -> None:
    lasting = nn.use("gfx942", "sim")
    try:
        assert nn.current() is lasting
        with nn.Session("gfx950", "sim") as inner:
            assert nn.current() is inner
            found = []
            thread = threading.Thread(target=lambda: found.append(nn.current()))
            thread.start()
            thread.join()
            assert found == [lasting]  # blocks are of one thread
        with pytest.raises(DeviceError, match="this session is closed"):
            inner.run("softmax", {}, {}, {})
        assert nn.current() is lasting
        assert nn.use("gfx942", "sim") is not lasting
        assert lasting._is_closed
    finally:
        nn.current().close()
    assert not sessions._lasting


def test_a_device_that_is_given_stays_open() -> None:
    device = open_device("sim", get_target("gfx942"))
    with nn.Session(device=device) as session:
        assert session.target.name == "gfx942"
        assert_close(nn.softmax(normal(2, 8)).sum(1), np.ones(2))
        kernels = session.kernels
    assert [one.operator.name for one in kernels] == ["softmax"]
    device.allocate(16)
    device.close()
    gfx950 = get_target("gfx950")
    with pytest.raises(DeviceError, match="the dispatcher is for gfx950, the device runs gfx942"):
        nn.Session("gfx942", "sim", dispatcher=Dispatcher(Registry(), gfx950))


def test_kernels_come_from_the_dispatcher() -> None:
    """Of a registry, and nowhere else where it is strict."""
    softmax_operator, gfx942 = find_operator("softmax"), get_target("gfx942")
    spec = softmax_operator.spec(softmax_operator.problem(m=3, n=100), gfx942)
    registry = Registry([Kernel(softmax_operator, spec, gfx942)])
    with nn.Session("gfx942", "sim", dispatcher=Dispatcher(registry, gfx942)) as session:
        x = normal(2, 100)
        assert_close(nn.softmax(x), softmax(exact(x)))
        assert session.kernels == set(registry)
    with nn.Session("gfx942", "sim", dispatcher=Dispatcher(registry, gfx942, strict=True)), pytest.raises(NoKernel):
        nn.softmax(normal(2, 9000))


def test_calls_of_one_kind_use_one_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT", 2)
    with nn.Session("gfx942", "sim") as session:
        x = nn.asarray(normal(4, 16))
        for _ in range(3):
            nn.softmax(x)
        assert len(session._executables) == 1
        (_, first), *_ = session._executables.values()
        for n in (8, 4):
            nn.softmax(nn.asarray(normal(4, n)))
        assert len(session._executables) == 2
        assert first._is_closed
        assert_close(nn.softmax(x), softmax(exact(x)))


def layers(x: nn.Array, w: dict[str, Any]) -> nn.Array:
    """What an encoder's layer calls, for rows of one sequence."""
    n = x.shape[1]
    q, k, v = (nn.linear(x, w["square"], w["bias"]).reshape(1, -1, 2, n // 2) for _ in range(3))
    mixed = nn.linear(nn.attention(q, k, v).reshape(*x.shape), w["square"], w["bias"])
    x = nn.layer_norm(mixed, w["gamma"], w["bias"], residual=x)
    inner = nn.linear(x, w["wide"], w["long"], "gelu")
    found: nn.Array = nn.layer_norm(nn.linear(inner, w["narrow"], w["bias"]), w["gamma"], w["bias"], residual=x)
    return found


def test_kernels_of_executables_that_were_given_back_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT", 1)
    with nn.Session("gfx942", "sim") as session:
        nn.softmax(normal(2, 8))
        nn.layer_norm(normal(2, 8), np.ones(8, np.float16), np.ones(8, np.float16))
        assert len(session._executables) == 1
        assert {one.operator.name for one in session.kernels} == {"softmax", "layernorm2d"}


def test_lengths_that_change_use_few_kernels() -> None:
    """At most twelve for an encoder of any length, and as right as others."""
    n = 64
    shapes = {"square": (n, n), "bias": (n,), "gamma": (n,), "wide": (2 * n, n), "long": (2 * n,), "narrow": (n, 2 * n)}
    numbers = {name: normal(*shape) for name, shape in shapes.items()}
    rows = {length: normal(length, n) for length in (1, 17, 64, 130)}
    used, found = {}, dict[bool, dict[int, Any]]()
    for general, lengths in ((False, (17, 64)), (True, tuple(rows))):
        with nn.Session("gfx942", "sim", general=general) as session:
            w = {name: nn.asarray(one) for name, one in numbers.items()}
            found[general] = {length: exact(layers(nn.asarray(rows[length]), w)) for length in lengths}
            used[general] = len(session.kernels)
    assert used[True] == 5  # products with gelu, and without where K is a whole step and where not, attention, norm
    assert used[False] > 5
    for length, other in found[False].items():
        assert_close(found[True][length], other, factor=8)


def encoder(ids: Any, places: Any, w: dict[str, Any]) -> Any:
    """A layer of MiniLM's sizes from its tokens on: 384 channels, 12 heads."""
    x = nn.elementwise("a + b", nn.embedding(ids, w["words"]), nn.embedding(places, w["order"]))
    x = nn.layer_norm(x, w["norm"], w["bias"])
    q, k, v = (nn.linear(x, w["square"], w["bias"]).reshape(len(ids), 12, 32) for _ in range(3))
    mixed = nn.attention_varlen(q, k, v, [0, len(ids)]).reshape(len(ids), 384)
    x = nn.layer_norm(nn.linear(mixed, w["square"], w["bias"]), w["norm"], w["bias"], residual=x)
    wide = nn.linear(x, w["wide"], w["long"], "gelu")
    return nn.layer_norm(nn.linear(wide, w["narrow"], w["bias"]), w["norm"], w["bias"], residual=x)


def test_a_whole_encoder_takes_few_kernels() -> None:
    """From the table of words on, with sequences that follow each other: at most twelve kernels for any lengths."""
    n, m = 384, 1536
    shapes = {"words": (100, n), "order": (512, n), "norm": (n,), "bias": (n,), "square": (n, n), "wide": (m, n),
              "long": (m,), "narrow": (n, m)}  # fmt: skip
    numbers = {name: normal(*shape) / (1 if len(shape) == 1 else 16) for name, shape in shapes.items()}
    found = dict[bool, dict[int, Any]]()
    for general, lengths in ((False, (7,)), (True, (1, 2, 7, 33))):
        with nn.Session("gfx942", "sim", general=general) as session:
            w = {name: nn.asarray(one.astype(np.float16)) for name, one in numbers.items()}
            found[general] = {}
            for length in lengths:
                places = np.arange(length, dtype=np.int32)
                found[general][length] = exact(encoder(nn.asarray(places % 99), nn.asarray(places), w))
            assert len(session.kernels) <= 12 or not general
    for length, other in found[False].items():
        assert_close(found[True][length], other, factor=8)


CHANGING: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: nn.elementwise("a * 2 + b", x, x[0]),
    "of itself": lambda x: nn.elementwise("a * 2", x),
    "cast": lambda x: nn.cast(x, "f32"),
    "reduce": nn.reduce,
    "permute": lambda x: nn.permute(x.reshape(len(x), 4, 16), (1, 0, 2)),
    "contiguous": lambda x: nn.contiguous(x[:, ::2]),
    "attention_varlen": lambda x: nn.attention_varlen(*[x.reshape(len(x), 2, 32)] * 3, [0, len(x) // 2, len(x)]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CHANGING)
def test_functions_whose_sizes_are_lists_use_few_kernels(name: str) -> None:
    """One for all numbers of rows, but that one row may be a case of its own; as right as those made for each."""
    rows = {length: normal(length, 64) for length in (1, 2, 7, 16, 64, 100)}
    found = dict[bool, dict[int, Any]]()
    for general, lengths in ((False, (7, 64)), (True, tuple(rows))):
        with nn.Session("gfx942", "sim", general=general) as session:
            found[general] = {length: exact(CHANGING[name](nn.asarray(rows[length]))) for length in lengths}
            assert not general or len(session.kernels) <= 2
    for length, other in found[False].items():
        assert_close(found[True][length], other, factor=4)


def test_sizes_beside_which_no_typical_one_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a general kernel cannot be chosen the request's own is taken."""
    monkeypatch.setattr("ckmlir.nn.tensors.TYPICAL", 1 << 40)
    with nn.Session("gfx942", "sim", general=True):
        x = normal(5, 64)
        np.testing.assert_array_equal(exact(nn.elementwise("a + 0", x)), exact(x))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx950"])
def test_other_chips(chip: str) -> None:
    x, weight = normal(5, 16), normal(8, 16)
    with nn.Session(chip, "sim", checks="all"):
        assert_close(nn.linear(x, weight, activation="silu"), (y := exact(x) @ exact(weight).T) / (1 + np.exp(-y)))
        if chip == "gfx90a":
            with pytest.raises(DeviceError, match="no operator has elements of type float8_e4m3fnuz on gfx90a"):
                import ml_dtypes

                nn.softmax(x.astype(ml_dtypes.float8_e4m3fnuz))
