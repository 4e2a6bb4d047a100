"""Schedulers by name: the built-in ones, and those of others (`plug_in`)."""

import importlib

from ckmlir import plug_ins
from ckmlir.errors import suggest
from ckmlir.scheduling.plug_in import PlugIn
from ckmlir.scheduling.scheduler import Scheduler, SchedulingError

SCHEDULERS: dict[str, str] = {
    "source": "ckmlir.scheduling.source_order:SourceOrder",
    "list": "ckmlir.scheduling.list_scheduling:ListScheduling",
    "modulo": "ckmlir.scheduling.modulo:ModuloScheduling",
    "interleave": "ckmlir.scheduling.interleave:Interleave",
    "four_waves": "ckmlir.scheduling.interleave:FourWaves",
    "ping_pong": "ckmlir.scheduling.ping_pong:PingPong",
    "exact": "ckmlir.scheduling.exact:Exact",
}
"""Name -> "module:Class"."""


def find_scheduler(name: str) -> Scheduler:
    """The scheduler called `name`, or at `module:Class`.

    Raises:
        SchedulingError: no scheduler has this name.
        PlugInError: it is somebody else's, and cannot be used.
    """
    others = plug_ins.installed(plug_ins.SCHEDULERS)
    if name not in SCHEDULERS and (plug_ins.is_place(name) or name in others):
        return PlugIn(name, others.get(name, name))
    if name not in SCHEDULERS:
        raise SchedulingError(f"unknown scheduler '{name}'; {suggest(name, [*SCHEDULERS, *others])}")
    module, _, cls = SCHEDULERS[name].partition(":")
    scheduler: Scheduler = getattr(importlib.import_module(module), cls)()
    return scheduler
