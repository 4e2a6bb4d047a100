"""The options --trace and --trace-waves of `ckmlir run`: which instructions, as which type, of which waves."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

import ml_dtypes
import numpy.typing as npt

from ckmlir.errors import CkmlirError

if TYPE_CHECKING:
    from ckmlir.sim.debugging import Tracer

LIMIT = 200
"""Executions that are printed; the rest is counted."""
_TYPES: dict[str, npt.DTypeLike] = {
    **{f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)},
    **{f"f{8 * size}": f"f{size}" for size in (2, 4, 8)},
    "bf16": ml_dtypes.bfloat16,
    "fp8_fnuz": ml_dtypes.float8_e4m3fnuz, "bf8_fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp8_ocp": ml_dtypes.float8_e4m3fn, "bf8_ocp": ml_dtypes.float8_e5m2,
}  # fmt: skip


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both options to `ckmlir run`."""
    parser.add_argument(
        "--trace",
        metavar="PLACE[=dtype[:dtype]]",
        help=f"print the first {LIMIT} executions of instructions with their values, to standard error: a pattern of "
        "the mnemonic (v_mfma*), file.py:line, or an offset (0x40); dtype, that of results after a colon: "
        + ", ".join(_TYPES),
    )
    parser.add_argument(
        "--trace-waves", type=_waves, metavar="N,…", help="trace only waves with these numbers in their workgroup"
    )


def make_tracer(options: argparse.Namespace) -> Tracer | None:
    """What the options ask for; None for nothing. Raises CkmlirError for an unknown dtype or waves without a place."""
    if options.trace is None:
        if options.trace_waves is not None:
            raise CkmlirError("--trace-waves: say what to trace of these waves with --trace")
        return None
    place, equals, text = options.trace.partition("=")
    dtypes = text.split(":") if equals else ["u32"]
    if not place or len(dtypes) > 2 or any(dtype not in _TYPES for dtype in dtypes):
        raise CkmlirError(
            f"--trace {options.trace}: write PLACE, PLACE=dtype or PLACE=dtype:dtype; dtypes are {', '.join(_TYPES)}"
        )
    offset = int(place, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", place) else place
    # Of several kernels that an operator launches only some may have the instruction.
    from ckmlir.sim.debugging import Tracer

    read, written = _TYPES[dtypes[0]], _TYPES[dtypes[-1]]
    return Tracer(offset, read, waves=options.trace_waves, limit=LIMIT, required=False, result_dtype=written)


def report_trace(tracer: Tracer) -> None:
    """Say what the trace left out, or that there was nothing to trace."""
    if tracer.dropped:
        print(f"--trace: {tracer.dropped} more executions, not printed", file=sys.stderr)
    elif not tracer.matched:
        print(f"--trace: no kernel that ran has an instruction at {tracer.place}", file=sys.stderr)
    elif not tracer.seen:
        print(f"--trace: {tracer.matched} instructions at {tracer.place}, none executed", file=sys.stderr)


def _waves(text: str) -> frozenset[int]:
    if not re.fullmatch(r"[0-9]{1,2}(,[0-9]{1,2})*", text):
        raise argparse.ArgumentTypeError(f"{text} is not a list of wave numbers such as 0,1")
    return frozenset(map(int, text.split(",")))
