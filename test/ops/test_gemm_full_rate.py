"""gfx950's instructions for 8-bit floats at full rate: named in a request, they multiply as the others do, unscaled."""

from typing import Any

import pytest
from checked_runs import compiled, findings
from operator_runner import agree

CASES: list[tuple[str, dict[str, Any]]] = [
    ("16x16x128", {"m": 130, "n": 96, "k": 300, "dtype": "fp8", "block": (64, 64, 128)}),
    ("32x32x64", {"m": 100, "n": 65, "k": 260, "dtype": "bf8", "block": (64, 64, 64), "schedule": "compv3"}),
    ("16x16x128", {"m": 64, "n": 64, "k": 384, "dtype": "bf8", "block": (64, 64, 128), "layout": "CRR"}),
    ("32x32x64", {"m": 64, "n": 64, "k": 64, "dtype": "fp8", "block": (64, 64, 64), "schedule": "mem2"}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("mfma", "keys"), CASES)
def test_products(mfma: str, keys: dict[str, Any]) -> None:
    agree("gemm", "gfx950", mfma=mfma, **keys)


def test_the_plain_instruction_is_taken_and_its_distances_are_kept() -> None:
    mfma, keys = CASES[0]
    one = compiled("gemm", tuple({**keys, "mfma": mfma}.items()), "gfx950")
    matrix = {found.mnemonic for found in one.instructions if found.mnemonic.startswith("v_mfma")}
    assert matrix == {f"v_mfma_f32_{mfma}_f8f6f4"}
    assert findings(one) == ()
