"""The operators through the real hip-python: launches arrive at the driver double, which runs them on the simulator."""

from __future__ import annotations

from typing import Any

import pytest
from driver_double import DriverDouble

from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

REQUESTS = [
    ("gemm", {"m": 70, "n": 50, "k": 90, "dtype": "bf16", "layout": "RRR", "lda": 96}),
    ("layernorm2d", {"m": 9, "n": 200, "add": "store", "save_stats": 1, "ystride": 208}),
    ("fmha_fwd", {"b": 1, "h": 2, "hk": 1, "sq": 40, "sk": 70, "d": 64, "mask": "bottom_right", "lse": 1}),
]


@pytest.mark.parametrize(("name", "keys"), REQUESTS, ids=[name for name, _ in REQUESTS])
def test_right_numbers(driver: DriverDouble, name: str, keys: dict[str, Any]) -> None:
    target = get_target("gfx942")
    operator = find_operator(name)
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    device = open_device("hip", target)
    result = run_operator(operator, problem, arrays, target, device)
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
    assert [launch[0] for launch in driver.launches] == [result.kernel.kernel_name]
    assert driver.live() == {}
    device.close()
