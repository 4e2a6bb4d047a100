"""A faster schedule for one GEMM, looked for without a GPU.

    python examples/search_schedule.py [key=value …] [--arch gfx942] [--seen 600] [--records FILE] [-o best.schedule]

Legal moves, taken from the kernel's own schedule and from what schedulers find; a model of the step before LLVM; LLVM,
the proof and the full model for the best of them. What is found out is kept in the file of records: a search that was
ended goes on where it was, and one with a larger --seen on from there. --on dask://host:port has a Dask cluster do it.

The best schedule is adopted if its launch takes at least --gain per cent less time by the model and nothing speaks
against it (`confirm`: proof, spills, waits, wait states, numbers under all checkers): it is written out under a name of
its own, for `ckmlir … --schedule FILE` and for a table of named schedules. Exit status 1: nothing was adopted; 2: a bad
request; 130: it was interrupted.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.runtime.calls import LOCAL, open_workers
from ckmlir.scheduling.candidates import Subject, bench_of, confirm
from ckmlir.scheduling.search import Search
from ckmlir.scheduling.starts import starts

KEYS = ["m=4096", "n=4096", "k=2048", "block=256x128x64"]


def main() -> int:
    """Search, and adopt what is worth it."""
    parser = argparse.ArgumentParser(description="a faster schedule for one GEMM")
    parser.add_argument("keys", nargs="*", default=KEYS, help=f"of the GEMM [{' '.join(KEYS)}]")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    parser.add_argument("--seen", type=int, default=600, help="schedules to look at before LLVM")
    parser.add_argument("--records", type=Path, default=Path("search.jsonl"), help="what is found out")
    parser.add_argument("--on", default=LOCAL, help="who works: local, or dask://host:port")
    parser.add_argument("--jobs", type=int, help="processes here [one for each processor]")
    parser.add_argument("--gain", type=float, default=4.0, help="per cent that an adopted schedule saves at least")
    parser.add_argument("--name", default="found", help="of the adopted schedule")
    parser.add_argument("-o", "--output", type=Path, help="its file")
    options = parser.parse_args()
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: expected at least 1")
    keys = tuple((name, value) for name, _, value in (text.partition("=") for text in options.keys))
    subject = Subject("gemm", keys, options.arch)
    bench = bench_of(subject)
    with open_workers(options.on, options.jobs) as workers:
        search = Search(subject, str(bench.schedule), options.records, workers, report=print)
        search.run(starts(subject), options.seen, bench.problem.limits.vector_registers)
    found = search.found
    text, best = found.best()[0]
    own = found.judged[search.own]
    gain = 100 * (1 - best.launch / own.launch)
    print(f"{len(found.looked) + len(found.refused)} schedules seen, {len(found.judged)} compiled, "
          f"{found.resumed} answers known before")  # fmt: skip
    print(f"{own.launch:.0f} cycles with the kernel's own schedule, {best.launch:.0f} with the best: {gain:.1f} % less")
    against = confirm(subject, text) if gain >= options.gain else [f"it saves less than {options.gain:g} %"]
    if against:
        print("not adopted: " + "; ".join(against))
        return 1
    adopted = replace(Schedule.parse(text), name=options.name)
    print(f"adopted as {options.name}:\n{adopted.pretty}")
    if options.output is not None:
        options.output.write_text(adopted.pretty)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CkmlirError as error:
        print(f"search_schedule.py: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("search_schedule.py: interrupted; a search with these records goes on here", file=sys.stderr)
        sys.exit(130)
