"""`ckmlir run`: compile an operator, run it on a device, compare the result with NumPy.

A file of code with a description of its launch runs on the simulator; what it should compute is not known here.

Exit status 0: every output agrees with its reference (or --no-check) and no checker of --check found anything; 1: one
disagrees, the kernel faulted, or a checker reported it (then nothing is compared).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.ops.comparison import Comparison
from ckmlir.ops.plan import described
from ckmlir.ops.special_values import KINDS, special_inputs
from ckmlir.runtime import Device, FindingsFault, RunResult, check_outputs, open_device, run_operator
from ckmlir.runtime.selection import DEVICES
from ckmlir.sim.checks import CHECKERS, Finding
from ckmlir.tools.arrays import npy_bytes, read_array, read_assignments
from ckmlir.tools.cli import DISAGREES, Parser
from ckmlir.tools.library_option import Taken, add_library_arguments, taken_kernel
from ckmlir.tools.own_kernel import add_own_kernel_arguments, chosen_keys, own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, checks_of, chosen_text, read_request, steps_text
from ckmlir.tools.requested import Request
from ckmlir.tools.run_file import run_file
from ckmlir.tools.trace_option import add_trace_arguments, make_tracer, report_trace

MOST_JOBS = 256


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser, or_file=True)
    add_own_kernel_arguments(parser)
    add = parser.add_argument
    add("--device", default="auto", metavar="|".join(DEVICES), help="where to run; auto takes what is there")
    add(
        "--input", nargs="+", action="extend", default=[], metavar="name=file.npy", help="arrays not made from the seed"
    )
    add("--output", nargs="+", action="extend", default=[], metavar="name=file.npy", help="arrays to write")
    add("--seed", type=_seed, default=0, metavar="N", help="of arrays and of the simulator")
    add("--jobs", type=_jobs, default=1, metavar="N", help="threads of the simulator that share the workgroups")
    add(
        "--values", choices=KINDS, default="ordinary",
        help="of arrays made from the seed: special has NaN, infinities, denormals and the ends of types in them, huge "
        "is times 2^66 (of two factors whose product f32 would not hold, one is), tiny times 2^-100",
    )  # fmt: skip
    add("--guard", action="store_true", help="put arrays between guard bytes, no better aligned than promised")
    add("--no-check", action="store_true", help="do not compare with the reference")
    add(
        "--check",
        type=checks_of,
        default=frozenset(),
        metavar="all|name,…",
        help=f"checkers of the simulator that watch the run: {', '.join(CHECKERS)}; all leaves out "
        + ", ".join(one.name for one in CHECKERS.values() if one.on_request),
    )
    add_library_arguments(parser)
    add_trace_arguments(parser)
    add("--json", action="store_true", help="one JSON object on stdout")


def execute(options: argparse.Namespace) -> int:
    if options.launch is not None:
        return run_file(options)
    request = read_request(options)
    with taken_kernel(options, request) as taken:
        return _run(options, request, taken)


def _run(options: argparse.Namespace, request: Request, taken: Taken) -> int:
    operator, problem, target = request
    specs = {spec.name: spec for spec in operator.arrays(problem)}
    given = read_assignments("--input", options.input, [spec for spec in specs.values() if spec.role == "in"])
    placed = set(operator.placed(problem, target, dict.fromkeys(specs, 0))) if given else set()
    for name in placed & given.keys():
        why = f"array {name} holds addresses, so it is made when arrays have them"
        raise CkmlirError(f"--input {name}={given[name]}: {why}")
    wanted = read_assignments("--output", options.output, specs.values())
    check_writable(list(wanted.values()))
    if options.check and options.device == "hip":
        raise CkmlirError("--check: the checkers are the simulator's; a GPU has none")
    start = time.perf_counter()
    compiled = own_kernel(request, options)
    own_seconds = 0.0 if compiled is None else time.perf_counter() - start
    tracer = make_tracer(options)
    if tracer and options.device == "hip":
        raise CkmlirError("--trace: the trace is the simulator's; a GPU has none")
    chosen = "sim" if options.check or tracer else options.device
    device = open_device(chosen, target, seed=options.seed, checks=options.check, jobs=options.jobs)
    if tracer:
        from ckmlir.runtime.simulator_device import SimulatorDevice  # needs LLVM, which a GPU does without

        assert isinstance(device, SimulatorDevice)
        device.observe(tracer)

    arrays = {name: read_array(path, specs[name], target) for name, path in given.items()}
    with progress("making arrays"):
        made = special_inputs(options.values, operator, problem, target, options.seed)
    arrays = {**made, **arrays}
    with progress(f"compiling and running {taken.spec.name} on the {device.properties.name}"):
        try:
            result = run_operator(
                operator, problem, arrays, target, device, spec=taken.spec, compiled=compiled, guarded=options.guard
            )
        except FindingsFault as fault:
            print(_findings_json(request, taken, device, fault.findings) if options.json else str(fault))
            return DISAGREES
        finally:
            if tracer:
                report_trace(tracer)
    result = replace(result, compile_seconds=result.compile_seconds + own_seconds)
    comparisons = None
    if not options.no_check:
        with progress("computing the reference"):
            comparisons = check_outputs(operator, problem, arrays, result.outputs, target)
    for name, path in wanted.items():
        write_file(path, npy_bytes({**arrays, **result.outputs}[name]))

    report = _json if options.json else _text
    print(report(request, taken, device, result, comparisons, options))
    return 0 if comparisons is None or all(one.ok for one in comparisons) else DISAGREES


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def _jobs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to {MOST_JOBS}")
    return int(text)


def _text(
    request: Request,
    taken: Taken,
    device: Device,
    result: RunResult,
    comparisons: list[Comparison] | None,
    options: argparse.Namespace,
) -> str:
    what = f"{request.operator.name} on the {device.properties.name}: {taken.spec.name}"
    times = f"compiled in {result.compile_seconds:.3f} s, ran in {result.run_seconds:.3f} s"
    if not result.plan.steps:
        times = "nothing to launch"
    outcome = ["not compared"] if comparisons is None else [str(one) for one in comparisons]
    chosen = "\n".join(filter(None, (str(taken), chosen_text(request, taken.spec, options), steps_text(result.plan))))
    return "\n".join([what, *([chosen] if chosen else []), times, *outcome, *_clean(options.check, result)])


def _clean(checks: Collection[str], result: RunResult) -> Iterator[str]:
    """What the checkers looked at that found nothing; a run with findings has ended before."""
    if not checks:
        return
    if not result.plan.kernels:
        yield "checked: nothing, since nothing was launched"
        return
    yield "nothing found by the checkers " + ", ".join(name for name in CHECKERS if name in checks)


def _findings_json(request: Request, taken: Taken, device: Device, findings: Sequence[Finding]) -> str:
    """The report of `--json` when checkers found something: nothing was compared."""
    report = {
        "op": request.operator.name,
        "arch": request.target.name,
        "kernel": taken.spec.name,
        "spec": taken.spec.to_dict(),
        "library": taken.described(),
        "device": device.properties.name,
        "ok": False,
        "findings": [finding.to_dict() for finding in findings],
    }
    return json.dumps(report, allow_nan=False)


def _json(
    request: Request,
    taken: Taken,
    device: Device,
    result: RunResult,
    comparisons: list[Comparison] | None,
    options: argparse.Namespace,
) -> str:
    """The report of `--json`. Errors are the largest of all outputs; infinite ones are written as text, "inf"."""
    checked = comparisons or []
    worst = max(checked, key=lambda one: (not one.ok, one.max_rel_err), default=None)
    report = {
        "op": request.operator.name,
        "arch": request.target.name,
        "kernel": taken.spec.name,
        "spec": taken.spec.to_dict(),
        "library": taken.described(),
        "steps": [described(step) for step in result.plan.steps],
        "chosen": chosen_keys(request, taken.spec, options),
        "device": device.properties.name,
        "compile_s": result.compile_seconds,
        "run_s": result.run_seconds,
        "max_abs_err": _number(max(one.max_abs_err for one in checked)) if checked else None,
        "max_rel_err": _number(max(one.max_rel_err for one in checked)) if checked else None,
        "tolerance": None if worst is None else _tolerance(worst),
        "ok": None if comparisons is None else all(one.ok for one in checked),
        "checked": [name for name in CHECKERS if name in options.check],
        "findings": [],
        "outputs": {one.name: _comparison(one) for one in checked},
    }
    return json.dumps(report, allow_nan=False)


def _comparison(one: Comparison) -> Mapping[str, object]:
    return {
        "ok": one.ok,
        "elements": one.elements,
        "mismatches": one.mismatches,
        "unspecified": one.unspecified,
        "max_abs_err": _number(one.max_abs_err),
        "max_rel_err": _number(one.max_rel_err),
        "tolerance": _tolerance(one),
        "worst": None
        if one.worst is None
        else {
            "index": list(one.worst.index),
            "actual": _number(one.worst.actual),
            "expected": _number(one.worst.expected),
        },
    }


def _tolerance(one: Comparison) -> Mapping[str, object]:
    return {"rtol": one.tolerance.rtol, "atol": one.tolerance.largest_atol, "reason": one.tolerance.reason}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
