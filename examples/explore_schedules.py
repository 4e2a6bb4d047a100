"""Twenty schedules of one GEMM, checked and compared without a GPU.

    python examples/explore_schedules.py [--arch gfx942] [--seed 0] [--groups 2]

Every scheduler with one and with two LDS buffers, then legal moves taken at random from the best of them; `--groups 2`:
all for two groups of waves out of phase, whose barriers move like fragments. Each schedule is proved by the checker,
compiled, and its machine code read: registers, LDS, the share of issue slots that matrix instructions take in the
steady loop, waits, and how much of the order asked for the backend kept.
"""

import argparse
import random
import sys
from collections.abc import Iterator

from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.scheduling import (
    SchedulingError,
    Workbench,
    apply,
    evaluate,
    legal_moves,
    lower_bounds,
)
from ckmlir.targets import get_target

HOW_MANY = 20
SCHEDULERS = {False: ("source", "list", "modulo", "interleave", "four_waves"),
              True: ("source", "list", "modulo", "interleave", "ping_pong")}  # fmt: skip
"""Whether there are groups of waves -> the schedulers to try."""
BLOCKS = {False: {}, True: {"wave": "2x4", "schedule": "compv5"}}
"""The same -> keys of the GEMM."""


def found(bench: Workbench, groups: int, seed: int) -> Iterator[tuple[str, Schedule]]:
    """The kernel's own schedule, and what the schedulers find."""
    yield "own", bench.schedule
    for name in SCHEDULERS[groups > 1]:
        for buffers in (1, 2):
            try:
                solution = bench.solve(name, buffers=buffers, groups=groups, seed=seed)
                yield f"{name}, {buffers}", solution.schedule
            except SchedulingError as error:
                print(f"{name}, {buffers}: {error}")


def walk(bench: Workbench, schedule: Schedule, steps: int, chance: random.Random) -> Schedule:
    """The schedule after so many swaps of neighbours, taken at random from those that are legal."""
    for _ in range(steps):
        swaps = [move for move in legal_moves(bench.problem, schedule) if move.kind == "swap"]
        schedule = apply(schedule, chance.choice(swaps))
    return schedule


def main() -> int:
    """Tabulate the schedules; 0 when the checker proves them all."""
    parser = argparse.ArgumentParser(description="twenty schedules of one GEMM")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    parser.add_argument("--seed", type=int, default=0, help="of schedulers and moves")
    parser.add_argument("--groups", type=int, default=1, choices=(1, 2), help="of waves out of phase")
    options = parser.parse_args()
    target, gemm, chance = get_target(options.arch), find_operator("gemm"), random.Random(options.seed)
    problem = gemm.problem(m=1024, n=1024, k=1024, **BLOCKS[options.groups > 1])
    bench = Workbench.of(gemm, gemm.spec(problem, target), target)
    bounds = lower_bounds(bench.problem)
    print(f"{bench.name} for {target.name}: no step is shorter than {bounds.interval} cycles ({bounds.unit})\n")
    print(f"{'schedule':16} {'vgpr':>4} {'spill':>5} {'LDS':>6} {'instr':>5} {'mfma %':>6} {'waits':>5} {'drains':>6} "
          f"{'nops':>4} {'kept':>9}  checker")  # fmt: skip
    schedules = list(found(bench, options.groups, options.seed))
    best, share = bench.listed(bench.schedule), 0.0
    proved = True
    for number in range(HOW_MANY):
        if number < len(schedules):
            name, schedule = schedules[number]
        else:
            name, schedule = f"{number * 5} swaps", walk(bench, best, number * 5, chance)
        try:
            one = evaluate(bench, schedule)
        except CkmlirError as error:
            print(f"{name:16} refused: {str(error).splitlines()[0]}")
            continue
        if one.matrix_share > share and not one.findings and not one.spills:
            best, share = bench.listed(schedule), one.matrix_share
        loop, kept = one.loop, f"{one.fidelity.kept}/{one.fidelity.asked}"
        print(f"{name:16} {one.vector_registers:4} {one.spills:5} {one.lds_bytes:6} {sum(loop.values()):5} "
              f"{100 * one.matrix_share:6.1f} {loop['wait']:5} {one.drains:6} {loop['nop']:4} {kept:>9}  "
              f"{'; '.join(one.findings) or 'proved'}")  # fmt: skip
        proved = proved and not one.findings
    print(f"\nbest by share of matrix instructions:\n{best.pretty}")
    return 0 if proved else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CkmlirError as error:
        print(f"explore_schedules.py: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("explore_schedules.py: interrupted", file=sys.stderr)
        sys.exit(130)
