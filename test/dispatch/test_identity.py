"""Every operator's kernels have an identity: signature and algorithm, an identifier, a form in JSON that reads back."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from drawn import NAMES, problems

from ckmlir.compiler import compile_kernel, compile_traced
from ckmlir.dispatch.identity import Identifier, Kernel
from ckmlir.dispatch.policies import request_of
from ckmlir.dispatch.spaces import Space
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Reason
from ckmlir.records import field_names, replace
from ckmlir.targets import all_targets, get_target

GFX942 = get_target("gfx942")


def gemm(**keys: object) -> Kernel:
    operator = find_operator("gemm")
    return Kernel(operator, operator.spec(operator.problem(**keys), GFX942), GFX942)


KERNEL = gemm()


@functools.cache
def some_kernels(name: str) -> list[Kernel]:
    """Kernels of an operator: those that are listed, and what drawn problems select."""
    operator = find_operator(name)
    found = [Kernel(operator, spec, target) for target in all_targets() for spec in operator.kernels(target)[::29]]
    for problem in problems(operator, 6):
        found.append(Kernel(operator, operator.spec(problem, GFX942), GFX942))
    return found


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_identifiers_and_json_read_back(name: str) -> None:
    kernels = some_kernels(name)
    assert kernels
    assert len({kernel.identifier for kernel in kernels}) == len(set(kernels))
    for kernel in kernels:
        read = Kernel.from_dict(json.loads(json.dumps(kernel.to_dict())))
        assert read == kernel
        assert read.identifier == kernel.identifier
        found = Identifier.parse(kernel.identifier)
        assert str(found) == kernel.identifier
        assert (found.operator, found.target, found.name) == (name, kernel.target.name, kernel.spec.name)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_every_field_belongs_to_one_part(name: str) -> None:
    for kernel in some_kernels(name)[:3]:
        written = kernel.to_dict()
        assert not set(written["signature"]) & set(written["algorithm"])
        assert {**written["signature"], **written["algorithm"]} == json.loads(kernel.spec.to_json())
        assert len(kernel.spec.signature()) == len(written["signature"])
        hash(kernel.spec.signature())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_specification_is_its_fields(name: str) -> None:
    """And nothing beside them, whatever was asked of it, so that a copy with other values has those alone."""
    for kernel in some_kernels(name)[:3]:
        spec = kernel.spec
        assert spec.name and spec.to_dict() and isinstance(spec.signature(), tuple) and isinstance(spec.main_loop, int)
        kernel.operator.validate(spec, kernel.target)
        names = field_names(type(spec))
        assert set(vars(spec)) == set(names)
        for field, value in vars(spec).items():
            changed = spec.with_fields({field: value})
            assert changed == replace(spec) and hash(changed) == hash(spec)
        other = {names[0]: "other"}
        assert spec.with_fields(other) == replace(spec, **other) != spec


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", [5, pytest.param(10, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", NAMES)
def test_what_covers_a_problem_is_told_by_the_signature(name: str, count: int) -> None:
    """If a kernel does a problem, no other of its signature is refused for a field of the signature: registries leave
    out whole signatures by their first kernel.
    """
    operator = find_operator(name)
    drawn = problems(operator, count)
    specs = [operator.spec(problem, GFX942) for problem in drawn]
    for problem in drawn:
        covering = {spec.signature() for spec in specs if not operator.mismatches(problem, spec, GFX942)}
        assert covering
        for spec in specs:
            if spec.signature() in covering:
                fields = {reason.field for reason in operator.mismatches(problem, spec, GFX942)}
                assert not fields & spec.decisive(), f"{spec.name} is refused for {fields}"


def test_a_kernel_of_another_operator_chip_or_field_is_another() -> None:
    first = gemm(dtype="f16")
    others = [gemm(dtype="bf16"), gemm(dtype="f16", m=100), Kernel(first.operator, first.spec, get_target("gfx950"))]
    assert len({first, *others}) == len({one.identifier for one in (first, *others)}) == 4
    again = gemm(dtype="f16")
    assert again == first
    assert hash(again) == hash(first)
    assert first != "gemm"


@pytest.mark.parametrize(("made", "words"), [
    (lambda wrong: Kernel(find_operator("softmax"), KERNEL.spec, GFX942), "a SoftmaxSpec is needed, got Contraction"),
    (lambda wrong: Kernel(wrong, KERNEL.spec, GFX942), r"an operator is what find_operator.* gives, got 'gemm'"),
    (lambda wrong: Kernel(KERNEL.operator, KERNEL.spec, wrong), r"a chip is what get_target\('gfx942'\) gives"),
    (lambda wrong: request_of(wrong, {}, GFX942), "takes an operator as operator, not 'gemm'; find_operator"),
    (lambda wrong: Space(wrong, (GFX942,)).expand(), "takes an operator as operator, not 'gemm'; find_operator"),
    (lambda wrong: compile_kernel(wrong, KERNEL.spec, GFX942), "an operator is what find_operator"),
    (lambda wrong: compile_traced(wrong), r"a kernel is what @kernel\(…\) makes of a function, got 'gemm'"),
])  # fmt: skip
def test_what_is_no_operator_specification_kernel_or_chip_is_refused(made: Callable[[Any], object], words: str) -> None:
    with pytest.raises(CkmlirError, match=words):
        made("gemm")


def test_identifiers_do_not_change_between_versions() -> None:
    """Records of tuning and libraries name kernels by them."""
    operator = find_operator("gather_rows")
    kernel = Kernel(operator, operator.spec(operator.problem(dtype="f16", n=1024), GFX942), GFX942)
    assert kernel.identifier == "gather_rows/gfx942/gather_rows_f16_align8#ece229f222829406"


def test_the_alignment_of_side_tensors_is_no_part_of_what_is_computed() -> None:
    operator = find_operator("gemm_multi_d")
    wide, narrow = (operator.spec(operator.problem(m=128, n=n, k=64), GFX942) for n in (128, 131))
    assert wide.side != narrow.side
    assert wide.signature() == narrow.signature()


def without(values: dict[str, Any], *path: str) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return changed


def changed(values: dict[str, Any], value: object, *path: str) -> dict[str, Any]:
    found = copy.deepcopy(values)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return found


WRITTEN = gemm().to_dict()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "kernel: expected an object, got "),
        (without(WRITTEN, "op"), "kernel: no field op; expected text"),
        (without(WRITTEN, "signature"), "kernel: no field signature; expected an object"),
        (without(WRITTEN, "schema"), "kernel: no field schema; expected a whole number"),
        (without(WRITTEN, "signature", "dtype"), "ContractionSpec: no field dtype; the fields are"),
        (without(WRITTEN, "algorithm", "block"), "ContractionSpec: no field block; the fields are"),
        (changed(WRITTEN, 1, "algorithm", "tile"), "ContractionSpec: unknown field tile; the fields are"),
        (changed(WRITTEN, [128, 128], "algorithm", "block"), "block=[128, 128]: expected 3 whole numbers"),
        (changed(WRITTEN, "2", "signature", "products"), 'products="2": expected int'),
        (changed(WRITTEN, [1, 1, 1], "signature", "block"), "signature.block belongs to its algorithm"),
        (changed(WRITTEN, "f16", "algorithm", "dtype"), "algorithm.dtype belongs to its signature"),
        (changed(WRITTEN, "bf16", "signature", "dtype"), "that of these fields is gemm/gfx942/gemm_bf16"),
        (changed(WRITTEN, "gemmm", "op"), "unknown operator 'gemmm'; did you mean gemm?"),
        (changed(WRITTEN, "gfx943", "arch"), "kernel: arch=gfx943: unknown target"),
        (changed(WRITTEN, 2, "schema"), "schema=2 is newer than this version reads; expected at most 1"),
        (changed(WRITTEN, 0, "schema"), "schema=0: expected 1"),
        (changed(WRITTEN, True, "schema"), "schema=true: expected a whole number"),
        (changed(WRITTEN, 1, "kernel"), "kernel: unknown field kernel; known: "),
    ],
)
def test_what_is_wrong_in_json_is_named(values: object, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        Kernel.from_dict(values)
    assert words in str(caught.value)


ODD_VALUES: dict[type, tuple[object, ...]] = {
    bool: (True, False), int: (0, 1, -1, 3, 64, 1 << 40), str: ("", "f16", "x:y:z", "nonsense"), list: ([], [1], ["x"]),
}  # fmt: skip


def odd(random: Random, value: object) -> object:
    """Another value of a field, mostly of its type; or with another entry."""
    if isinstance(value, list) and value and random.random() < 0.6:
        place = random.randrange(len(value))
        return [*value[:place], odd(random, value[place]), *value[place + 1 :]]
    kinds = [kind for kind in ODD_VALUES if type(value) is kind] if random.random() < 0.9 else list(ODD_VALUES)
    return random.choice(ODD_VALUES[random.choice(kinds)])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_fields_of_any_values_are_read_and_validated_or_refused_in_words(name: str) -> None:
    """Files come from other versions and from hands: no check relies on what another one refuses."""
    operator, random = find_operator(name), Random(name)
    for target in all_targets():
        for spec in operator.kernels(target)[:3]:
            for _ in range(40):
                values = spec.to_dict()
                for field in random.sample(list(values), min(len(values), random.randint(1, 3))):
                    values[field] = odd(random, values[field])
                with contextlib.suppress(RequestError):
                    kernel = Kernel(operator, operator.spec_type.from_dict(values), target)
                    assert kernel.identifier.startswith(f"{name}/{target.name}/")
                    assert all(isinstance(one, Reason) for one in operator.validate(kernel.spec, target))


FOREIGN = ("x:y:z", "a/b", "b#c", "")


def with_foreign_text(value: object) -> list[object]:
    """Other values of a field of text: as a whole, or its last entry."""
    if isinstance(value, str):
        return list(FOREIGN)
    if isinstance(value, tuple) and value and isinstance(value[-1], str):
        return [(*value[:-1], text) for text in FOREIGN]
    return []


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_that_is_read_has_an_identifier_that_reads_back(name: str) -> None:
    """Whatever text a field holds: the name is made of it, and the field is named where no kernel has such text."""
    operator = find_operator(name)
    for kernel in some_kernels(name)[:8]:
        for field, value in vars(kernel.spec).items():
            for other in with_foreign_text(value):
                written = Kernel(operator, kernel.spec.with_fields({field: other}), kernel.target)
                try:
                    values = {key: part for key, part in written.to_dict().items() if key != "identifier"}
                    read = Kernel.from_dict(json.loads(json.dumps(values)))
                except RequestError as refused:
                    assert "is not an identifier" not in str(refused)
                else:
                    assert Identifier.parse(read.identifier).name == read.spec.name


@pytest.mark.parametrize("name", [name for name in NAMES if "operator" in find_operator(name).spec_type.roles()])
def test_a_specification_names_its_operator(name: str) -> None:
    operator, gfx950 = find_operator(name), get_target("gfx950")
    spec = operator.kernels(gfx950)[0]
    for other in ("x:y:z", "gemm" if name != "gemm" else "copy"):
        (reason,) = operator.validate(spec.with_fields({"operator": other}), gfx950)
        assert str(reason).startswith(f"operator={other}: not a choice; expected ")
        assert spec.operator in reason.right


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("gemm", {"operator": "x:y:z"}, "gemm on gfx942: operator=x:y:z: not a choice; expected gemm"),
        ("copy", {"operator": "a/b"}, "copy on gfx942: operator=a/b: not a choice; expected copy"),
        ("copy", {"steps": ["1", "a/b"]}, "no array goes along dimensions as 'a/b' says; expected 1 character"),
        ("sum_parts", {"dtypes": ["f32", "a/b"]}, "'a/b' is not a choice; expected f16|bf16|f32|"),
        ("reduce", {"kinds": ["a/b"]}, "kinds=a/b: 'a/b' is not a choice; expected sum|mean|"),
        ("reduce", {"stores": "a/b"}, "stores=a/b: not a choice; expected write|partial|atomic"),
        ("fmha_bwd", {"sequences": ["", "a/b"]}, "not what memory holds of sequences; expected words of "),
    ],
)
def test_text_of_which_no_name_is_made_is_refused_by_its_field(
    name: str, changes: dict[str, object], words: str
) -> None:
    operator, gfx942 = find_operator(name), get_target("gfx942")
    written = Kernel(operator, operator.kernels(gfx942)[0], gfx942).to_dict()
    del written["identifier"]
    for field, value in changes.items():
        written["signature" if field in written["signature"] else "algorithm"][field] = value
    with pytest.raises(RequestError) as caught:
        Kernel.from_dict(written)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("copy", {"dtypes": []}, "MapSpec: dtypes=[]: expected one for each of 2 arrays"),
        ("copy", {"aligns": [1]}, "MapSpec: aligns=[1]: expected one for each of 2 arrays"),
        ("pooling", {"arrays": [], "dtypes": []}, "PoolingSpec: dtypes=[]: expected arrays"),
    ],
)
def test_arrays_have_an_entry_each(name: str, changes: dict[str, object], words: str) -> None:
    operator = find_operator(name)
    values = operator.kernels(get_target("gfx942"))[0].to_dict()
    with pytest.raises(RequestError) as caught:
        operator.spec_type.from_dict({**values, **changes})
    assert words in str(caught.value)


def test_what_scales_are_not_is_told_before_they_are_read() -> None:
    operator, gfx942 = find_operator("fused_moe"), get_target("gfx942")
    values = operator.kernels(gfx942)[0].to_dict()
    (reason,) = operator.validate(operator.spec_type.from_dict({**values, "scaling": ["x"]}), gfx942)
    assert str(reason) == "scaling=x: it describes no scales; expected such as a:1:128:k:f32:1"


@pytest.mark.parametrize("text", ["", "gemm", "gemm/gfx942/x#12", "gemm/gfx942#0123456789abcdef", 3, None])
def test_other_texts_are_no_identifiers(text: object) -> None:
    with pytest.raises(RequestError, match="is not an identifier of a kernel: expected op/arch/name#digest"):
        Identifier.parse(text)
