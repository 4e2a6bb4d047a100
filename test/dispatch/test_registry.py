"""Registries: what they hold, what computes a problem and why not, and their files."""

from __future__ import annotations

import copy
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from drawn import NAMES, problems

from ckmlir.dispatch import Kernel, Registry, Space
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.targets import get_target

GFX942, GFX950 = get_target("gfx942"), get_target("gfx950")
GEMM = find_operator("gemm")


def gemm(**keys: object) -> Kernel:
    return Kernel(GEMM, GEMM.spec(GEMM.problem(**keys), GFX942), GFX942)


def some_registry() -> Registry:
    algorithm: dict[str, Any] = {"schedule": ("v1", "compv3"), "pad": ("", "mnk")}
    keys: dict[str, Any] = {"dtype": ("f16", "bf16"), "m": (256,), "n": (256,), "k": (256,)}
    return Registry(Space(GEMM, (GFX942, GFX950), keys, algorithm).expand().kernels, name="some")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_registry_finds_what_computes_a_problem(name: str) -> None:
    """As a search through all kernels does; whole signatures are left out at once."""
    operator = find_operator(name)
    drawn = problems(operator, 6)
    registry = Registry(Kernel(operator, operator.spec(problem, GFX942), GFX942) for problem in drawn)
    for problem in drawn:
        expected = [kernel for kernel in registry if not operator.mismatches(problem, kernel.spec, GFX942)]
        assert expected
        assert registry.fitting(operator, problem, GFX942) == expected
        assert registry.explain(operator, problem, GFX942).fitting == expected
        assert registry.fitting(operator, problem, GFX950) == []


def test_kernels_of_parts_of_sums_are_not_lost_behind_others() -> None:
    """Parts of f16 sums are f32, as are whole sums where f32 is asked for."""
    whole, parts = gemm(m=64, n=64, k=512, out="f32", split_k=1), gemm(m=64, n=64, k=512, split_k=4)
    problem = GEMM.problem(m=64, n=64, k=512, split_k=4)
    for order in ((whole, parts), (parts, whole)):
        assert Registry(order).fitting(GEMM, problem, GFX942) == [parts]


def test_kernels_that_agree_in_what_was_read_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that differ in what does not matter here, a few; the answers are those of all."""
    algorithm: dict[str, Any] = {"schedule": ("v1", "compv3", "compv4", "mem"), "epilogue": "*"}
    algorithm |= {"pad": ("", "m", "mnk"), "block": ((64, 64, 32), (128, 64, 32), (128, 128, 32))}
    keys: dict[str, Any] = {"m": (256,), "n": (256,), "k": (256,)}
    registry = Registry(Space(GEMM, (GFX942,), keys, algorithm).expand().kernels)
    assert len(registry) > 50
    asked: list[object] = []
    mismatches = type(GEMM).mismatches
    for m, n in ((256, 256), (192, 64), (100, 64), (100, 72)):
        problem = GEMM.problem(m=m, n=n, k=256)
        expected = [one for one in registry if not GEMM.mismatches(problem, one.spec, GFX942)]
        with monkeypatch.context() as patch:
            patch.setattr(type(GEMM), "mismatches", lambda *given: asked.append(given[2]) or mismatches(*given))
            asked.clear()
            assert registry.fitting(GEMM, problem, GFX942) == expected
        assert len(asked) <= 2 + 3 * 3
    assert {kernel.spec.pad for kernel in expected} == {"mnk"}


def test_priorities_come_first_then_the_order_of_addition() -> None:
    problem = GEMM.problem(m=256, n=256, k=256)
    kernels = some_registry().filter(target="gfx942").fitting(GEMM, problem, GFX942)
    assert len(kernels) == 4
    registry = Registry(kernels)
    assert registry.fitting(GEMM, problem, GFX942) == list(registry) == kernels
    assert not registry.add(kernels[2], priority=5)  # known
    assert registry.fitting(GEMM, problem, GFX942) == [kernels[2], kernels[0], kernels[1], kernels[3]]
    version = registry.version
    assert not registry.add(kernels[2], priority=1)
    assert registry.version == version
    assert next(iter(registry)) == kernels[2]
    assert len(registry) == 4


def test_kernels_are_asked_as_far_as_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that fits does not wait for the others, and of those of another signature one is asked."""
    registry, asked = some_registry(), list[Spec]()
    mismatches = type(GEMM).mismatches
    monkeypatch.setattr(type(GEMM), "mismatches", lambda *given: asked.append(given[2]) or mismatches(*given))
    problem = GEMM.problem(m=256, n=256, k=256)
    found = registry.search(GEMM, problem, GFX942)
    assert found and len(asked) == 1
    first = next(iter(found))
    assert first in found and len(asked) == 1
    assert list(found.named([first.identifier, "x"])) == [first] and len(asked) == 1
    blocks = found.best("pad", lambda kernel: len(kernel.spec.pad), lambda pads: -pads)  # type: ignore[attr-defined]
    assert next(blocks).spec.pad == "mnk" and len(asked) == 2  # type: ignore[attr-defined]
    # Of the four of f16 three, since the last agrees with one in what was read of it; one of the four of bf16.
    assert len(found) == 4 and len(asked) == len(set(asked)) == 4
    assert found[:2] == list(found)[:2] and not registry.search(GEMM, problem, get_target("gfx90a"))


