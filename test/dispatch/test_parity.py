"""Parity with CK Tile's dispatcher: every configuration of its examples is found, compiles, and is right.

All are found by default. One in eight of the subjects, on changing chips, is built and run, the others with `-m full`.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from parity_configurations import CHIPS, Configuration, configurations

from ckmlir.dispatch import Dispatcher, Registry, Selection, Space
from ckmlir.dispatch.writing import resources_of
from ckmlir.ops import find_operator
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.runtime.compile_cache import compile_cached
from ckmlir.targets import get_target

ALL = configurations()


def chosen(one: Configuration) -> Selection:
    """What a strict dispatcher takes of a registry that was made of the configuration, of nothing else."""
    operator, target = find_operator(one.operator), get_target(one.chip)
    keys = {name: (value,) for name, value in one.keys.items()}
    found = Space(operator, (target,), keys, {name: (value,) for name, value in one.algorithm.items()}).expand()
    assert found.kernels, f"{one}: {found}"
    dispatcher = Dispatcher(Registry([*found.kernels, *found.others]), target, strict=True)
    return dispatcher.select(one.operator, **one.keys)


@pytest.mark.parametrize("subject", sorted({one.subject for one in ALL}))
def test_every_configuration_is_found(subject: str) -> None:
    for one in ALL:
        if one.subject == subject:
            found = chosen(one)
            assert found.rule == "first fit" and found.strict
            for name, value in one.algorithm.items():
                assert getattr(found.kernel.spec, name) == value, (one, found)


def test_how_many_there_are() -> None:
    """CK's stress example has 48 kernels, its heuristics 24; no configuration is there twice."""
    counts = {name: sum(one.example == name for one in ALL) for name in ("07_stress", "08_heuristics")}
    assert counts == {"07_stress": 48, "08_heuristics": 24}
    assert len({str(one) for one in ALL}) == len(ALL) > 500


def by_default() -> set[Configuration]:
    """One configuration of each subject, of changing chips where it has several."""
    found = set()
    for number, subject in enumerate(sorted({one.subject for one in ALL})):
        own = [one for one in ALL if one.subject == subject]
        found.add(next((one for one in own if one.chip == CHIPS[number % len(CHIPS)]), own[0]))
    return found


FEW = by_default()
PARAMETERS = [pytest.param(one, id=str(one), marks=() if one in FEW else pytest.mark.full) for one in ALL]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("one", PARAMETERS)
def test_every_configuration_compiles_and_is_right(one: Configuration) -> None:
    found = chosen(one)
    operator, problem, target = found.query.operator, found.query.problem, found.query.target
    spec = found.kernel.spec
    compiled = compile_cached(operator, spec, target)
    assert resources_of(compiled)["vector_spills"] == 0
    arrays = operator.inputs(problem, target)
    with closing(open_device("sim", target, checks="all")) as device:
        result = run_operator(operator, problem, arrays, target, device, spec=spec, compiled=compiled)
    for one_output in check_outputs(operator, problem, arrays, result.outputs, target):
        assert one_output.ok, one_output
