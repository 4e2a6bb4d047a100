"""Values of other kinds than a function takes: an error of the project that names the argument, not one of Python's or
of a library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ckmlir import nn
from ckmlir.runtime.device import DeviceError

F16 = np.float16
MATRIX = np.zeros((2, 2), F16)
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.flash_attn_kvpacked_func(MATRIX, None), "kv: NoneType is not an array; expected (b, s, 2, heads"),
    (lambda: nn.flash_attn_qkvpacked_func([1]), "qkv: list is not an array"),
    (lambda: nn.scaled_grouped_matmul(None, [MATRIX], [], []), "a: NoneType; expected a list of arrays"),
    (lambda: nn.scaled_grouped_matmul(MATRIX, [MATRIX], [], []), "a: ndarray; expected a list of arrays"),
    (lambda: nn.empty(1.5, "f4"), "shape (1.5,): expected whole numbers"),
    (lambda: nn.empty("ab", "f4"), "shape ('ab',): expected whole numbers"),
    (lambda: nn.empty((2,), "ij,jk->ik"), "is not an element type"),
    (lambda: nn.expert_matmul(MATRIX, MATRIX, None, results=MATRIX), "results=[[0. 0.] [0. 0.]]: expected one of"),
    (lambda: nn.cast(MATRIX, "f32", packed=MATRIX), "[[0. 0.] [0. 0.]] is not a packed type"),
    (lambda: nn.combined_matmul(MATRIX, MATRIX, a_op=MATRIX), "a_op=[[0. 0.] [0. 0.]]: expected an expression"),
]


@pytest.mark.parametrize(("call", "said"), CASES)
def test_what_is_no_such_thing_is_refused(call: Callable[[], Any], said: str) -> None:
    with nn.use("gfx942", "sim"), pytest.raises(DeviceError) as error:
        call()
    assert said in str(error.value)
