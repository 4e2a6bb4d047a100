"""Arguments that are no arrays, and tensors without values: what is not taken is refused in a line that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ckmlir import nn
from ckmlir.nn.plain import number, numbers, word
from ckmlir.runtime import DeviceError

torch = pytest.importorskip("torch")


def f16(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float16)


IMAGES, WEIGHTS = f16(2, 4, 9, 9), f16(6, 4, 3, 3)
Q, STARTS = f16(12, 2, 16), np.array([0, 5, 12], np.int32)
X, W = f16(4, 8), f16(6, 8)
I8, ONE = np.ones((4, 128), np.int8), np.ones(4, np.float32)
SPARSE = torch.ones(4, 8, dtype=torch.float16).to_sparse()
EXPERTS = (f16(4, 16, 32), f16(4, 16, 32), f16(4, 32, 16), f16(5, 4), 2)


@pytest.mark.parametrize(("call", "told"), [
    (lambda: nn.conv2d(IMAGES, WEIGHTS, stride=None), "stride=None: expected whole numbers"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, groups=None), "groups=None: expected a whole number, 1 or more"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, groups=True), "groups=1: expected a whole number"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, activation="a\nb"), "activation=a b: expected one of gelu,"),
    (lambda: nn.max_pool2d(IMAGES, 2.0), r"kernel_size=2\.0: expected whole numbers"),
    (lambda: nn.im2col(IMAGES, 3, groups=None), "groups=None: expected a whole number"),
    (lambda: nn.conv2d_input("x", WEIGHTS, f16(2, 6, 7, 7)), "input_size=x: expected whole numbers"),
    (lambda: nn.softmax(X, dim="2"), "dim=2: expected one of 2 dimensions"),
    (lambda: nn.softmax(X, scale={}), "scale={}: expected a finite number"),
    (lambda: nn.layer_norm(X, (8.0,)), r"normalized_shape=8\.0: expected whole numbers"),
    (lambda: nn.permute(X, None), "dims=None: expected whole numbers"),
    (lambda: nn.cast(X, np.zeros((2, 2))), r"dtype=\[\[0\. 0\.\] \[0\. 0\.\]\]: expected the name of a type"),
    (lambda: nn.cast(X, "a" * 9000), "unknown dtype 'aaa"),
    (lambda: nn.histogram(np.zeros(4, np.int32), "2"), "bins=2: expected a whole number, 1 or more"),
    (lambda: nn.einsum(None, X, W), "equation=None: expected the letters"),
    (lambda: nn.linear(X, W, residual=np.float16(1)[None][0:1].reshape(())), "residual: shape .*expected .4, 6."),
    (lambda: nn.scaled_linear(I8, I8, ONE, ONE, packed=None), "packed=None: expected a word or None for x"),
    (lambda: nn.attention(Q[None], Q[None], Q[None], window=None), "window=None: expected whole numbers"),
    (lambda: nn.attention(Q[None], Q[None], Q[None], window=(1,)), "expected two numbers, keys to the left"),
    (lambda: nn.attention(Q[None], Q[None], Q[None], layout=3), "layout=3: expected one of bshd, bhsd"),
    (lambda: nn.attention_varlen(Q, Q, Q, None), "cu_seqlens_q=None: expected whole numbers"),
    (lambda: nn.attention_varlen(Q, Q, Q, torch.tensor(STARTS).to("meta")), "cu_seqlens_q=Tensor: expected whole"),
    (lambda: nn.flash_attn_varlen_func(Q, Q, Q, STARTS, STARTS, "9", 9), "max_seqlen_q=9: expected a whole number"),
    (lambda: nn.sparse_attention(Q[None], Q[None], Q[None], block_size=(1,)), "expected queries and keys of a block"),
    (lambda: nn.moe(f16(5, 32), None, *EXPERTS[1:]), "gate: NoneType is not an array"),
    (lambda: nn.softmax(SPARSE), "a tensor that is torch.sparse_coo: expected one with strides"),
    (lambda: nn.linear(torch.ones(4, 8, requires_grad=True), W), "weight is ndarray; expected a tensor"),
])  # fmt: skip
def test_what_is_not_taken_is_named(call: Callable[[], object], told: str) -> None:
    with nn.use("gfx942", device="sim"), pytest.raises((DeviceError, ValueError), match=told) as raised:
        call()
    assert type(raised.value).__module__.startswith("ckmlir")
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


def test_numbers_of_every_library_are_taken() -> None:
    for many in ([1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), range(1, 3)):
        assert numbers("n", many) == (1, 2)
    for single in (3, np.int64(3), torch.tensor(3)):
        assert number("n", single, 1) == 3
    assert word("w", "a", ("a", "b")) == "a"
    for wrong in (0, -1, 2.5, "3", None, True):
        with pytest.raises(DeviceError, match="n="):
            number("n", wrong, 1)
