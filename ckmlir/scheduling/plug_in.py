"""Schedulers of others (`ckmlir.plug_ins`): what they find is looked at before anybody relies on it."""

from typing import Any

from ckmlir import plug_ins
from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError
from ckmlir.scheduling.moves import objection
from ckmlir.scheduling.problem import Problem
from ckmlir.scheduling.scheduler import SchedulingError, Solution


class PlugIn:
    """A scheduler of others. Its errors say that they are the plug-in's.

    Attributes:
        name: as it is called.
    """

    def __init__(self, name: str, place: str) -> None:
        """Raises PlugInError where there is none at `module:Class`."""
        self.name = name
        found = plug_ins.load(place, "scheduler")
        if not callable(getattr(found, "solve", None)):
            raise plug_ins.PlugInError(f"scheduler {name}: it has no method solve(problem, seed=0)")
        self._scheduler: Any = self._own(found)

    def solve(self, problem: Problem, seed: int = 0) -> Solution:
        """See `Scheduler`. Raises PlugInError where the scheduler fails or its schedule is not legal."""
        found = self._own(lambda: self._scheduler.solve(problem, seed))
        if not isinstance(found, Solution) or not isinstance(found.schedule, Schedule):
            raise self._defect(f"solve gave {type(found).__name__}, expected a Solution with a Schedule")
        try:
            why = objection(problem, found.schedule)
        except Exception as error:  # whatever a plug-in's schedule makes the judge stumble over
            why = f"{type(error).__name__}: {error}"
        if why:
            raise self._defect(f"the schedule that it found is not legal: {why}")
        return found

    def _own(self, work: Any) -> Any:
        """What the plug-in's own code gives. SchedulingError means that it finds none, and passes."""
        try:
            return work()
        except SchedulingError as error:
            raise SchedulingError(f"scheduler {self.name}: {error}") from error
        except CkmlirError:
            raise
        except (Exception, SystemExit) as error:  # of the plug-in's code, which may raise anything
            raise self._defect(f"it stopped with {type(error).__name__}: {error}") from error

    def _defect(self, what: str) -> plug_ins.PlugInError:
        return plug_ins.PlugInError(f"scheduler {self.name}: {what}; this is a defect of the plug-in")
