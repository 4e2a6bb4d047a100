"""The fuzz itself: keys draw what they read back, a trial is the command that it prints, guard bytes are compared."""

from __future__ import annotations

import contextlib
import shlex
from random import Random

import numpy as np
import pytest
from drawing import draw, minimal
from trial import FAILED, REFUSED, RIGHT, Outcome, TakesTooLong, Trial, attempt, time_limit

from ckmlir.ops import OPERATORS, find_operator
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.request import RequestError
from ckmlir.ops.special_values import KINDS, special_inputs, special_values
from ckmlir.runtime import KernelFault, open_device
from ckmlir.runtime.places import GUARD_BYTES, Place
from ckmlir.targets import get_target


@pytest.mark.parametrize("name", OPERATORS)
def test_keys_take_what_they_draw(name: str) -> None:
    """As a value and as the text of a command line."""
    keys = find_operator(name).keys
    for seed in range(30):
        random, request = Random(seed), {key.name: key.default for key in keys}
        for key in keys:
            value = key.sample(random, request)
            request[key.name] = key.read(value)
            assert key.read(key.text(value)) == request[key.name], key


@pytest.mark.parametrize("name", OPERATORS)
def test_a_trial_is_the_command_that_it_prints(name: str) -> None:
    for seed in range(5):
        trial = draw(name, Random(seed))
        words = shlex.split(trial.command())
        assert words[:3] == ["ckmlir", "run", name]
        given = dict(word.split("=", 1) for word in words[3 : words.index("--arch")])
        assert given == trial.keys


def test_draws_repeat_by_seed_and_differ() -> None:
    first, second = ([draw("reduce", Random(seed)) for seed in range(20)] for _ in range(2))
    assert first == second and len({trial.command() for trial in first}) > 15


def test_a_failure_is_made_small() -> None:
    """What has nothing to do with it is left out; numbers become smaller."""
    trial = Trial("copy", {"m": "640", "n": "999", "dtype": "f32", "align": "4"}, "gfx942")
    failure = Outcome(FAILED, "AssertionError: too many rows")
    found = []

    def fails(one: Trial) -> Outcome:
        found.append(one)
        return failure if int(one.keys.get("m", 0)) >= 40 else Outcome(RIGHT)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("drawing.attempt", fails)
        smaller, outcome = minimal(trial, failure)
    assert smaller.keys == {"m": "40"} and outcome == failure and len(found) <= 30


@pytest.mark.parametrize(
    ("trial", "kind"),
    [
        (Trial("copy", {"m": "3", "n": "5", "align": "2"}, "gfx90a", guarded=True), RIGHT),
        (Trial("copy", {"m": "3", "stride": "2"}, "gfx90a"), REFUSED),
        (Trial("copy", {"dtype": "fp8"}, "gfx90a"), REFUSED),
        (Trial("copy", {"m": "100000", "n": "1000"}, "gfx90a"), "large"),
    ],
)
def test_what_comes_of_a_trial(trial: Trial, kind: str) -> None:
    assert attempt(trial).kind == kind


