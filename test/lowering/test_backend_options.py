"""Kernels without branches spare LLVM what only loops and branches need; options of LLVM's are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.lowering import codeobject
from ckmlir.lowering.backend_options import ADDRESSES, FEW_SUMS, SPARED, wanted_options
from ckmlir.lowering.metadata_note import Spilled
from ckmlir.mlir import exchange_backend_option
from ckmlir.ops import find_operator
from ckmlir.targets import get_target

USUAL = {name: not choice for name, choice in SPARED.items()}
WANTED: dict[str, tuple[dict[str, object], dict[str, bool]]] = {
    "reduce": ({"shape": (64, 40000)}, USUAL),  # a loop
    "copy": ({"m": 64, "n": 64}, dict(SPARED)),
    # Lanes with many rows, each of which has a place in LDS.
    "transpose2d": ({"m": 4096, "n": 4096, "dtype": "i8"}, {**SPARED, ADDRESSES: True}),
}
"""By operator: keys of a kernel, and LLVM's options for it."""


def options() -> dict[str, bool]:
    """What LLVM's options are now."""
    found = {}
    for name in SPARED:
        before = exchange_backend_option(name, True)
        if before is None:
            pytest.skip("these bindings cannot set LLVM's options")
        exchange_backend_option(name, before)
        found[name] = before
    return found


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, bool]]]:
    """The options while LLVM worked, of each compilation."""
    found: list[dict[str, bool]] = []
    binary = codeobject._binary

    def noted(*given: Any) -> bytes:
        found.append(options())
        return binary(*given)

    monkeypatch.setattr(codeobject, "_binary", noted)
    yield found
    assert options() == USUAL


def compiled(name: str) -> bytes:
    operator, target = find_operator(name), get_target("gfx942")
    return compile_kernel(operator, operator.spec(operator.problem(**WANTED[name][0]), target), target).hsaco


@pytest.mark.parametrize("name", WANTED)
def test_what_is_spared_while_llvm_works(name: str, inside: list[dict[str, bool]]) -> None:
    compiled(name)
    assert inside == [WANTED[name][1]]


def test_many_sums_are_looked_through() -> None:
    assert not wanted_options(False, FEW_SUMS)[ADDRESSES]
    assert wanted_options(False, FEW_SUMS + 1) == {**SPARED, ADDRESSES: True}
    assert wanted_options(True, FEW_SUMS) == USUAL


def test_options_come_back_where_llvm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        assert options() == SPARED
        raise codeobject.CodeGenerationError("no such instruction")

    monkeypatch.setattr(codeobject, "_binary", fails)
    with pytest.raises(codeobject.CodeGenerationError, match="no such"):
        compiled("copy")
    assert options() == USUAL


@pytest.mark.parametrize("name", ["copy", "rmsnorm2d", "transpose2d"])
def test_the_code_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, target = find_operator(name), get_target("gfx942")
    spec = operator.spec(operator.problem(m=4096, n=4096, dtype="f16"), target)
    spared = compile_kernel(operator, spec, target).hsaco
    monkeypatch.setattr(codeobject, "wanted_options", lambda *_: {})
    assert compile_kernel(operator, spec, target).hsaco == spared


CROWDED: dict[int, dict[str, Any]] = {
    1: {"m": 2048, "n": 4072, "k": 512, "layout": "CRR", "a_op": "a0 + a1 + a2 + a3", "b_op": "b0 + b1 - b2 * b3",
        "b_types": "f16,f16,f16,bf16"},
    2: {"m": 512, "n": 512, "k": 520, "dtype": "bf8", "layout": "CCR", "a_types": "f32,bf8",
        "b_op": "b0 + b1 - b2 - b3", "b_types": "bf8,bf8,f16,f32", "b_kind": "k,full,full,scalar"},
}  # fmt: skip
"""Products whose kernels spill one or two vector registers unless LLVM is asked otherwise, by how many options."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("needed", CROWDED)
def test_kernels_that_spill_vector_registers_are_compiled_again(needed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many options are tried as it takes, and they are of no other kernel."""
    options()
    operator, target = find_operator("gemm_multi_abd"), get_target("gfx942")
    spec = operator.spec(operator.problem(**{"op": "acc", **CROWDED[needed]}), target)
    for able in (needed - 1, needed):
        monkeypatch.setitem(codeobject.FEWER, "vectors", codeobject.FEWER_VECTORS[:able])
        kernel = compile_kernel(operator, spec, target)
        metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
        assert (metadata.vgpr_spill_count == 0) == (able == needed)
        monkeypatch.undo()
    assert exchange_backend_option(codeobject.WIDE_FIRST, False) is False


WIDE, LSR = {codeobject.WIDE_FIRST: True}, {"disable-lsr": True}
BOTH = {**LSR, "disable-machine-licm": True}
UNSCHEDULED = {**WIDE, codeobject.SCHEDULER: False}


@pytest.mark.parametrize(("spilled", "asked"), [
    ([(0, 0)], [{}]),
    ([(2, 5), (0, 5), (0, 0)], [{}, WIDE, WIDE | LSR]),  # beside what vector registers need
    ([(2, 0), (2, 0), (0, 0)], [{}, WIDE, UNSCHEDULED]),
    ([(1, 3), (2, 0), (1, 3), (1, 1), (1, 0)], [{}, WIDE, UNSCHEDULED, LSR, BOTH]),
    ([(2, 0), None, (0, 0)], [{}, WIDE, UNSCHEDULED]),  # LLVM gives up on one choice
])  # fmt: skip
def test_what_is_asked_for_after_what_is_spilled(
    spilled: list[tuple[int, int] | None], asked: list[dict[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each choice is tried only while registers of its kind are spilled."""
    tried = []

    def compiled(_work: object, _form: str, _size: object, options: dict[str, bool]) -> tuple[bytes, list[str]]:
        found = spilled[len(tried)]
        tried.append(options)
        if found is None:
            raise codeobject.CodeGenerationError("LLVM gave up")
        return bytes(found), []

    monkeypatch.setattr(codeobject, "_compiled", compiled)
    monkeypatch.setattr(codeobject, "_options", lambda *_: {})
    monkeypatch.setattr(codeobject, "spilled_registers", lambda content: Spilled(*content))
    size = SimpleNamespace(branches=True, multiplies=True)
    found = codeobject._serialize(SimpleNamespace(clone=lambda: None), "bin", size)
    assert tried == asked and found == bytes(min(one for one in spilled if one is not None))
