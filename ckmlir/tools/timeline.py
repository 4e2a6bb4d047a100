"""`ckmlir timeline`: when the waves of a kernel issue what, and what they wait for, as a page and for Perfetto.

Cycles come from the simulator's model of time, not from hardware.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.tools.cli import Parser
from ckmlir.tools.own_kernel import add_own_kernel_arguments
from ckmlir.tools.progress import progress
from ckmlir.tools.timing_options import add_timing_arguments, read_subject


def add_arguments(parser: Parser) -> None:
    add_timing_arguments(parser)
    add_own_kernel_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="HTML page, one file that a browser opens")
    parser.add_argument("--perfetto", type=Path, metavar="FILE", help="JSON for ui.perfetto.dev or chrome://tracing")


def execute(options: argparse.Namespace) -> int:
    files = [file for file in (options.output, options.perfetto) if file is not None]
    if not files:
        raise CkmlirError("timeline: nothing to write; give -o page.html, --perfetto trace.json or both")
    check_writable(files)
    subject = read_subject(options)
    case = subject.record()

    from ckmlir.sim.timing.critical_path import critical_path
    from ckmlir.sim.timing.launch_model import model_launch
    from ckmlir.sim.timing.page import facts, render_page
    from ckmlir.sim.timing.perfetto import perfetto_json

    title = subject.title
    with progress("modelling"):
        timeline = model_launch(*case).timeline
    if options.output is not None:
        page = render_page(timeline, title, subtitle=case.trace.kernel, path=critical_path(timeline))
        write_file(options.output, page.encode())
    if options.perfetto is not None:
        write_file(options.perfetto, perfetto_json(timeline, title).encode())
    print(f"{title}: {case.trace.kernel}")
    print(", ".join(f"{name} {text}" for name, text in facts(timeline)) + " (model, not hardware)")
    return 0
