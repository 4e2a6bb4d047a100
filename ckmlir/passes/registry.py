"""Every pass by name, and where it lives. A pass's module is imported when the pass is first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ckmlir.errors import suggest

if TYPE_CHECKING:
    from ckmlir.passes.framework import Pass

# name -> "module:Class"
PASSES: dict[str, str] = {
    "ck-infer-divisors": "ckmlir.passes.infer_divisors:InferDivisors",
    "ck-record-promises": "ckmlir.passes.record_promises:RecordPromises",
    "ck-choose-paths": "ckmlir.passes.choose_paths:ChoosePaths",
    "ck-infer-distributions": "ckmlir.passes.infer_distributions:InferDistributions",
    "ck-split-tiles": "ckmlir.passes.split_tiles:SplitTiles",
    "ck-note-accesses": "ckmlir.passes.note_accesses:NoteAccesses",
    "ck-pipeline-loops": "ckmlir.passes.pipeline_loops:PipelineLoops",
    "ck-allocate-lds": "ckmlir.passes.allocate_lds:AllocateLds",
    "ck-insert-barriers": "ckmlir.passes.insert_barriers:InsertBarriers",
    "ck-place-sched-barriers": "ckmlir.passes.place_sched_barriers:PlaceSchedBarriers",
    "ck-check-schedule": "ckmlir.passes.check_schedule:CheckSchedule",
    "ck-lower-fragments": "ckmlir.lowering.lower_fragments:LowerFragments",
}

PREFIX = "ck-"


def find_pass(name: str) -> type[Pass]:
    """The class of the pass called `name`. Raises PipelineSyntaxError when there is none."""
    from ckmlir.passes.framework import PipelineSyntaxError

    if name not in PASSES:
        raise PipelineSyntaxError(f"there is no pass {name!r}; {suggest(name, PASSES)}")
    module, _, cls = PASSES[name].partition(":")
    found: type[Pass] = getattr(importlib.import_module(module), cls)
    return found