def test_merging_keeps_priorities_or_gives_one() -> None:
    kernels = list(some_registry())
    first, second = Registry(kernels[:5]), Registry(kernels[3:], priority=2)
    assert first.merge(second) == len(kernels) - 5
    assert set(first) == set(kernels)
    assert list(first)[: len(kernels) - 3] == [*kernels[3:]]
    third = Registry(kernels[:1])
    third.merge(second, priority=-1)
    assert next(iter(third)) == kernels[0]


def test_filters() -> None:
    registry = some_registry()
    registry.add(gemm(dtype="i8"), priority=7)
    assert len(registry.filter(target="gfx950")) == 8
    assert len(registry.filter(operator="softmax")) == 0
    narrow = registry.filter(operator="gemm", where=lambda one: one.spec.dtype == "i8", name="narrow")  # type: ignore[attr-defined]
    assert (len(narrow), narrow.name, narrow.entries()[0].priority) == (1, "narrow", 7)


def test_kernels_are_got_by_their_identifiers() -> None:
    registry = some_registry()
    for kernel in registry:
        assert registry.get(kernel.identifier) is kernel
        assert kernel in registry
    missing = gemm(dtype="i8").identifier
    with pytest.raises(RequestError, match="registry some: no kernel gemm/gfx942/gemm_i8"):
        registry.get(missing)
    with pytest.raises(RequestError, match="is not an identifier of a kernel"):
        registry.get("gemm")
    with pytest.raises(RequestError, match="there is none of softmax"):
        registry.get("softmax/gfx942/x#0123456789abcdef")


def test_what_is_there_in_numbers() -> None:
    assert some_registry().statistics() == {
        "kernels": 16, "operators": {"gemm": 16}, "chips": {"gfx942": 8, "gfx950": 8}, "signatures": 4,
    }  # fmt: skip
    problem, other = GEMM.problem(m=256, n=256, k=256), GEMM.problem(dtype="i8")
    assert some_registry().uncovered(GEMM, [problem, other], GFX942) == [other]


def test_explanations_say_what_is_against_every_kernel() -> None:
    registry = some_registry()
    found = registry.explain(GEMM, GEMM.problem(m=100, n=256, k=256), GFX942)
    assert len(found.reasons) == 8
    assert [kernel.spec.pad for kernel in found.fitting] == ["mnk", "mnk"]  # type: ignore[attr-defined]
    text = str(found)
    assert text.startswith("registry some: gemm on gfx942: 2 of 8 kernels compute the problem\n")
    assert "m=100 is not a multiple of the block's 32; expected m among the letters" in text
    assert ": fits" in text
    assert "dtype=bf16: the kernel is another one; expected f16" in text
    assert "nearest is gemm_f16" in registry.explain(GEMM, GEMM.problem(m=3, n=3, k=3), GFX942).nearest
    assert "there is none" in Registry().explain(GEMM, GEMM.problem(), GFX942).nearest


def test_files_read_back() -> None:
    registry = some_registry()
    registry.add(list(registry)[3], priority=4)
    written = json.loads(json.dumps(registry.to_dict()))
    read = Registry.from_dict(written)
    assert list(read) == list(registry)
    assert [one.priority for one in read.entries()] == [one.priority for one in registry.entries()]
    assert read.name == "some"


def test_what_is_wrong_with_a_file_is_named() -> None:
    written = json.loads(json.dumps(some_registry().to_dict()))

    def refused(words: str, **change: object) -> None:
        with pytest.raises(RequestError) as caught:
            Registry.from_dict({**written, **change})
        assert words in str(caught.value)

    broken = copy.deepcopy(written["kernels"])
    broken[2]["algorithm"]["block"] = "large"
    refused("registry some: it has no kernels; ask for a partial one if so meant", kernels=[])
    refused('registry some: kernels[2]: kernel of gemm: ContractionSpec: block="large"', kernels=broken)
    refused("statistics.kernels=16, and there are 15", kernels=written["kernels"][1:])
    refused("registry: schema=5 is newer than this version reads", schema=5)
    refused("registry: unknown field kernel; did you mean kernels?", kernel=[])
    refused("registry: kernels={}: expected a list", kernels={})
    refused("priority=high: expected a whole number", kernels=[{**written["kernels"][0], "priority": "high"}])
    refused("kernels[0]: kernel: expected an object, got 3", kernels=[3])
    assert len(Registry.from_dict({**written, "kernels": []}, partial=True)) == 0
    assert len(Registry.from_dict({**written, "kernels": broken}, partial=True)) == 15


def test_threads_add_and_ask_at_a_time() -> None:
    kernels, registry = list(some_registry()), Registry()
    problem, faults = GEMM.problem(m=256, n=256, k=256), []
    end = threading.Event()

    def ask() -> None:
        try:
            while not end.is_set():
                found = registry.fitting(GEMM, problem, GFX942)
                assert len(set(found)) == len(found)
                registry.statistics()
        except BaseException as fault:
            faults.append(fault)

    def add(own: list[Kernel]) -> None:
        for priority in range(20):
            for kernel in own:
                registry.add(kernel, priority)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    adders = [threading.Thread(target=add, args=(kernels[place::3] + kernels[:4],)) for place in range(3)]
    for thread in (*askers, *adders):
        thread.start()
    for thread in adders:
        thread.join()
    end.set()
    for thread in askers:
        thread.join()
    assert not faults
    assert set(registry) == set(kernels)
    assert len(registry) == len(kernels)
    assert sorted(entry.order for entry in registry.entries()) == list(range(len(kernels)))
    assert {entry.priority for entry in registry.entries()} == {19}
