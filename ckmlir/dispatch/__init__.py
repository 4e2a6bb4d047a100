"""Which kernel computes a problem: identities of kernels, spaces of them, registries and dispatchers.

from ckmlir.dispatch import Dispatcher, Registry, Space, expand
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckmlir.deferred import deferred

if TYPE_CHECKING:
    from ckmlir.dispatch.dispatcher import JUST_IN_TIME, Dispatcher, NoKernel, Selection
    from ckmlir.dispatch.identity import Identifier, Kernel
    from ckmlir.dispatch.library import Library, LibraryError
    from ckmlir.dispatch.misses import MissLog, read_misses
    from ckmlir.dispatch.modelled import FastestByModel
    from ckmlir.dispatch.policies import FirstFit, OperatorsChoice, Policy, Query, SizeBuckets, Table, request_of
    from ckmlir.dispatch.records import Record, read_records, tuned_registry, tuned_table
    from ckmlir.dispatch.registry import Explanation, Registry
    from ckmlir.dispatch.spaces import Expansion, Space, expand, read_spaces, space

__all__ = [
    "JUST_IN_TIME",
    "Dispatcher",
    "Expansion",
    "Explanation",
    "FastestByModel",
    "FirstFit",
    "Identifier",
    "Kernel",
    "Library",
    "LibraryError",
    "MissLog",
    "NoKernel",
    "OperatorsChoice",
    "Policy",
    "Query",
    "Record",
    "Registry",
    "Selection",
    "SizeBuckets",
    "Space",
    "Table",
    "expand",
    "read_misses",
    "read_records",
    "read_spaces",
    "request_of",
    "space",
    "tuned_registry",
    "tuned_table",
]

# Most processes do without most of them.
__getattr__ = deferred(
    __name__,
    {
        "dispatcher": "Dispatcher JUST_IN_TIME NoKernel Selection",
        "identity": "Identifier Kernel",
        "library": "Library LibraryError",
        "misses": "MissLog read_misses",
        "modelled": "FastestByModel",
        "policies": "FirstFit OperatorsChoice Policy Query SizeBuckets Table request_of",
        "records": "Record read_records tuned_registry tuned_table",
        "registry": "Explanation Registry",
        "spaces": "Expansion Space expand read_spaces space",
    },
)
