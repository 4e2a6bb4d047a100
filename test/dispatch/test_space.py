"""Spaces: which kernels axes stand for, what is left out and why, and what is refused in words."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from drawn import NAMES, problems

from ckmlir.dispatch.spaces import Space, expand, read_spaces, space
from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.contraction import validity
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.request import RequestError
from ckmlir.targets import all_targets, get_target

GFX90A, GFX942 = get_target("gfx90a"), get_target("gfx942")
GEMM = find_operator("gemm")
WRITTEN: dict[str, Any] = {
    "schema": 1,
    "op": "gemm",
    "arch": ["gfx942"],
    "keys": {"m": 256, "n": 256, "k": 256, "dtype": ["f16", "bf16"]},
    "algorithm": {"schedule": ["compv3", "compv4"], "epilogue": "*"},
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", NAMES)
def test_candidates_are_valid_compute_the_problem_and_begin_with_the_choice(name: str, count: int) -> None:
    operator = find_operator(name)
    for target in all_targets():
        for problem in problems(operator, count):
            chosen = operator.spec(problem, target)
            candidates = operator.candidates(problem, target)
            valid = not operator.validate(chosen, target)
            assert candidates[:1] == [chosen] * valid
            assert len(set(candidates)) == len(candidates)
            for spec in candidates:
                assert not operator.validate(spec, target)
                assert not operator.mismatches(problem, spec, target)


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_has_a_space(name: str) -> None:
    operator = find_operator(name)
    found = Space(operator, all_targets()[1:], {}, {}).expand()
    assert len(found.kernels) + sum(found.dropped.values()) + found.repeated == found.combinations == 2
    assert found.kernels


def test_all_combinations_of_keys_and_fields() -> None:
    found = Space.from_dict(WRITTEN).expand()
    assert found.combinations == len(found.kernels) == 2 * 2 * 2
    seen = {(one.spec.dtype, one.spec.schedule, one.spec.epilogue) for one in found.kernels}  # type: ignore[attr-defined]
    assert len(seen) == 8
    problem = GEMM.problem(m=256, n=256, k=256)
    assert sum(not one.against(problem) for one in found.kernels) == 4


def test_what_is_dropped_is_counted_with_its_reason() -> None:
    values = {**WRITTEN, "algorithm": {"block": [[128, 128, 64], [96, 128, 64], [256, 256, 256]], "pad": ["", "mnk"]}}
    values["keys"] = {**WRITTEN["keys"], "m": 3072, "n": 3072, "k": 3072}  # by tiles of 32 x 32
    found = Space.from_dict(values).expand()
    assert found.combinations == 12
    assert len(found.kernels) == 4
    assert sum(found.dropped.values()) == 8
    text = str(found)
    assert text.startswith("4 kernels of 12 combinations\n")
    assert "dropped: block=96x128x64: 2 waves of 32 along m do not divide 96" in text
    assert "bytes of LDS; gfx942 has 65536" in text


def test_kernels_that_do_not_compute_their_request_are_dropped() -> None:
    values = {**WRITTEN, "keys": {"m": 100, "n": 256, "k": 256}, "algorithm": {"pad": ["", "n", "m", "mn"]}}
    found = Space.from_dict(values).expand()
    assert [one.spec.pad for one in found.kernels] == ["m", "mn"]  # type: ignore[attr-defined]
    reason = "m=100 is not a multiple of the block's 32; expected m among the letters"
    assert set(found.dropped) == {f"pad=: {reason}", f"pad=n: {reason}"}


def test_a_chip_that_lacks_something_drops_it() -> None:
    values = {**WRITTEN, "arch": "*", "keys": {"dtype": ["f16", "fp8"]}, "algorithm": {}}
    found = Space.from_dict(values).expand()
    assert [(one.target.name, one.spec.dtype) for one in found.kernels] == [  # type: ignore[attr-defined]
        ("gfx90a", "f16"), ("gfx942", "f16"), ("gfx942", "fp8"), ("gfx950", "f16"), ("gfx950", "fp8"),
    ]  # fmt: skip
    assert sum(found.dropped.values()) == 1


def test_ranges_and_wildcards_of_keys() -> None:
    keys = {"m": {"from": 64, "to": 1000, "times": 4}, "n": {"from": 128, "to": 400, "step": 128}, "layout": "*"}
    one = Space.from_dict({**WRITTEN, "keys": keys})
    assert one.keys == {"m": [64, 256], "n": [128, 256, 384], "layout": "*"}
    found = one.expand()
    assert found.combinations == 2 * 2 * 3 * 4 * 2
    flags = Space.from_dict({**WRITTEN, "op": "fmha_fwd", "keys": {"lse": "*", "d": 64}, "algorithm": {}}).expand()
    assert sorted(one.spec.lse for one in flags.kernels) == [False, True]  # type: ignore[attr-defined]


def test_repeated_kernels_are_kept_once() -> None:
    found = Space.from_dict({**WRITTEN, "keys": {"m": [256, 512], "n": 512}, "algorithm": {}}).expand()
    assert (len(found.kernels), found.repeated) == (1, 1)
    again = expand([Space.from_dict(WRITTEN)] * 2)
    assert (len(again.kernels), again.repeated, again.combinations) == (8, 8, 16)


@pytest.mark.parametrize(("name", "keys"), [("gemm", {"m": 1024, "n": 1024, "k": 1024}), ("fmha_fwd", {"sq": 512})])
def test_the_whole_space_of_a_problem(name: str, keys: dict[str, object]) -> None:
    operator = find_operator(name)
    axes = operator.axes(operator.kernels(GFX942)[0], GFX942)
    few = {field: values[:: 1 + len(values) // 4] for field, values in axes.items()}
    found = Space(operator, (GFX942,), {key: (value,) for key, value in keys.items()}, few).expand()
    whole = space(operator, keys, GFX942)
    assert whole.algorithm == "*"
    assert found.kernels
    assert all(not operator.validate(one.spec, GFX942) for one in found.kernels)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"op": "gem"}, "unknown operator 'gem'; did you mean gemm?"),
        ({"arch": []}, "space: arch: the list is empty"),
        ({"arch": ["gfx1100"]}, "space: arch: unknown target 'gfx1100'"),
        ({"arch": 3}, "space: arch: a target is named by text"),
        ({"schema": 9}, "space: schema=9 is newer"),
        ({"key": {}}, "space: unknown field key; did you mean keys?"),
        ({"keys": []}, "space: keys=[]: expected an object"),
        ({"keys": {"schedul": 1}}, "gemm: keys.schedul: unknown key; did you mean schedule?"),
        ({"keys": {"m": "*"}}, "gemm: keys.m=*: it takes a whole number from 0 to 2147483647; list values"),
        ({"keys": {"m": []}}, "space: keys.m: the list is empty"),
        ({"keys": {"m": {"from": 1, "to": 4}}}, "space: keys.m: a range has either step or times"),
        ({"keys": {"m": {"from": 1, "to": 4, "step": 0}}}, "step above 0 or times above 1"),
        ({"keys": {"m": {"from": 0, "to": 4, "times": 2}}}, "step above 0 or times above 1"),
        ({"keys": {"m": {"from": 5, "to": 4, "step": 1}}}, "expected from up to to"),
        ({"keys": {"m": {"from": 1, "to": 10**9, "step": 1}}}, "a range with more than 10000000 values"),
        ({"keys": {"m": {"from": "1", "to": 4, "step": 1}}}, 'space: keys.m: from="1": expected a whole number'),
        ({"algorithm": "all"}, 'space: algorithm="all": expected an object'),
        ({"algorithm": {"blok": "*"}}, "gemm: algorithm.blok: unknown field; did you mean block?"),
        ({"algorithm": {"dtype": "f16"}}, "algorithm.dtype: belongs to the signature, which keys decide"),
        ({"algorithm": {"pad": "*"}}, "gemm: algorithm.pad=*: there is no list of it; list values"),
        ({"algorithm": {"block": [[1, 2]]}}, "ContractionSpec: block=[1, 2]: expected 3 whole numbers"),
    ],
)
def test_what_is_wrong_with_a_space_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        Space.from_dict({**WRITTEN, **change}).expand()
    assert words in str(caught.value)


def test_a_space_without_a_chip_says_so() -> None:
    values = {name: value for name, value in WRITTEN.items() if name != "arch"}
    with pytest.raises(RequestError, match="space: no field arch; expected a value"):
        Space.from_dict(values)


def test_a_space_too_large_is_refused_before_it_is_walked() -> None:
    keys = {name: {"from": 1, "to": 300, "step": 1} for name in "mnk"}
    with pytest.raises(RequestError, match="more than 10000000 requests"):
        Space.from_dict({**WRITTEN, "keys": keys}).expand()
    blocks = [[16, 16, 16]] * 4_000
    with pytest.raises(RequestError, match="more than 10000000 combinations"):
        Space.from_dict({**WRITTEN, "algorithm": {"block": blocks, "waves": [[1, 1]] * 4_000}}).expand()


def test_a_file_holds_one_space_or_several(tmp_path: Path) -> None:
    file = tmp_path / "space.json"
    file.write_text(json.dumps(WRITTEN))
    assert len(read_spaces(file)) == 1
    file.write_text(json.dumps([WRITTEN, {**WRITTEN, "op": "softmax", "keys": {}, "algorithm": {}}]))
    assert [one.operator.name for one in read_spaces(file)] == ["gemm", "softmax"]
    file.write_text("[]")
    with pytest.raises(RequestError, match="there is no space in it"):
        read_spaces(file)
    file.write_text("{")
    with pytest.raises(RequestError, match="is not JSON"):
        read_spaces(file)
    with pytest.raises(RequestError, match=r"cannot read .*: No such file"):
        read_spaces(tmp_path / "none.json")


PRODUCTS = [name for name in OPERATORS if find_operator(name).spec_type is ContractionSpec]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_products_choose_is_among_their_axes(name: str) -> None:
    """Sparse and full-rate matrix instructions, blocks that are not powers of two, steps of packed elements."""
    operator = find_operator(name)
    for target in all_targets():
        for spec in operator.kernels(target):
            axes = operator.axes(spec, target)
            lacking = {field: getattr(spec, field) for field in axes if getattr(spec, field) not in axes[field]}
            assert not lacking, (target.name, spec.name)


@pytest.mark.parametrize(("name", "keys", "own"), [
    ("gemm", {"m": 4096, "n": 4096, "k": 4096}, (224, 256)),
    ("gemm_multi_d", {"m": 4096, "n": 4096, "k": 4096}, (224, 256)),
    ("grouped_gemm", {"m": (64, 128), "n": (192,)}, (128, 128)),
])  # fmt: skip
def test_padding_and_slices_follow_from_the_block(name: str, keys: dict[str, object], own: tuple[int, int]) -> None:
    """Blocks of any other lengths compute the request too, though the one that is chosen goes through LDS in sevenths,
    and sizes are multiples of it, or are not.
    """
    operator = find_operator(name)
    chosen = operator.spec(operator.problem(**keys), GFX942)
    assert chosen.block[:2] == own
    sides = ((224, 128), (192, 256), (128, 128), (96, 128), (64, 64))
    plan: dict[str, Any] = {"waves": [(2, 4)], "mfma": [(16, 16, 16)], "schedule": ["compv3"]}
    plan["block"] = [(*one, 64) for one in sides]
    request = {key: (value,) for key, value in keys.items()}
    found = Space(operator, (GFX942,), request, plan).expand()
    specs = [cast(ContractionSpec, one.spec) for one in found.kernels]
    assert [one.block[:2] for one in specs] == list(sides), str(found)
    # What is named stays as it is.
    named = Space(operator, (GFX942,), request, {**plan, "pad": ["mnk"]}).expand()
    assert {cast(ContractionSpec, one.spec).pad for one in named.kernels} == {"mnk"}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NAMES)
def test_the_first_check_that_finds_something_says_what_validation_does(name: str) -> None:
    operator = find_operator(name)
    for target in all_targets():
        base = operator.kernels(target)[:1]
        for field, values in (operator.axes(base[0], target) if base else {}).items():
            for value in values[:: 1 + len(values) // 20]:
                spec = base[0].with_fields({field: value})
                reasons = [reason for check in operator.checks() for reason in check(spec, target)]
                assert reasons[:1] == operator.validate(spec, target)[:1]


def test_checks_are_asked_once_for_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers do not depend on the epilogue, nor whether a block computes a problem on waves and schedules."""
    counts = Counter[str]()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            counts[name] += 1
            return function(*given)

        return call

    groups = tuple(tuple(counted(check.__name__, check) for check in group) for group in validity.CHECKS)
    monkeypatch.setattr(validity, "CHECKS", groups)
    monkeypatch.setattr(type(GEMM), "mismatches", counted("mismatches", type(GEMM).mismatches))
    keys: dict[str, object] = {"m": 1024, "n": 1024, "k": 1024}
    base = GEMM.spec(GEMM.problem(**keys), GFX942)
    axes = {**GEMM.axes(base, GFX942), "block": [(64, 64, 32), (128, 128, 32), (256, 64, 32)]}
    counts.clear()
    found = Space(GEMM, (GFX942,), {name: (value,) for name, value in keys.items()}, axes).expand()
    blocks, waves, shapes, epilogues, schedules = map(len, axes.values())
    assert found.combinations == blocks * waves * shapes * epilogues * schedules > 3000
    # And those in which it was found out what is read, a few for each check.
    assert counts["mismatches"] <= blocks + 5
    assert counts["matrix_instruction"] <= blocks * waves * shapes + 5
    assert counts["registers"] <= blocks * waves * shapes * schedules + 5
    assert counts["_scaling"] + counts["_expression"] + counts["_sink"] <= 3 * 5
    assert sum(counts.values()) < 2 * found.combinations


def impossible(value: object) -> list[object]:
    """What no kernel has in the place of a field's value, in JSON's types."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [-1, 1 << 40]
    if isinstance(value, str):
        return ["nonsense", "é:"]
    if not isinstance(value, tuple) or not all(type(one) is int for one in value):
        return []
    places = range(len(value))
    one_less = [[0 if other == place else value[other] for other in places] for place in places]
    return [[number] * len(value) for number in (0, -1, 1 << 40)] + one_less


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_what_no_kernel_has_is_dropped_with_a_reason(name: str) -> None:
    """Sizes of no elements, of less, or of more than memory has: they neither end in an error nor take long."""
    operator = find_operator(name)
    base = operator.kernels(GFX942)[0]
    for field, role in base.roles().items():
        if values := impossible(getattr(base, field)) if role is None else []:
            asked = {"schema": 1, "op": name, "arch": "gfx942", "algorithm": {field: values}}
            found = Space.from_dict(asked).expand()
            assert found.combinations == len(values)
            assert not any(-1 in _numbers(getattr(kernel.spec, field)) for kernel in found.kernels), field


def _numbers(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
