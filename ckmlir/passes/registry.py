"""Every pass by name, and where it lives. A pass's module is imported when the pass is first asked for.

Passes of others (`ckmlir.plug_ins`) are called `module:Class`, or by the names that installed packages give them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ckmlir import plug_ins
from ckmlir.errors import suggest

if TYPE_CHECKING:
    from ckmlir.passes.framework import Pass

# name -> "module:Class"
PASSES: dict[str, str] = {
    "ck-infer-divisors": "ckmlir.passes.infer_divisors:InferDivisors",
    "ck-record-promises": "ckmlir.passes.record_promises:RecordPromises",
    "ck-turn-reads": "ckmlir.passes.turn_reads:TurnReads",
    "ck-choose-paths": "ckmlir.passes.choose_paths:ChoosePaths",
    "ck-infer-distributions": "ckmlir.passes.infer_distributions:InferDistributions",
    "ck-split-tiles": "ckmlir.passes.split_tiles:SplitTiles",
    "ck-note-accesses": "ckmlir.passes.note_accesses:NoteAccesses",
    "ck-carry-digits": "ckmlir.passes.carry_digits:CarryDigits",
    "ck-pipeline-loops": "ckmlir.passes.pipeline_loops:PipelineLoops",
    "ck-allocate-lds": "ckmlir.passes.allocate_lds:AllocateLds",
    "ck-insert-barriers": "ckmlir.passes.insert_barriers:InsertBarriers",
    "ck-place-sched-barriers": "ckmlir.passes.place_sched_barriers:PlaceSchedBarriers",
    "ck-split-at-edges": "ckmlir.passes.split_at_edges:SplitAtEdges",
    "ck-split-at-carries": "ckmlir.passes.split_at_carries:SplitAtCarries",
    "ck-check-schedule": "ckmlir.passes.check_schedule:CheckSchedule",
    "ck-lower-fragments": "ckmlir.lowering.lower_fragments:LowerFragments",
    "ck-reload-arguments": "ckmlir.lowering.reload_arguments:ReloadArguments",
    "ck-settle-scalars": "ckmlir.lowering.settle_scalars:SettleScalars",
    "ck-settle-loads": "ckmlir.lowering.settle_loads:SettleLoads",
}

PREFIX = plug_ins.OWN


def is_known(name: str) -> bool:
    """Whether a name is that of a pass here, or has the form of one: the other passes are MLIR's."""
    return name.startswith(PREFIX) or plug_ins.is_place(name) or name in plug_ins.installed(plug_ins.PASSES)


def find_pass(name: str) -> type[Pass]:
    """The class of the pass called `name`.

    Raises:
        PipelineSyntaxError: there is none.
        PlugInError: it is somebody else's, and cannot be used.
    """
    from ckmlir.passes.framework import PipelineSyntaxError

    if name in PASSES:  # no name of a plug-in is among them, and looking for plug-ins takes a while
        module, _, cls = PASSES[name].partition(":")
        found: type[Pass] = getattr(importlib.import_module(module), cls)
        return found
    place = name if plug_ins.is_place(name) else plug_ins.installed(plug_ins.PASSES).get(name)
    if place is None:
        raise PipelineSyntaxError(f"there is no pass {name!r}; {suggest(name, PASSES)}")
    return _plug_in(name, place)


def _plug_in(name: str, place: str) -> type[Pass]:
    """A pass of others, as it is called. Raises PlugInError for a class that is not a pass."""
    from ckmlir.passes.framework import Pass, defect_of

    found: type[Pass] = plug_ins.load(place, "pass")
    if not issubclass(found, Pass):
        raise plug_ins.PlugInError(f"pass {name}: expected a subclass of ckmlir.passes.framework.Pass")
    defect = defect_of(found)
    if defect:
        raise plug_ins.PlugInError(f"pass {name}: {defect}")
    found.called = name
    return found
