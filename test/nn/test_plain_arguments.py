"""Arguments other than arrays, and tensors without values: what is not taken is refused in a line that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ckmlir import nn
from ckmlir.nn.plain import KINDS, flag, number, numbers, real, word
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
    (lambda: nn.conv2d(IMAGES, WEIGHTS, padding=np.ones(3)), "padding=ndarray: expected whole numbers"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, groups=None), "groups=None: expected a whole number, 1 or more"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, groups=True), "groups=True: expected a whole number"),
    (lambda: nn.conv2d(IMAGES, WEIGHTS, activation="a\nb"), "activation=a b: expected one of gelu,"),
    (lambda: nn.max_pool2d(IMAGES, 2.0), r"kernel_size=2\.0: expected whole numbers"),
    (lambda: nn.im2col(IMAGES, 3, groups=None), "groups=None: expected a whole number"),
    (lambda: nn.conv2d_input("x", WEIGHTS, f16(2, 6, 7, 7)), "input_size=x: expected whole numbers"),
    (lambda: nn.softmax(X, dim="2"), "dim=2: expected one of 2 dimensions"),
    (lambda: nn.softmax(X, scale={}), "scale={}: expected a finite number"),
    (lambda: nn.layer_norm(X, (8.0,)), r"normalized_shape=8\.0: expected whole numbers"),
    (lambda: nn.permute(X, None), "dims=None: expected whole numbers"),
    (lambda: nn.reduce(X, dims=2.5), r"dims=2\.5: expected whole numbers"),
    (lambda: nn.reduce(X, dims=X), "dims=ndarray: expected whole numbers"),
    (lambda: nn.reduce(X, X), "reduce: ops="),
    (lambda: nn.quantize(X, by=X), "by=.*: expected one of tensor, row, 1x32"),
    (lambda: nn.dequantize(I8, ONE, by=torch.ones(3)), "by=.*: expected one of tensor, row, 1x32"),
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
    (lambda: nn.shuffle_weight(W, columns=STARTS), r"columns=\[ 0 5 12\]: expected one of"),
    (lambda: nn.linear_shuffled(X, W, STARTS), r"n=\[ 0 5 12\]: expected a whole number, 0 or more"),
    (lambda: nn.softmax(SPARSE), "a tensor that is torch.sparse_coo: expected one with strides"),
    (lambda: nn.batch_norm(IMAGES, None, None, activation={}), "activation={}: expected one of none, relu"),
    (lambda: nn.scatter_rows(X, np.zeros(4, np.int32), 3, op=np.ones(3)), "op=.*: expected one of add, store"),
    (lambda: nn.linear(torch.ones(4, 8, requires_grad=True), W), "weight is ndarray; expected a tensor"),
])  # fmt: skip
def test_what_is_not_taken_is_named(call: Callable[[], object], told: str) -> None:
    with nn.use("gfx942", device="sim"), pytest.raises((DeviceError, ValueError), match=told) as raised:
        call()
    assert type(raised.value).__module__.startswith("ckmlir")
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 300


SCALARS = [
    (name, parameter.name)
    for name in nn.__all__
    if inspect.isfunction(getattr(nn, name)) and name != "use"
    for parameter in inspect.signature(getattr(nn, name)).parameters.values()
    if parameter.annotation in KINDS
]
"""Functions with the flags and numbers that they take."""


@pytest.mark.parametrize(("name", "argument"), SCALARS)
def test_arrays_are_neither_flags_nor_numbers(name: str, argument: str) -> None:
    function = getattr(nn, name)
    needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
    required = {one.name: f16(2, 2) for one in needed if one.kind is one.POSITIONAL_OR_KEYWORD}
    for wrong in (np.ones(2), torch.ones(2), torch.ones(1), "no", [1.0]):
        with pytest.raises(DeviceError, match=f"^{argument}=.*: expected (True or False|a finite|a whole)") as raised:
            function(**required, **{argument: wrong})
        assert "\n" not in str(raised.value)


def test_that_many_functions_were_looked_at() -> None:
    assert {("attention", "softcap"), ("attention", "seed"), ("conv2d", "channels_last"), ("sort", "descending")} < set(
        SCALARS
    )
    assert len(SCALARS) > 100


def test_arrays_are_not_flags_where_arguments_go_through_another_function_or_pytorch() -> None:
    with pytest.raises(DeviceError, match=r"^causal=ndarray: expected True or False"):
        nn.flash_attn_qkvpacked_func(np.ones((1, 4, 3, 2, 16), np.float16), causal=np.ones(2))
    q = torch.ones(1, 4, 2, 16, dtype=torch.float16, requires_grad=True)
    with pytest.raises(DeviceError, match=r"^softcap=Tensor: expected a finite number"):
        nn.attention(q, q, q, softcap=q)
    with pytest.raises(DeviceError, match=r"^descending=ndarray: expected True or False"):
        nn.sort(X, -1, np.ones(2))  # by place


def test_flags_and_numbers_of_every_library_are_taken() -> None:
    assert all(map(flag, (True, False, 0, 1, np.True_, np.int8(1), torch.tensor(True))))
    assert not any(map(flag, (2, 0.0, "1", None, np.ones(1), torch.ones(1))))
    assert all(map(real, (0, 2.5, True, np.float32(2), np.array(2.0), torch.tensor(2.0))))
    assert not any(map(real, (float("nan"), np.inf, 10**400, "1", None, np.ones(1), torch.tensor(1.0, device="meta"))))
    with nn.use("gfx942", device="sim"):
        for yes in (True, 1, np.True_, torch.tensor(True)):
            assert nn.sort(np.arange(4, dtype=np.float32)[None], descending=yes)[1].tolist() == [[3, 2, 1, 0]]
        np.testing.assert_array_equal(nn.softmax(X, scale=np.array(2.0)), nn.softmax(X, scale=2.0))


def test_numbers_of_every_library_are_taken() -> None:
    for many in ([1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), range(1, 3)):
        assert numbers("n", many) == (1, 2)
    for single in (3, np.int64(3), torch.tensor(3)):
        assert number("n", single, 1) == 3
    assert word("w", "a", ("a", "b")) == "a"
    for wrong in (0, -1, 2.5, "3", None, True, 2**31):
        with pytest.raises(DeviceError, match="n="):
            number("n", wrong, 1)


def test_no_elements_are_chosen() -> None:
    with nn.use("gfx942", device="sim"):
        values, places = nn.topk(X, 0)
    assert values.shape == places.shape == (4, 0)
