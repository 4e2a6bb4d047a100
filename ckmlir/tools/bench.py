"""`ckmlir bench`: how fast an operator is on a GPU; on the simulator, what it does.

Nothing is compared with the reference: `ckmlir run` does that.
"""

from __future__ import annotations

import argparse
import json

from ckmlir.ops.plan import described
from ckmlir.runtime.bench import COLD, Measurement, StepMeasurement, measure
from ckmlir.runtime.selection import DEVICES, Selection, select_device
from ckmlir.tools.cli import Parser
from ckmlir.tools.library_option import Taken, add_library_arguments, taken_kernel
from ckmlir.tools.own_kernel import add_own_kernel_arguments, own_kernel
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, read_request
from ckmlir.tools.requested import Request


def add_arguments(parser: Parser) -> None:
    add_operator_arguments(parser)
    add_own_kernel_arguments(parser)
    add = parser.add_argument
    add("--device", default="auto", metavar="|".join(DEVICES), help="where to run; auto takes what is there")
    add("--warm-up", type=_count, default=10, metavar="N", help="launches that are not measured [10]")
    add("--repeats", type=_positive, default=50, metavar="N", help="launches that are measured [50]")
    add("--cold", choices=COLD, default="no", help="rotate: other arrays each time; flush: fill the caches in between")
    add_library_arguments(parser)
    add("--json", action="store_true", help="one JSON object on stdout")


def execute(options: argparse.Namespace) -> int:
    request = read_request(options)
    with taken_kernel(options, request) as taken:
        return _bench(options, request, taken)


def _bench(options: argparse.Namespace, request: Request, taken: Taken) -> int:
    operator, problem, target = request
    compiled = own_kernel(request, options)
    selection = select_device(options.device, target)
    with progress("making arrays"):
        arrays = operator.inputs(problem, target)
    with progress(f"running on the {selection.device.properties.name}"):
        found = measure(
            operator, problem, arrays, target, selection.device,
            spec=taken.spec, compiled=compiled, warm_up=options.warm_up, repeats=options.repeats, cold=options.cold,
        )  # fmt: skip
    print((_json if options.json else _text)(request, selection, found, taken))
    return 0


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to 1000000")
    return int(text)


def _positive(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("at least one launch is measured")
    return int(text)


def _text(request: Request, selection: Selection, found: Measurement, taken: Taken) -> str:
    lines = [f"{found.kernel} on {selection.device.properties.name} ({selection.reason})"]
    lines += [str(taken)] * (taken.library is not None)
    work = f"{found.nbytes} bytes of arrays"
    lines.append(work if found.flops is None else f"{found.flops} floating-point operations, {work}")
    if found.times is not None:
        times = found.times
        lines.append(
            f"median {1e6 * times.median:.2f} µs, least {1e6 * times.least:.2f} µs, middle half within "
            f"{1e6 * times.spread:.2f} µs, {len(times.seconds)} launches"
        )
        speed = [f"{found.gigabytes_a_second:.1f} GB/s"]
        if found.tflops is not None:
            speed.insert(0, f"{found.tflops:.2f} TFLOPS")
        lines.append(", ".join(speed))
        if len(found.steps) > 1:
            lines += [_step_time(number, one) for number, one in enumerate(found.steps, 1)]
    if found.counts is not None:
        lines += [f"{count:>16,}  {name.replace('_', ' ')}" for name, count in found.counts.items()]
        counted = sum(one.counts is not None for one in found.steps)
        if counted > 1:
            for number, one in enumerate(found.steps, 1):
                done = f"{one.counts['wave_instructions']:>16,}  wave instructions: " if one.counts else " " * 18
                lines.append(f"{done}step {number}, {one.step}")
        what = "one launch" if counted == 1 else f"one launch of each of {counted} kernels together"
        lines.append(f"counts of {what}; the simulator has no times")
    return "\n".join(lines)


def _step_time(number: int, one: StepMeasurement) -> str:
    median = 0.0 if one.times is None else one.times.median
    return f"{1e6 * median:>12.2f} µs  step {number}, {one.step}"


def _json(request: Request, selection: Selection, found: Measurement, taken: Taken) -> str:
    times = found.times
    report = {
        "op": request.operator.name,
        "arch": request.target.name,
        "kernel": found.kernel,
        "library": taken.described(),
        "device": selection.device.properties.name,
        "reason": selection.reason,
        "flops": found.flops,
        "bytes": found.nbytes,
        "median_s": None if times is None else times.median,
        "least_s": None if times is None else times.least,
        "spread_s": None if times is None else times.spread,
        "repeats": None if times is None else len(times.seconds),
        "tflops": found.tflops,
        "gb_per_s": found.gigabytes_a_second,
        "counts": found.counts,
        "steps": [
            {
                **described(one.step),
                "median_s": None if one.times is None else one.times.median,
                "least_s": None if one.times is None else one.times.least,
                "counts": one.counts,
            }
            for one in found.steps
        ],
    }
    return json.dumps(report, allow_nan=False)
