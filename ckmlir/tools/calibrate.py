"""`ckmlir calibrate`: fit numbers of the simulator's model of time to kernels that somebody timed on a GPU.

The CSV file has the columns `kernel` ("gemm m=4096 n=4096 k=4096") and `microseconds`. What comes out is a file for
--timing-params.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.ops import find_operator
from ckmlir.ops.request import parse_assignments
from ckmlir.targets import TARGETS
from ckmlir.tools.progress import progress
from ckmlir.tools.request import find_target
from ckmlir.tools.time import MODES, add_parameter_arguments, read_parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("measurements", type=Path, metavar="CSV", help="columns kernel (as on the command line) and microseconds")
    add("--arch", required=True, metavar="A", help=f"the chip: {', '.join(TARGETS)}")
    add("--fit", nargs="+", action="extend", default=[], metavar="NAME", help="numbers of the model to fit")
    add("--force", action="store_true", help="also fit numbers that are published")
    add("-o", "--output", type=Path, metavar="FILE", help="file for --timing-params; default: stdout")
    add("--mode", choices=MODES, default="sampled", help="as for `ckmlir time`")
    add_parameter_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    target = find_target(options.arch)
    if options.output is not None:
        check_writable([options.output])
    parameters = read_parameters(options, target.name)
    try:
        from ckmlir.runtime.timing import model_kernels
        from ckmlir.sim.timing.calibration import calibrate, read_measurements
    except ImportError as error:
        raise CkmlirError(str(error)) from None
    from ckmlir.sim.timing.parameters import Parameters

    measurements = read_measurements(options.measurements)
    models = []
    for one in measurements:
        name, *keys = one.kernel.split() or [""]
        operator = find_operator(name)
        problem = operator.problem(**parse_assignments(keys))
        with progress(f"compiling and recording {one.kernel}"):
            models.append(model_kernels(operator, problem, target, parameters, mode=options.mode))

    def predict(tried: Parameters) -> Sequence[float]:
        return [sum(one.under(tried).grid.microseconds for one in kernels) for kernels in models]

    source = f"fitted to {options.measurements}"
    with progress("fitting"):
        found = calibrate(parameters, options.fit, measurements, predict, force=options.force, source=source)
    if options.output is not None:
        write_file(options.output, found.to_toml().encode())
    else:
        print(found.to_toml(), end="")
    lines = [f"# modelled by measured time: factor {found.error_before:.3f} before, {found.error_after:.3f} after"]
    lines += [f"#   {ratio:.3f}  {kernel}" for kernel, ratio in found.ratios.items()]
    lines += [f"# {name} had no effect and was kept" for name in found.without_effect]
    print("\n".join(lines))
    return 0
