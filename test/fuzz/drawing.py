"""Requests drawn from an operator's keys, so that a new operator is covered as it is."""

from __future__ import annotations

import contextlib
import re
from random import Random

from trial import REFUSED, Outcome, Trial, attempt

from ckmlir.ops import find_operator
from ckmlir.ops.request import Choice, Flag, Key, PowerOfTwo, Real
from ckmlir.ops.special_values import KINDS
from ckmlir.ops.tensors.expression_key import ExpressionKey
from ckmlir.ops.tensors.functions import function_names, sample_call
from ckmlir.targets import TARGETS

GIVEN = 0.85
OPTIONAL = 0.2
"""How often a key is given: one with a default of its own, and one that follows from others."""
FEW = 0.25
"""Share of the requests with few keys, in which each is given so much more seldom: what one asks for by itself."""
REPAIRS = 12
"""How often a request that is refused loses the key that the refusal names, or any."""
CHECKED, GUARDED = 0.3, 0.5
"""Shares of trials under all checkers, and with guard bytes."""


def draw(operator: str, random: Random) -> Trial:
    """A trial of an operator."""
    keys = find_operator(operator).keys
    request: dict[str, object] = {key.name: key.default for key in keys}
    given: dict[str, str] = {}
    less = FEW if random.random() < FEW else 1.0
    for key in keys:
        if random.random() < less * _share(key):
            value = key.sample(random, request)
            with contextlib.suppress(Exception):  # what a key cannot read, running the trial finds
                request[key.name] = key.read(value)
            given[key.name] = key.text(value)
    return Trial(
        operator,
        given,
        random.choice(tuple(TARGETS)),
        seed=random.randrange(1000),
        values=random.choice((*KINDS, "special", "special")),
        guarded=random.random() < GUARDED,
        checks="all" if random.random() < CHECKED else "",
    )


def draw_call(number: int, random: Random) -> Trial:
    """A trial of one function of variables and numbers, mostly of special values: of the next one with the next number.
    """
    names = function_names()
    name = names[number % len(names)]
    keys = {
        "op": sample_call(random, name, ("a", "b")),
        "shape": random.choice(("24x40", "8x128", "3x67")),
        "dtype": random.choice(("f32", "f32", "f16", "bf16")),
    }
    values = random.choice(("ordinary", "special", "special", "huge"))
    return Trial("elementwise", keys, random.choice(tuple(TARGETS)), random.randrange(1000), values)


def _share(key: Key) -> float:
    if key.default is None:
        return OPTIONAL
    if isinstance(key, ExpressionKey) and key.default in key.variables:
        return OPTIONAL  # of elements on their way: most expressions hide what is wrong before and behind them
    return GIVEN / 2 if isinstance(key, (Choice, Flag, Real, PowerOfTwo)) else GIVEN


def run(operator: str, random: Random) -> tuple[Trial, Outcome, int]:
    """Draw and run a trial. Refused ones are repaired a few times: (the last, what came of it, how many refusals)."""
    trial, refusals = draw(operator, random), 0
    outcome = attempt(trial)
    while outcome.kind == REFUSED and refusals < REPAIRS and trial.keys:
        refusals += 1
        named = [key for key in trial.keys if re.search(rf"\b{key}s?\b", outcome.reason)]
        lost = random.choice(named or sorted(trial.keys))
        kept = {key: text for key, text in trial.keys.items() if key != lost}
        arch = random.choice(tuple(TARGETS)) if "8-bit floating point" in outcome.reason else trial.arch
        trial = Trial(operator, kept, arch, trial.seed, trial.values, trial.guarded, trial.checks)
        outcome = attempt(trial)
    return trial, outcome, refusals + (outcome.kind == REFUSED)


def minimal(trial: Trial, failure: Outcome, attempts: int = 30) -> tuple[Trial, Outcome]:
    """A failing trial with fewer and smaller keys that fails in the same way, as far as a few attempts find one."""
    progress = True
    while progress and attempts > 0:
        progress = False
        for simpler in _simpler(trial):
            attempts -= 1
            outcome = attempt(simpler)
            if outcome.kind == failure.kind and _manner(outcome) == _manner(failure):
                trial, failure, progress = simpler, outcome, True
                break
            if attempts <= 0:
                break
    return trial, failure


def _manner(outcome: Outcome) -> str:
    return re.split(r"[:\d]", outcome.reason)[0]


def _simpler(trial: Trial) -> list[Trial]:
    def with_keys(keys: dict[str, str]) -> Trial:
        return Trial(trial.operator, keys, trial.arch, trial.seed, trial.values, trial.guarded, trial.checks)

    found = [with_keys({key: text for key, text in trial.keys.items() if key != lost}) for lost in trial.keys]
    for name, text in trial.keys.items():
        if re.fullmatch(r"\d+", text) and int(text) > 1:
            found += [with_keys({**trial.keys, name: str(number)}) for number in {1, int(text) // 2}]
        elif re.fullmatch(r"\d+(x\d+)+", text):
            numbers = [int(number) for number in text.split("x")]
            for place, number in enumerate(numbers):
                if number > 1:
                    smaller = [*numbers[:place], number // 2, *numbers[place + 1 :]]
                    found.append(with_keys({**trial.keys, name: "x".join(map(str, smaller))}))
    return found
