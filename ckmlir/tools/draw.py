"""`ckmlir draw`: pictures of tiles, LDS accesses and schedules, as text and SVG, from the objects that are lowered."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, write_file
from ckmlir.ops.operator import require_valid
from ckmlir.tools.cli import Parser
from ckmlir.tools.own_kernel import add_own_kernel_arguments, own_schedule
from ckmlir.tools.progress import progress
from ckmlir.tools.request import add_operator_arguments, at_step, read_request

if TYPE_CHECKING:
    from ckmlir.dialect.distribution import Distribution
    from ckmlir.mlir import ir
    from ckmlir.tools.grid_drawing import Grid
    from ckmlir.tools.requested import Request

SUBJECTS = {
    "distribution": "who holds which element of a tile: of a distribution's text, or of a tile of OP's kernel",
    "lds": "which banks an access to LDS touches in which cycle",
    "schedule": "what runs ahead of what in the kernel's loop",
}
MOST_STEPS = 8


def add_arguments(parser: Parser) -> None:
    parser.add_argument("subject", choices=tuple(SUBJECTS), metavar="SUBJECT", help="see below")
    add_operator_arguments(parser, or_text=True)
    add_own_kernel_arguments(parser, modules=False)
    add = parser.add_argument
    add("--step", type=int, metavar="N", help="of an operator of several kernels the one in step N, as `list` counts")
    add("--number", type=int, metavar="N", help="which tile or access; without it all are listed, and the first drawn")
    add("--rows", type=_part, metavar="A-B", help="of a tile, these rows only")
    add("--columns", type=_part, metavar="A-B", help="of a tile, these columns only")
    add("--steps", type=int, default=1, metavar="N", help="steps of the loop to draw [1]")
    add("-o", "--output", type=Path, metavar="FILE", help="write a picture there: SVG, or text where FILE ends in .txt")
    subjects = "\n".join(f"  {name:<14}{what}" for name, what in SUBJECTS.items())
    parser.epilog = f"subjects:\n{subjects}\n\n{parser.epilog or ''}"


def execute(options: argparse.Namespace) -> int:
    if options.output is not None:
        if options.output.suffix not in ("", ".svg", ".txt"):
            raise CkmlirError(f"-o {options.output}: pictures are SVG or text; expected a name in .svg or .txt")
        check_writable([options.output])
    drawn = {"distribution": _tile, "lds": _lds, "schedule": _schedule}[options.subject](options)
    if options.output is None:
        print(drawn.text())
    elif options.output.suffix == ".txt":
        write_file(options.output, drawn.text().encode() + b"\n")
    else:
        write_file(options.output, drawn.svg().encode())
    return 0


def _part(text: str) -> range:
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text, re.ASCII)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise argparse.ArgumentTypeError(f"{text} is not a part such as 0-15")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def _chosen(options: argparse.Namespace, found: list[str], what: str) -> int:
    """The place of the one that --number names; without it all are listed, and it is the first."""
    if not found:
        raise CkmlirError(f"{options.operator}: there is no {what} to draw")
    number = 1 if options.number is None else options.number
    if not 1 <= number <= len(found):
        raise CkmlirError(f"--number {number}: there are {len(found)}: {'; '.join(found)}")
    if options.number is None:
        print("\n".join(f"{place:>3}  {one}" for place, one in enumerate(found, 1)) + "\n")
    return number - 1


def _request(options: argparse.Namespace) -> Request:
    return at_step(read_request(options), options.step)


def _tile(options: argparse.Namespace) -> Grid:
    from ckmlir.dialect.distribution import Distribution
    from ckmlir.tools.draw_tiles import draw_distribution

    if re.fullmatch(r"\w+", options.operator):  # no text of a distribution is one word
        tiles = _tiles(options)
        words = list(tiles)
        word = words[_chosen(options, words, "tile")]
        return draw_distribution(tiles[word], options.rows, options.columns, word)
    try:
        distribution = Distribution.parse(options.operator)
    except ValueError as error:
        raise CkmlirError(f"{options.operator}: {error}") from None
    return draw_distribution(distribution, options.rows, options.columns, str(distribution))


def _tiles(options: argparse.Namespace) -> dict[str, Distribution]:
    """The distributions of a kernel's tiles, by what makes the first tile that has it."""
    from ckmlir.dialect.types import TileType, describe
    from ckmlir.passes.walk import functions, operations

    found: dict[str, Distribution] = {}
    module = _kernel(options, "ck-infer-distributions")
    for function in functions(module):
        for op in operations(function):
            for value in op.results:
                tile = describe(value.type) if str(value.type).startswith("!ck.tile") else None
                if isinstance(tile, TileType) and tile.distribution is not None:
                    what = f"{op.name.removeprefix('ck.')} {'x'.join(map(str, tile.lengths))} {tile.element}"
                    if tile.distribution not in found.values():
                        found[f"{what}: {tile.distribution}"] = tile.distribution
    return found


def _lds(options: argparse.Namespace) -> Grid:
    from ckmlir.tools.draw_banks import draw_banks, lds_accesses

    accesses = lds_accesses(_kernel(options, "ck-allocate-lds"))
    words = [
        f"{one} ({one.count} alike): {one.cycles[0]} cycles, {one.cycles[1]} without conflicts" for one in accesses
    ]
    return draw_banks(accesses[_chosen(options, words, "read or write of LDS")])


def _schedule(options: argparse.Namespace) -> Grid:
    from ckmlir.scheduling import Workbench
    from ckmlir.tools.draw_steps import draw_schedule

    if not 1 <= options.steps <= MOST_STEPS:
        raise CkmlirError(f"--steps {options.steps}: 1 to {MOST_STEPS} can be drawn")
    request = _request(options)
    operator, problem, target = request
    with progress("reading the loop"):
        bench = Workbench.of(operator, operator.spec(problem, target), target)
        try:
            return draw_schedule(bench, own_schedule(request, options) or bench.schedule, options.steps)
        except ValueError as error:
            raise CkmlirError(str(error)) from None


def _kernel(options: argparse.Namespace, last: str) -> ir.Module:
    """The operator's kernel behind a pass; its context lives with it."""
    from ckmlir.compiler import put_schedule
    from ckmlir.passes.pipeline import PIPELINE, run_pipeline

    request = _request(options)
    operator, problem, target = request
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    kernel = operator.build(spec, target)
    schedule = own_schedule(request, options)
    with kernel.module.context, progress("reading the kernel"):
        if schedule is not None:
            put_schedule(kernel, spec.main_loop, schedule)
        rows = [str(step.run) for step in PIPELINE]
        run_pipeline(kernel.module, PIPELINE[: rows.index(last) + 1], dump_on_failure=False)
    return kernel.module
