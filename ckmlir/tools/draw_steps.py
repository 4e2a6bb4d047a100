"""What runs ahead of what in a steady loop, drawn from the order that is lowered."""

from __future__ import annotations

from ckmlir.dialect.schedule import Schedule
from ckmlir.scheduling import Workbench
from ckmlir.scheduling.steps import WHOLE, Entry, Place, entries_of
from ckmlir.tools.grid_drawing import Cell, Grid


def draw_schedule(bench: Workbench, schedule: Schedule, steps: int) -> Grid:
    """Time downwards, iterations to the right: each line is what stands together in a step, under its iteration.

    Raises:
        PipelineFailure, ValueError: the loop has no such stages or fragments.
    """
    runs = _runs(entries_of(bench.listed(schedule)))
    most = max((run[0].ahead for run in runs if isinstance(run[0], Place)), default=0)
    stages = list(dict.fromkeys(run[0].stage for run in runs if isinstance(run[0], Place)))
    rows: list[str] = []
    cells: dict[tuple[int, int], Cell] = {}
    for step in range(steps):
        for run in runs:
            row, first = len(rows), run[0]
            rows.append(f"step {_later(step)}" if run is runs[0] else "")
            if isinstance(first, Place):
                about = f"{first.stage} of iteration {_later(step + first.ahead)}, while step {_later(step)} runs"
                cells[row, step + first.ahead] = Cell(_label(run), stages.index(first.stage), about)
            else:
                for column in range(most + steps):
                    cells[row, column] = Cell(f"{first}", None, "between fragments, for all iterations")
    columns = tuple(f"iteration {_later(one)}" for one in range(most + steps))
    notes = (f"{schedule}", "stage.numbers of its fragments; those of later iterations run ahead")
    return Grid(f"{bench.name} for {bench.target.name}", "time", tuple(rows), columns, cells, notes)


def _runs(entries: list[Entry]) -> list[list[Entry]]:
    """Neighbours of one stage and iteration together, in their order."""
    runs: list[list[Entry]] = []
    for one in entries:
        before = runs[-1][-1] if runs else None
        if isinstance(one, Place) and isinstance(before, Place) and before[::2] == one[::2]:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _label(run: list[Entry]) -> str:
    places = [one for one in run if isinstance(one, Place)]
    stage, first, last = places[0].stage, places[0].number, places[-1].number
    if first == WHOLE:
        return stage
    if [one.number for one in places] != list(range(first, last + 1)):
        return f"{stage}.{','.join(str(one.number) for one in places)}"
    return f"{stage}.{first}" if first == last else f"{stage}.{first}-{last}"


def _later(number: int) -> str:
    return "n" if number == 0 else f"n+{number}"
