"""Wrong arguments of calls that PyTorch records are refused as they are without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ckmlir import nn
from ckmlir.nn.gradients import NoGradient
from ckmlir.ops.request import RequestError
from ckmlir.runtime.device import DeviceError

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: nothing records")

IDS = torch.zeros(16, dtype=torch.int32)


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    with nn.Session("gfx942", device="sim"):
        yield


@pytest.mark.parametrize("call", [
    lambda x: nn.layer_norm(x, "ab"),
    lambda x: nn.layer_norm(x, (2.5,)),
    lambda x: nn.layer_norm(x, None, "ab"),
    lambda x: nn.rms_norm(x, None, 1.5),
    lambda x: nn.softmax(x, mask={}),
    lambda x: nn.matmul(x, "ab"),
    lambda x: nn.matmul(x, None),
    lambda x: nn.matmul(x, x, dtype="ab"),
    lambda x: nn.linear(x, x, activation="ab"),
    lambda x: nn.conv1d(x[None], x[None], stride="ab"),
    lambda x: nn.conv1d(x[None], x[None], dilation=object()),
    lambda x: nn.conv1d(x[None], x[None], padding=torch.ones(3)),
    lambda x: nn.conv_transpose1d(x[None], x[None], groups=None),
    lambda x: nn.conv_transpose1d(x[None], x[None], padding="same"),
    lambda x: nn.scatter_rows(x, IDS, "ab"),
    lambda x: nn.scatter_rows(x, IDS, True),
    lambda x: nn.scatter_rows(x, 3, 4),
    lambda x: nn.batch_norm(x, None, None, training=True, activation=1.5),
    lambda x: nn.attention(x[None, None], x[None, None], x[None, None], window=1.5),
    lambda x: nn.attention(x[None, None], x[None, None], x[None, None], layout=None),
    lambda x: nn.attention(x[None, None], "ab", x[None, None]),
    lambda x: nn.attention(x[None, None], x[None, None], x[None, None], window=-3),
    lambda x: nn.attention(x[None, None], x[None, None], x[None, None], softcap=-3.0),
    lambda x: nn.embedding([1, 2], x),
])  # fmt: skip
def test_wrong_arguments_are_refused_as_without_gradients(call: Any) -> None:
    """In the same words, which do not speak of gradients."""
    refused = []
    for wanted in (False, True):
        with pytest.raises((DeviceError, RequestError)) as caught:
            call(torch.ones(16, 16, dtype=torch.float16, requires_grad=wanted))
        refused.append((type(caught.value), str(caught.value)))
    assert refused[0] == refused[1] and "gradient" not in refused[0][1]


def test_nothing_is_written_where_an_argument_is_refused() -> None:
    """The function itself is asked whether an argument is wrong, and is given copies."""
    x = torch.ones(16, 16, dtype=torch.float16, requires_grad=True)
    out = torch.zeros(16, 16, dtype=torch.float16)
    with pytest.raises(NoGradient, match="dtype=f16"):
        nn.matmul(x, x, dtype="f16", out=out)
    mean, variance = torch.zeros(16), torch.ones(16)
    with nn.Session("gfx942", device="sim") as own, pytest.raises(NoGradient, match="stream"):
        nn.batch_norm(x, mean, variance, training=True, stream=own.device.create_stream())
    assert not out.any() and not mean.any() and (variance == 1).all()
