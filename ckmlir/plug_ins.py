"""Passes and schedulers that others wrote: found as `module:Class`, or by a name that an installed package gives them.

    [project.entry-points."ckmlir.passes"]
    acme-more-buffers = "acme.buffers:MoreBuffers"

Modules are looked for where Python looks, and behind that in the working directory. Whatever goes wrong in one is
called the plug-in's.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from typing import Any

from ckmlir.errors import CkmlirError

PASSES = "ckmlir.passes"
SCHEDULERS = "ckmlir.schedulers"
"""Groups of entry points."""

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
OWN = "ck-"
"""Names that begin so are this project's."""


class PlugInError(CkmlirError):
    """A plug-in cannot be used: the text names it and says why."""


def is_place(text: str) -> bool:
    """Whether a name is of the form module:Class."""
    return PLACE.fullmatch(text) is not None


@functools.cache
def installed(group: str) -> dict[str, str]:
    """Name -> `module:Class` of the plug-ins that installed packages have in a group. Nothing is imported."""
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    return {one.name: one.value for one in found if not one.name.startswith(OWN)}


def load(place: str, what: str) -> Any:
    """The class at `module:Class`; `what` it is to be, in a word, for messages.

    Raises:
        PlugInError: there is no such module or class, or importing it fails.
    """
    module, _, name = place.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        missing = error.name or module
        why = "there is no such module" if module.startswith(missing) else f"it needs the module {missing}"
        raise PlugInError(f"{what} {place}: {why}; looked in {here} and where Python looks (PYTHONPATH)") from None
    except AttributeError as error:
        raise PlugInError(f"{what} {place}: {error}") from error
    except (Exception, SystemExit) as error:  # importing a module runs it, which may raise anything
        raise PlugInError(f"{what} {place}: its module stops with {type(error).__name__}: {error}") from error
    if not isinstance(found, type):
        raise PlugInError(f"{what} {place}: expected a class, got {type(found).__name__}")
    return found


def folder_of(place: str) -> str:
    """What has to be in PYTHONPATH so that a plug-in is found; "" where Python finds it anyway."""
    module = place.partition(":")[0]
    file: str | None = getattr(sys.modules.get(module), "__file__", None)
    if file is None or "site-packages" in file:
        return ""
    for _ in range(module.count(".") + 1 + file.endswith("__init__.py")):
        file = os.path.dirname(os.path.abspath(file))
    return file
