"""A launch of any code object, recorded for the model of time, from its description (`launch_description.py`)."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.sim import Simulator
from ckmlir.targets import get_target
from ckmlir.tools.launch_arrays import pass_arguments
from ckmlir.tools.launch_description import LaunchDescription, read_launch
from ckmlir.tools.progress import progress
from ckmlir.tools.run_file import read_for_launch

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.sim.timing.edits import Case
    from ckmlir.sim.timing.grid import Mode
    from ckmlir.sim.timing.parameters import Parameters


def read_foreign(options: argparse.Namespace) -> tuple[CodeObject, LaunchDescription]:
    """The code object and the launch that the options name. Raises CkmlirError for what else they ask for."""
    refused = {"key=value": options.keys, "--step": getattr(options, "step", None),
               "--schedule": getattr(options, "schedule", None),
               "--module": getattr(options, "module", None),
               "--pass-after": getattr(options, "pass_after", None)}  # fmt: skip
    for name, given in refused.items():
        if given:
            raise CkmlirError(f"{name} is for operators; with --launch, {options.operator} and its launch say all")
    code_object = read_for_launch(Path(options.operator), options.arch)
    return code_object, read_launch(options.launch, code_object, options.kernel)


def record_foreign(
    code_object: CodeObject, launch: LaunchDescription, parameters: Parameters, mode: Mode | int
) -> Case:
    """The launch, recorded: the workgroups that the model wants, which see the arrays as they are at the start.

    Raises:
        CkmlirError: as `launch_arrays.pass_arguments` and `sim.timing.measure`.
    """
    from ckmlir.sim.timing.edits import Case
    from ckmlir.sim.timing.measure import record_launch

    target = get_target(code_object.target)
    simulator, code_object = Simulator(target.name, seed=launch.seed), launch.told(code_object)
    passed = pass_arguments(launch, simulator, target)
    shape = launch.order or launch.grid
    if isinstance(mode, int) and mode > math.prod(shape):
        raise CkmlirError(f"--workgroups {mode}: the launch of {launch.where} has {math.prod(shape)} workgroups")
    with progress(f"recording {launch.kernel}"):
        trace = record_launch(
            simulator, code_object, launch.kernel, launch.grid, launch.block, passed.values, launch.dynamic_lds,
            parameters=parameters, mode=mode, shape=shape,
        )  # fmt: skip
    return Case(trace, parameters, mode, tuple(shape))
