"""The numerics tests would notice a missing barrier: without them, kernels of several waves give wrong results.

The simulator starts LDS poisoned and runs a wave until its next barrier, in an order that varies with the seed.
"""

import pytest

from ckmlir.ops import find_operator
from ckmlir.passes import insert_barriers
from ckmlir.runtime import open_device
from ckmlir.runtime.run import check_outputs, run_operator
from ckmlir.targets import get_target

REQUESTS = [
    ("gemm", {"m": 128, "n": 128, "k": 256}),
    ("gemm", {"m": 128, "n": 128, "k": 256, "schedule": "compv4"}),
    ("layernorm2d", {"m": 2, "n": 4096}),
    ("fmha_fwd", {"sq": 128, "sk": 256, "d": 64}),
]


def agrees(name: str, keys: dict[str, object]) -> bool:
    """Whether a request's outputs agree with the reference."""
    operator, target = find_operator(name), get_target("gfx942")
    problem = operator.problem(**keys)
    arrays = operator.inputs(problem, target)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, seed=1))
    return all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "keys"), REQUESTS)
def test_without_barriers_results_are_wrong(
    name: str, keys: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass with its barriers, and the same pass inserting waits, and fences that only order code, instead."""
    assert agrees(name, keys)
    monkeypatch.setattr(insert_barriers.synchronization, "barrier", insert_barriers.synchronization.sched_barrier)
    assert not agrees(name, keys)
