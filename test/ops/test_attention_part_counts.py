"""What parts of attention forward add to a step of 64 keys, in vector instructions: docs/testing.md has the figures."""

from __future__ import annotations

from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import MachineLoop, steady_loop
from ckmlir.targets import get_target

PARTS: dict[str, tuple[dict[str, Any], int]] = {
    "soft cap": ({"soft_cap": 30}, 107),
    "ALiBi": ({"alibi": "head"}, 70),
    "bias": ({"bias": "head"}, 52),
    "dropout": ({"dropout": 0.2}, 142),
}
"""With the most that they add on any chip."""


def steady(chip: str, name: str = "fmha_fwd", **keys: Any) -> MachineLoop:
    """The loop of schedule `qr`; nothing is spilled."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(b=2, h=16, sq=4096, sk=4096, d=128, schedule="qr", **keys)
    spec = operator.spec(problem, target)
    kernel = compile_kernel(operator, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert spec.block[1] == 64
    return steady_loop(kernel.code_object, kernel.kernel_name)


@pytest.mark.parametrize(
    "chip", ["gfx950", *(pytest.param(one, marks=pytest.mark.full) for one in ("gfx90a", "gfx942"))]
)
def test_what_a_part_adds(chip: str) -> None:
    """A bias is converted and added by one instruction, ALiBi takes magnitudes in the one that adds."""
    plain = steady(chip).mix
    for name, (keys, most) in PARTS.items():
        loop = steady(chip, **keys)
        assert loop.mix["mfma"] == plain["mfma"]
        assert loop.mix["valu"] - plain["valu"] <= most, name
        names = [one.mnemonic for one in loop.instructions]
        assert names.count("v_fma_mix_f32") == (32 if name == "bias" else 0)
        assert not {"v_cvt_f32_f16", "v_and_b32"} & set(names)


@pytest.mark.parametrize(("chip", "size", "most"), [
    ("gfx942", 128, 42), *(pytest.param(*one, marks=pytest.mark.full) for one in
                           (("gfx942", 64, 33), ("gfx950", 64, 53), ("gfx950", 128, 52), ("gfx942", 16, 72))),
])  # fmt: skip
def test_what_pages_add(chip: str, size: int, most: int) -> None:
    """To sequences of any lengths in rows, in instructions of all kinds: what is computed of K's page is V's too."""
    rows = steady(chip, seqlens_k=(4096, 4000))
    pages = steady(chip, "fmha_fwd_pagedkv", page_size=size)
    assert pages.mix["mfma"] == rows.mix["mfma"]
    assert 0 < len(pages.instructions) - len(rows.instructions) <= most
