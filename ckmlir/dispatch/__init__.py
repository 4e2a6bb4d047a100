"""Which kernel computes a problem: identities of kernels, spaces of them, registries and dispatchers.

from ckmlir.dispatch import Dispatcher, Registry, Space, expand
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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

_PLACES = {
    "JUST_IN_TIME": "dispatcher",
    "Dispatcher": "dispatcher",
    "Expansion": "spaces",
    "Explanation": "registry",
    "FastestByModel": "modelled",
    "FirstFit": "policies",
    "Identifier": "identity",
    "Kernel": "identity",
    "Library": "library",
    "LibraryError": "library",
    "MissLog": "misses",
    "NoKernel": "dispatcher",
    "OperatorsChoice": "policies",
    "Policy": "policies",
    "Query": "policies",
    "Record": "records",
    "Registry": "registry",
    "Selection": "dispatcher",
    "SizeBuckets": "policies",
    "Space": "spaces",
    "Table": "policies",
    "expand": "spaces",
    "read_misses": "misses",
    "read_records": "records",
    "read_spaces": "spaces",
    "request_of": "policies",
    "space": "spaces",
    "tuned_registry": "records",
    "tuned_table": "records",
}
"""Name -> module, which is imported when the name is first asked for: most processes do without most of them."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return value