def test_exceptions_and_wrong_numbers_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, trial = find_operator("copy"), Trial("copy", {"m": "3", "n": "5"}, "gfx942")
    reference = type(operator).reference
    with monkeypatch.context() as patched:
        patched.setattr(type(operator), "reference", lambda *given: {"y": reference(*given)["y"] + 1})
        patched.setattr(type(operator), "expected", lambda self, problem, arrays, _: self.reference(problem, arrays))
        assert "15 of 15 elements disagree" in attempt(trial).reason
    with monkeypatch.context() as patched:
        patched.setattr(type(operator), "launch", lambda *_: 1 // 0)
        outcome = attempt(trial)
        assert outcome.kind == FAILED and "ZeroDivisionError" in outcome.reason and "in <lambda>" in outcome.traceback


@pytest.mark.parametrize(("role", "byte"), [("in", 0), ("in", -1), ("out", -1), ("out", 40), ("out", -GUARD_BYTES)])
def test_bytes_that_must_not_change_are_compared(role: str, byte: int) -> None:
    """Those of inputs, and those around every array, which lies no better aligned than it says."""
    device = open_device("sim", get_target("gfx942"))
    spec = ArraySpec("x", (5, 4), "f16", role, (4, 1), align=4)
    place = Place(device, spec, np.zeros(40, np.uint8), guarded=True)
    assert place.memory.address % 8 == 4
    assert not place.contents().any()
    block = place.memory.whole
    device.write(block, np.roll(np.arange(block.size, dtype=np.uint8), 1)[: block.size])
    place = Place(device, spec, np.zeros(40, np.uint8), guarded=True)
    contents = np.full(place.memory.whole.size, 0xA5, np.uint8)
    contents[GUARD_BYTES + 4 : GUARD_BYTES + 44] = 0
    contents[GUARD_BYTES + 4 + byte] ^= 1
    device.write(place.memory.whole, contents)
    with pytest.raises(KernelFault, match=rf"array x, byte {byte} "):
        place.contents()


def test_outputs_may_change_inside() -> None:
    device = open_device("sim", get_target("gfx942"))
    place = Place(device, ArraySpec("y", (20,), "f16", "out", (1,)), np.zeros(40, np.uint8), guarded=True)
    device.write(place.memory, np.ones(40, np.uint8))
    assert place.contents().all()
    place.free()


@pytest.mark.parametrize("kind", ["special", "huge"])
def test_special_values_are_not_where_an_operator_takes_none(kind: str) -> None:
    """Scales of attention have a range, which they keep; all other arrays have the values that were asked for."""
    operator, target = find_operator("sage_attention"), get_target("gfx942")
    problem = operator.problem()
    given = operator.inputs(problem, target, 3)
    made = special_inputs(kind, operator, problem, target, 3)
    operator.check_inputs(problem, made)
    np.testing.assert_array_equal(made["q_scales"], given["q_scales"])
    assert not np.array_equal(made["v"].astype(np.float32), given["v"].astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(("name", "dtype", "huge"), [
    ("gemm", "bf16", "a"), ("fmha_fwd", "bf16", "q v"), ("fmha_fwd", "f32", "q v"), ("fmha_bwd", "bf16", "q"),
    ("softmax", "bf16", "x"),
])  # fmt: skip
def test_outputs_of_huge_values_are_compared(name: str, dtype: str, huge: str) -> None:
    """All elements of all outputs, where two huge factors would be beyond f32: then the other one is not huge."""
    operator, target = find_operator(name), get_target("gfx942")
    problem = operator.problem(dtype=dtype)
    made = special_inputs("huge", operator, problem, target, 3)
    assert {key for key, array in made.items() if np.abs(array.astype(np.float64)).max() > 2.0**66} == set(huge.split())
    reference = operator.expected(problem, made, target)
    tolerances = operator.tolerances(problem, made, reference, target)
    assert not any(np.any(tolerances[output].unspecified) for output in reference)
    assert all(np.isfinite(tolerances[output].atol).all() for output in reference)


def test_special_values_are_in_every_kind_of_float() -> None:
    operator, target = find_operator("elementwise"), get_target("gfx950")
    for dtype in ("f16", "bf16", "f32", "fp8", "bf8"):
        problem = operator.problem(op="a", shape=(64, 64), dtype=dtype)
        specs = {array.name: array for array in operator.arrays(problem)}
        given = operator.inputs(problem, target, 1)
        made = {kind: special_values(kind, specs, given, 1)["a"].astype(np.float64) for kind in KINDS}
        assert np.isnan(made["special"]).any() and (made["special"] == 0).any()
        assert np.isinf(made["special"]).any() or dtype == "fp8"
        assert dtype in ("fp8", "bf8", "f16") or np.abs(made["huge"]).max() > 2.0**60
        np.testing.assert_array_equal(made["ordinary"], given["a"].astype(np.float64))
    integers = operator.problem(op="a", shape=(4,), dtype="i32")
    given = operator.inputs(integers, target, 1)
    specs = {array.name: array for array in operator.arrays(integers)}
    assert special_values("special", specs, given, 1)["a"] is given["a"]


def test_whole_slices_are_special() -> None:
    """Rows, columns, slices along any dimension and arrays of one value; and such with another beside."""
    spec = ArraySpec("x", (4, 6, 8), "f32", "in", (48, 8, 1))
    seen = {"row": 0, "column": 0, "slice": 0, "array": 0, "all but one": 0}
    for seed in range(200):
        x = special_values("special", {"x": spec}, {"x": np.ones((4, 6, 8), np.float32)}, seed)["x"]
        nan = np.isnan(x)
        seen["row"] += nan.all(axis=2).any()
        seen["column"] += nan.all(axis=1).any()
        seen["slice"] += nan.all(axis=(1, 2)).any()
        seen["array"] += nan.all()
        seen["all but one"] += (nan.sum(axis=2) == 7).any()
    assert all(count >= 2 for count in seen.values()), seen


LEAVING = ("moe_sorting", "fmha_fwd_appendkv", "fmha_bwd_join")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in LEAVING])
def test_everything_is_promised_of_ordinary_values(name: str) -> None:
    """A bound that gives up is for what overflows or is not a number: none of a default request's elements. The lists
    of moe_sorting end before their arrays do, fmha_fwd_appendkv leaves the rows of a cache that are not new, and
    fmha_bwd_join those of blocks that no two workgroups share.
    """
    operator, target = find_operator(name), get_target("gfx942")
    small = {key.name: 33 for key in operator.keys if key.name in ("m", "n", "k", "sq") and key.default is not None}
    shape = {key.name: (6, 34) for key in operator.keys if key.name == "shape"}
    try:
        problem = operator.problem(**small, **shape)
    except RequestError:
        problem = operator.problem()
    arrays = operator.inputs(problem, target)
    reference = operator.expected(problem, arrays, target)
    tolerances = operator.tolerances(problem, arrays, reference, target)
    assert not any(np.any(tolerances[one].unspecified) for one in reference)


def test_a_run_is_given_up_whatever_it_was_doing() -> None:
    """Code that takes every Exception for its own error does not take the end of a trial's time for one."""
    with pytest.raises(TakesTooLong), time_limit(0.05), contextlib.suppress(Exception):
        while True:
            pass
