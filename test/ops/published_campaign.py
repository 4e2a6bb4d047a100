"""The published cases of attention forward kernel by kernel: all sizes that one takes run on it, which is compiled and
made ready once.

    python test/ops/published_campaign.py --seconds 600 --part 1/4 appended prefill

runs, of every fourth kernel from the first on, those with the most cases first, until the time is up. It prints every
failure as it comes, and at the end how many cases of how many kernels were run. `--resume FILE` skips the kernels that
the file names, and adds those that were run to their end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from operator_runner import named, watching
from test_fmha_published import GRIDS, Case, run

from ckmlir.ops import find_operator
from ckmlir.targets import get_target


def kernels(names: Sequence[str]) -> list[list[Case]]:
    """The cases of these grids that have a kernel in common, the most first."""
    found: dict[tuple[str, str, Any], list[Case]] = {}
    for name in names:
        for chip, operator_name, keys in GRIDS[name]:
            operator = find_operator(operator_name)
            spec = operator.spec(operator.problem(**keys), get_target(chip))
            found.setdefault((chip, operator_name, spec), []).append((chip, operator_name, keys))
    return sorted(found.values(), key=len, reverse=True)


def failures(cases: Sequence[Case]) -> Iterator[str | None]:
    """Of each case, on one device: what was wrong, if anything."""
    device = watching(cases[0][0])
    for case in cases:
        try:
            run(*case, device)
        except Exception as error:
            yield f"{' '.join(named(one) for one in case)}: {type(error).__name__}: {error}"
        else:
            yield None


def described(cases: Sequence[Case]) -> str:
    """A line that names the kernel of these cases, by the first one."""
    return " ".join(named(one) for one in cases[0])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grids", nargs="*", default=[], metavar="GRID", help=f"of {', '.join(GRIDS)}; default: all")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--part", default="1/1", help="I/N: every N-th kernel, from the I-th on")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="the kernels that were run, a line each")
    options = parser.parse_args(arguments)
    first, step = map(int, options.part.split("/"))
    chosen = kernels(options.grids or list(GRIDS))[first - 1 :: step]
    if options.resume and options.resume.exists():
        run_before = set(options.resume.read_text().splitlines())
        chosen = [group for group in chosen if described(group) not in run_before]
    end, cases, started, wrong = time.monotonic() + options.seconds, 0, 0, 0
    for group in chosen:
        if time.monotonic() > end:
            break
        started += 1
        for failure in failures(group):
            cases += 1
            if failure is not None:
                wrong += 1
                print(failure, flush=True)
            if time.monotonic() > end:
                break
        else:
            if options.resume:
                with options.resume.open("a") as record:
                    print(described(group), file=record)
    whole = sum(map(len, chosen))
    print(f"{cases} of {whole} cases, {started} of {len(chosen)} kernels, {wrong} failures", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
