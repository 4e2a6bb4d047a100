"""Schedules as a field of research: problems, bounds, schedulers, moves, evaluation.

    from ckmlir.scheduling import Workbench, evaluate, find_scheduler, legal_moves

`problem` is the data, `loops` takes it from IR, `bounds` says what no schedule can beat, `schedulers` lists those there
are, one a file; `phases` cuts what they find into phases for groups of waves; `graph` and `moves` change schedules
legally; `workbench` compiles a kernel under any schedule and `evaluate` reads off what it led to, with `fidelity` to
what the backend kept; `lds` reports on a kernel's LDS.
"""

from ckmlir.scheduling.bounds import Bounds, lower_bounds
from ckmlir.scheduling.evaluate import Evaluation, evaluate
from ckmlir.scheduling.fidelity import Fidelity, fidelity
from ckmlir.scheduling.lds import lds_report
from ckmlir.scheduling.moves import Move, apply, legal_moves, objection
from ckmlir.scheduling.problem import Problem, ProblemError
from ckmlir.scheduling.scheduler import Scheduler, SchedulingError, Solution
from ckmlir.scheduling.schedulers import SCHEDULERS, find_scheduler
from ckmlir.scheduling.workbench import Scheduled, Workbench

__all__ = [
    "SCHEDULERS",
    "Bounds",
    "Evaluation",
    "Fidelity",
    "Move",
    "Problem",
    "ProblemError",
    "Scheduled",
    "Scheduler",
    "SchedulingError",
    "Solution",
    "Workbench",
    "apply",
    "evaluate",
    "fidelity",
    "find_scheduler",
    "lds_report",
    "legal_moves",
    "lower_bounds",
    "objection",
]
