"""What comes from outside of a request: arrays of the host in any form, and files of the cache that were damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from trial import FAILED, RIGHT, Outcome, Trial

from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.comparison import Array
from ckmlir.ops.dtypes import numpy_dtype
from ckmlir.ops.special_values import special_inputs
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.run import check_outputs
from ckmlir.runtime.simulator_device import SimulatorDevice
from ckmlir.targets import get_target


def _reversed(array: Array) -> Array:
    """Stored from the last element to the first."""
    every = (slice(None, None, -1),) * array.ndim
    return array[every].copy()[every]


def _apart(array: Array) -> Array:
    """Every other place of a larger array along each dimension."""
    wide = np.zeros([2 * length for length in array.shape], array.dtype)
    found = wide[(slice(None, None, 2),) * array.ndim]
    found[...] = array
    return found


FORMS: dict[str, Callable[[Array], Array]] = {
    "of the other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "stored backwards": _reversed,
    "with gaps": _apart,
    "by columns": np.asfortranarray,
}
MASKED = "masked"


def draw_form(random: Random) -> dict[str, str]:
    """A trial's arrays by role: inputs in one form, outputs in one; sometimes one input is masked."""
    found = {role: random.choice(tuple(FORMS)) for role in ("in", "out")}
    return {**found, "in": MASKED} if random.random() < 0.2 else found


def call_on_host(trial: Trial, form: Mapping[str, str]) -> Outcome:
    """Call an operator on arrays of the host in these forms. Masked ones have to be refused."""
    operator, target = find_operator(trial.operator), get_target(trial.arch)
    problem = operator.problem(**trial.keys)
    specs = {array.name: array for array in operator.arrays(problem)}
    arrays = special_inputs(trial.values, operator, problem, target, trial.seed)
    written = [spec for spec in specs.values() if spec.role == "out"]
    outputs = {spec.name: np.zeros(spec.shape, numpy_dtype(spec.dtype, target)) for spec in written}
    masked = form["in"] == MASKED
    given = {
        **{name: np.ma.masked_array(one) if masked else FORMS[form["in"]](one) for name, one in arrays.items()},
        **{name: FORMS[form["out"]](one) for name, one in outputs.items()},
    }
    try:
        Executable(SimulatorDevice(target, seed=trial.seed), operator, problem)(**given)
    except CkmlirError as error:
        return Outcome(RIGHT if masked and "mask" in str(error) else FAILED, str(error))
    if masked:
        return Outcome(FAILED, "a masked array was taken")
    found = {name: given[name].astype(one.dtype) for name, one in outputs.items()}
    wrong = [str(one) for one in check_outputs(operator, problem, arrays, found, target) if not one.ok]
    return Outcome(FAILED, "; ".join(wrong)) if wrong else Outcome(RIGHT)


def damage(file: Path, random: Random) -> None:
    """Shorten a file, change bytes of it, or put others in its place."""
    contents = bytearray(file.read_bytes())
    way = random.choice(("shorten", "change", "replace", "lengthen"))
    if way == "shorten":
        contents = contents[: random.randrange(len(contents))]
    elif way == "change":
        for _ in range(random.choice((1, 8, 100))):
            contents[random.randrange(len(contents))] ^= 1 << random.randrange(8)
    else:
        contents = (contents if way == "lengthen" else bytearray()) + random.randbytes(random.choice((0, 1, 1000)))
    file.write_bytes(contents)


def run_in_a_process(trial: Trial, cache: Path, before: str = "") -> Outcome:
    """The trial's command with this folder for a cache; `before` is Python that runs first."""
    words = trial.command().replace("ckmlir ", "", 1)
    code = f"import shlex, sys\n{before}\nfrom ckmlir.tools.cli import main\nsys.exit(main(shlex.split({words!r})))"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "CKMLIR_CACHE": "on"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode or "Traceback" in done.stderr:
        return Outcome(FAILED, f"status {done.returncode}: {done.stderr[-500:]}")
    return Outcome(RIGHT)


def run_on_damaged_files(trial: Trial, cache: Path, random: Random, before: str = "") -> Outcome:
    """Run a trial, damage files that it left in the cache, and run it again."""
    outcome = run_in_a_process(trial, cache, before)
    files = sorted(path for path in cache.rglob("*") if path.is_file())
    for file in random.sample(files, min(len(files), random.randint(1, 5))):
        damage(file, random)
    return run_in_a_process(trial, cache, before) if outcome.kind == RIGHT else outcome


def small(random: Random, arch: str) -> Trial:
    """A small request of an operator whose arrays are of every rank."""
    name, keys = random.choice(REQUESTS)
    return Trial(name, keys, arch, seed=random.randrange(1000))


REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("copy", {"m": "5", "n": "70"}),
    ("softmax", {"m": "3", "n": "33", "dtype": "f32"}),
    ("gemm", {"m": "33", "n": "40", "k": "24", "block": "64x64x64", "wave": "2x2", "schedule": "compv3"}),
    ("elementwise", {"shape": "3x4x5", "dtype": "bf16"}),
    ("reduce", {"shape": "4x6x7", "dims": "1", "ops": "sum,max"}),
    ("cast", {"shape": "2x3x4x5", "out": "i8"}),
)
