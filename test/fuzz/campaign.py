"""A fuzz of some operators for some time:

    python test/fuzz/campaign.py --seconds 600 --seed 7 reduce softmax

It prints every failure as the command that reproduces it, and at the end what came of how many requests.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from drawing import minimal, run
from trial import FAILED

from ckmlir.ops import OPERATORS

MOST_MEMORY = 6 << 30
"""Bytes of address space beyond which an allocation fails, so that a careless reference does not stop the machine."""


def limit_memory() -> None:
    """Let this process have no more than MOST_MEMORY."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=[], metavar="OP")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--most", type=int, default=10, help="failures after which it stops")
    options = parser.parse_args(arguments)
    limit_memory()
    print(f"seed {options.seed}", flush=True)
    counts: Counter[tuple[str, str]] = Counter()
    end, number, failures = time.monotonic() + options.seconds, 0, 0
    names = options.operators or list(OPERATORS)
    while time.monotonic() < end and failures < options.most:
        name = names[number % len(names)]
        trial, outcome, refusals = run(name, Random(f"{options.seed} {number}"))
        number += 1
        counts[name, outcome.kind] += 1
        counts[name, "refusals"] += refusals
        if outcome.kind == FAILED:
            failures += 1
            trial, outcome = minimal(trial, outcome)
            last = outcome.traceback.strip().splitlines()[-3:]
            print("\n".join([trial.command(), f"    {outcome.reason[:600]}", *last]), flush=True)
    kinds = sorted({kind for _, kind in counts})
    for name in names:
        print(f"{name:24} " + ", ".join(f"{kind} {counts[name, kind]}" for kind in kinds))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
