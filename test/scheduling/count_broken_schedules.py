"""Prints the table of docs/schedules.md: broken schedules by kind of change, and how the checkers judge them.

    python test/scheduling/count_broken_schedules.py [--processes N]

Takes about an hour on one core.
"""

from __future__ import annotations

import argparse
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from broken_schedules import ACCEPTED, KINDS, MADE_UP_FOR, ORDER_KEPT, ORDER_LOST, REFUSED, Subject, subjects, tally

COLUMNS = (REFUSED, MADE_UP_FOR, ORDER_LOST, ORDER_KEPT, ACCEPTED)


def tallies(subject: Subject) -> dict[str, Counter[str]]:
    """The verdicts by kind of change."""
    return {kind: tally(subject, kind) for kind in KINDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    every = subjects()
    with ProcessPoolExecutor(parser.parse_args().processes) as pool:
        found = list(pool.map(tallies, every))
    print(f"{len(every)} schedules\n")
    print(f"| change | cases | {' | '.join(COLUMNS)} |\n|{'---|' * (2 + len(COLUMNS))}")
    for kind in KINDS:
        total = sum((one[kind] for one in found), Counter[str]())
        print(f"| {kind} | {total.total()} | {' | '.join(str(total[column] or '') for column in COLUMNS)} |")


if __name__ == "__main__":
    main()
