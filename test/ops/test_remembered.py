"""Functions of specifications that remember: what is read of one is known, and nothing else decides."""

from __future__ import annotations

import pytest

from ckmlir.ops import find_operator, remembered
from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.remembered import Remembered, partly
from ckmlir.ops.spec import Spec
from ckmlir.records import replace
from ckmlir.targets import get_target

GFX942 = get_target("gfx942")
GEMM = find_operator("gemm")
SPEC = GEMM.spec(GEMM.problem(m=64, n=64, k=64), GFX942)


def test_what_is_read_of_a_specification_is_known() -> None:
    same, read = partly(SPEC, ())
    assert not read and isinstance(same, type(SPEC)) and same.block == SPEC.block and list(read) == ["block"]
    assert same.wave_count == SPEC.wave_count and list(read) == ["block", "waves", "along_k"]
    assert same == SPEC and same == SPEC and hash(same) == hash(SPEC) and len(read) == len(SPEC.to_dict())
    for look in (vars, lambda one: replace(one, pad="m"), Spec.to_json):
        other, read = partly(SPEC, ())
        look(other)
        assert len(read) >= len(SPEC.to_dict()) - 1
    assert vars(partly(SPEC, ("block",))[0]) == vars(SPEC)


def test_fields_that_were_read_before_are_not_told_again() -> None:
    same, read = partly(SPEC, ("block", "pad"))
    assert (same.block, same.pad, same.waves) == (SPEC.block, SPEC.pad, SPEC.waves)
    assert list(read) == ["waves"]


def test_a_copy_with_other_fields_tells_what_is_read_of_the_rest() -> None:
    same, read = partly(SPEC, ())
    other = same.with_fields({"schedule": "v1"})
    assert (other.schedule, other.block) == ("v1", SPEC.block)
    assert list(read) == ["block"]


def test_kernels_that_agree_in_what_is_read_are_asked_together() -> None:
    """A field that is read for some values alone is compared from then on; answers from before are not relied on."""
    asked: list[Spec] = []

    def answer(spec: ContractionSpec) -> str:
        asked.append(spec)
        return spec.epilogue if spec.schedule == "v1" else "any"

    remembering = Remembered(answer)
    specs = [SPEC.with_fields({"schedule": name, "pad": pad}) for name in ("compv3", "compv4") for pad in ("", "m")]
    assert [remembering(one) for one in specs] == ["any"] * 4
    assert len(asked) == 2
    others = [SPEC.with_fields({"schedule": "v1", "epilogue": name}) for name in ("direct", "cshuffle", "direct")]
    assert [remembering(one) for one in others] == ["direct", "cshuffle", "direct"]
    assert [remembering(one) for one in specs] == ["any"] * 4
    assert len(asked) == 2 + 2 + 2


def test_what_all_agree_in_is_not_compared() -> None:
    remembering = Remembered[ContractionSpec, str](lambda spec: f"{spec.dtype} {spec.pad}", same=("dtype",))
    assert [remembering(SPEC.with_fields({"pad": pad})) for pad in ("m", "n")] == ["f16 m", "f16 n"]
    assert remembering._agreeing.fields == ("pad",)


def test_answers_are_kept_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_ANSWERS", 3)
    remembering = Remembered[ContractionSpec, str](lambda spec: spec.pad)
    for _ in range(2):
        assert [remembering(SPEC.with_fields({"pad": pad})) for pad in "abcdefgh"] == list("abcdefgh")
        assert len(remembering._agreeing.answers) <= 3
