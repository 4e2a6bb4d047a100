"""Names of arguments reach the code object's metadata, and nothing else of it changes."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from ckmlir.codeobject import CodeObject
from ckmlir.compiler import compile_kernel
from ckmlir.lowering.linking.link import link_object
from ckmlir.lowering.metadata_note import KernelNotes, with_notes
from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def test_arguments_are_called_as_in_the_source() -> None:
    operator, target = find_operator("softmax"), get_target("gfx942")
    spec = operator.spec(operator.problem(m=4, n=8), target)
    compiled = compile_kernel(operator, spec, target, keep=("obj",))
    kernel = compiled.code_object.kernel()
    assert [argument.name for argument in kernel.arguments] == ["x", "y", "m", "n", "x_stride", "y_stride", "scale"]
    relocatable = compiled.artifacts["obj"]
    assert isinstance(relocatable, bytes)

    # The same object with other names: the same in all but the names.
    names = [f"longer name {place}" for place in range(len(kernel.arguments))]
    renamed = CodeObject.parse(link_object(with_notes(relocatable, {kernel.name: KernelNotes(names)}))).kernel()
    assert [argument.name for argument in renamed.arguments] == names
    unnamed = [msgspec.structs.replace(argument, name="") for argument in renamed.arguments]
    assert unnamed == [msgspec.structs.replace(argument, name="") for argument in kernel.arguments]
    without = {"arguments": ()}
    assert dataclasses.replace(renamed.metadata, **without) == dataclasses.replace(kernel.metadata, **without)
    # The note is longer, so that the code behind it may lie elsewhere.
    moved = {"entry_offset": 0}
    assert msgspec.structs.replace(renamed.descriptor, **moved) == msgspec.structs.replace(kernel.descriptor, **moved)


def test_a_kernel_that_is_not_named_keeps_what_it_has() -> None:
    operator, target = find_operator("softmax"), get_target("gfx90a")
    spec = operator.spec(operator.problem(m=4, n=8), target)
    compiled = compile_kernel(operator, spec, target, keep=("obj",))
    relocatable = compiled.artifacts["obj"]
    assert isinstance(relocatable, bytes)
    # Metadata that is read and written again is the same, byte for byte, as LLVM wrote it.
    assert link_object(with_notes(relocatable, {})) == compiled.hsaco


def test_names_and_arguments_have_to_agree_in_number() -> None:
    operator, target = find_operator("softmax"), get_target("gfx942")
    spec = operator.spec(operator.problem(m=4, n=8), target)
    compiled = compile_kernel(operator, spec, target, keep=("obj",))
    relocatable = compiled.artifacts["obj"]
    assert isinstance(relocatable, bytes)
    with pytest.raises(ValueError):
        with_notes(relocatable, {compiled.kernel_name: KernelNotes(["only one"])})
