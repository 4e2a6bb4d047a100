"""What is asked once, however often it is needed: scalar code, for all vectors of a tile; the operations of a kernel,
for several passes; where accesses to a tile are, for those behind the first.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ckmlir.dialect.build import attributes_of, registers_of
from ckmlir.dialect.context import exclusive
from ckmlir.lang import Kernel
from ckmlir.lowering import buffer_address
from ckmlir.mlir import ir
from ckmlir.ops import find_operator
from ckmlir.passes import elementwise, walk
from ckmlir.passes.framework import Pass
from ckmlir.passes.pipeline import FRAGMENTING, PIPELINE, SCHEDULING, parse_pass, run_pipeline
from ckmlir.passes.walk import REGION_VALUES, functions, nested, operations
from ckmlir.targets import get_target


def test_scalar_code_is_read_once_for_all_vectors_of_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, target = find_operator("rmsnorm2d"), get_target("gfx942")
    kernel = operator.build(operator.spec(operator.problem(m=64, n=4096, dtype="f32"), target), target)
    read = Counter[str]()

    def asked(op: Any) -> Any:
        read[op.name] += 1
        return attributes_of(op)

    monkeypatch.setattr(elementwise, "attributes_of", asked)
    with exclusive(kernel.module.context):
        (function,) = functions(kernel.module)
        inside = [one.name for op in operations(function) if op.name in REGION_VALUES for one in nested(op)]
        run_pipeline(kernel.module, FRAGMENTING, dump_on_failure=False)
        made = Counter(op.name for op in operations(function))
        loads = [op for op in operations(function) if op.name == "ck.load_fragment"]
        assert read == Counter(name for name in inside if not name.startswith("ck."))
        assert made["arith.mulf"] >= 4 * 3  # each of x², x * inv_rms and y * gamma of four vectors
        assert registers_of(loads[0]) is registers_of(loads[0])


LISTED: dict[str, dict[str, Any]] = {
    "rmsnorm2d": {"m": 64, "n": 4096, "dtype": "f32"},  # promises, and barriers between waves
    "transpose2d": {"m": 64, "n": 64, "dtype": "f16"},
    "gemm": {"m": 512, "n": 512, "k": 512, "dtype": "f16"},  # blocks, and waits for copies to LDS
    "fmha_fwd": {"h": 2, "sq": 256, "sk": 200, "d": 64},  # turns of whole blocks of keys
    "conv_fwd": {
        "n": 2, "k": 8, "c": 128, "g": 2, "image": (3, 4), "window": (3, 2), "pads": 1, "right_pads": 0,
        "schedule": "compv4", "block": (32, 32, 32), "wave": (1, 1),
    },  # turns at one place of the window
}  # fmt: skip
SPLIT = {"fmha_fwd": ["ck-split-at-edges"], "conv_fwd": ["ck-split-at-carries"]}
"""Which of the passes below make new blocks of theirs."""

KEEPING = [
    "ck-note-accesses", "ck-record-promises", "ck-allocate-lds", "ck-insert-barriers", "ck-place-sched-barriers",
    "ck-split-at-carries", "ck-split-at-edges",
]  # fmt: skip


def traced(name: str) -> Kernel:
    operator, target = find_operator(name), get_target("gfx950")
    return operator.build(operator.spec(operator.problem(**LISTED[name]), target), target)


def held(function: ir.Operation) -> walk.Blocks:
    """What the blocks of a kernel hold, listed anew."""
    return [[view.operation for view in block] for block in function.regions[0]]


@pytest.mark.parametrize("name", LISTED)
def test_lists_are_right_behind_every_pass_that_keeps_them(name: str) -> None:
    kernel = traced(name)
    kept, split = [], []
    with exclusive(kernel.module.context), walk.lists_kept():
        for step in PIPELINE:
            current = step.run if isinstance(step.run, Pass) else parse_pass(step.run)
            if current.name == "ck-lower-fragments":
                break
            before = [walk.blocks_of(function) for function in walk.functions(kernel.module)]
            current.apply(kernel.module)
            if current.keeps_lists:
                kept.append(current.name)
                for function, earlier in zip(walk.functions(kernel.module), before, strict=True):
                    blocks = walk.blocks_of(function)
                    assert blocks == held(function)
                    if blocks is not earlier:
                        split.append(current.name)
            else:
                walk.forget_lists()
    assert (kept, split) == (KEEPING, SPLIT.get(name, []))


def test_a_kernel_is_listed_once_for_passes_that_keep_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = traced("rmsnorm2d")
    seen: list[walk.Blocks] = []

    class Look(Pass):
        name = "ck-look"
        keeps_lists = True

        def apply(self, module: ir.Module) -> None:
            seen.extend(walk.blocks_of(function) for function in walk.functions(module))

    class Forget(Look):
        keeps_lists = False

    with exclusive(kernel.module.context):
        run_pipeline(kernel.module, (*FRAGMENTING, *SCHEDULING), dump_on_failure=False)
        run_pipeline(kernel.module, [Look(), Look(), Forget(), Look()], dump_on_failure=False)
        alone = [walk.blocks_of(function) for function in walk.functions(kernel.module)]
    assert [one is seen[0] for one in seen] == [True, True, True, False]
    assert alone == [seen[0]]
    assert alone[0] is not seen[0]  # where nobody keeps lists


ACCESSED: dict[str, tuple[dict[str, Any], int, int]] = {
    "rmsnorm2d": ({"m": 64, "n": 4096, "dtype": "f32"}, 9, 12),  # x, gamma and y, of four vectors each
    "softmax": ({"m": 64, "n": 1000, "dtype": "f16"}, 0, 4),  # rows end within a tile: some lanes are kept away
}
"""With how many of their accesses follow from others."""


@pytest.mark.parametrize("name", ACCESSED)
def test_addresses_that_follow_are_what_they_would_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, follow, every = ACCESSED[name]
    operator, target = find_operator(name), get_target("gfx942")
    spec = operator.spec(operator.problem(**keys), target)
    found = Counter[bool]()
    further = buffer_address._further_along

    def lowered() -> str:
        kernel = operator.build(spec, target)
        with exclusive(kernel.module.context):
            run_pipeline(kernel.module, PIPELINE, dump_on_failure=False)
            return str(kernel.module)

    def counted(*given: Any) -> Any:
        address = further(*given)
        found[address is not None] += 1
        return address

    monkeypatch.setattr(buffer_address, "_further_along", counted)
    following = lowered()
    monkeypatch.setattr(buffer_address, "_further_along", lambda *given: None)
    assert lowered() == following
    assert (found[True], found.total()) == (follow, every)
