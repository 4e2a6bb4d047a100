"""Where a search begins, beside the kernel's own schedule: what schedulers find for its loop."""

from collections.abc import Iterator

from ckmlir.errors import CkmlirError
from ckmlir.scheduling.candidates import Subject, bench_of

SCHEDULERS = ("source", "list", "modulo", "interleave", "four_waves", "ping_pong")
"""Those that take no time worth mentioning."""
BUFFERS = (1, 2, 3)


def starts(subject: Subject) -> Iterator[str]:
    """Texts of schedules, by every scheduler and number of LDS buffers; those that find none are left out."""
    bench = bench_of(subject)
    for name in SCHEDULERS:
        for buffers in BUFFERS:
            try:
                yield str(bench.solve(name, buffers=buffers).schedule)
            except CkmlirError:
                continue
