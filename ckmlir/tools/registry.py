"""`ckmlir registry`: what kernels files hold, why they do not compute a problem, and registries made of others.

Files are libraries, registries (JSON), spaces (JSON) or what tuning found (.jsonl), of which the fastest kernels count.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.library import Library
from ckmlir.dispatch.reading import of_file, read_json
from ckmlir.dispatch.records import read_records, tuned_registry
from ckmlir.dispatch.registry import Registry
from ckmlir.dispatch.spaces import expand, read_spaces
from ckmlir.errors import CkmlirError, counted
from ckmlir.files import check_writable, write_file
from ckmlir.ops import find_operator
from ckmlir.ops.operator import require_valid
from ckmlir.ops.request import parse_assignments
from ckmlir.tools.cli import Parser
from ckmlir.tools.request import find_target

RECORDS = ".jsonl"
"""How files of records are called: all others are told by what is in them."""

ACTIONS = {
    "show": "how many kernels of what, and with --all their identifiers",
    "export": "write a registry: the kernels of FILE, or of several",
    "import": "add the kernels of FILE, or of several, to the registry of -o, which is made where there is none",
    "merge": "as export; where a kernel is in several files, the first one's priority counts",
    "diff": "kernels that are in only one of two files; exit status 1 if there are any",
    "explain": "for FILE OP key=value … --arch A: which kernels compute the problem, and what is against the others",
}
WRITE = ("export", "import", "merge")


def add_arguments(parser: Parser) -> None:
    listed = "\n".join(f"  {name:<9}{what}" for name, what in ACTIONS.items())
    parser.epilog = f"actions:\n{listed}\n\nFiles are libraries, registries and spaces (JSON), records (.jsonl)."
    add = parser.add_argument
    add("action", choices=tuple(ACTIONS), metavar="ACTION", help="see below")
    add("words", nargs="+", metavar="FILE", help="files, and for explain the operator and its keys")
    add("-o", dest="output", metavar="FILE", type=Path, help="of export, import and merge: the registry, JSON")
    add("--arch", metavar="A", help="the chip; of explain needed, else only kernels of it")
    add("--op", metavar="OP", help="only kernels of this operator")
    add("--all", action="store_true", help="of show: every kernel")
    add("--partial", action="store_true", help="take what can be read of files of which not all can")


def execute(options: argparse.Namespace) -> int:
    if options.output is not None and options.action not in WRITE:
        raise CkmlirError(f"-o {options.output}: {options.action} writes nothing; leave it out")
    return _DONE[options.action](options)


def open_registry(path: Path, *, partial: bool = False) -> Registry:
    """The kernels of a library, registry or space, or the fastest of records. Raises CkmlirError for another file."""
    try:
        with path.open("rb") as file:
            beginning = file.read(64)
    except OSError as error:
        raise CkmlirError(f"cannot read {path}: {error.strerror or error}") from None
    if beginning.startswith(b'{"ckmlir library"'):
        return Library.load(path).registry(partial=partial)
    if path.suffix == RECORDS:
        return tuned_registry(read_records(path, partial=partial))
    values = read_json(path)
    if isinstance(values, dict) and "kernels" in values:
        with of_file(path):
            return Registry.from_dict(values, partial=partial)
    return Registry(expand(read_spaces(path)).kernels, name=path.name)


def _opened(options: argparse.Namespace, word: str) -> Registry:
    found = open_registry(Path(word), partial=options.partial)
    target = find_target(options.arch).name if options.arch else None
    return found.filter(operator=options.op, target=target)


def _show(options: argparse.Namespace) -> int:
    for word in options.words:
        registry = _opened(options, word)
        found = registry.statistics()
        kernels, signatures = counted(found["kernels"], "kernel"), counted(found["signatures"], "signature")
        parts = [f"{count} of {name}" for kind in ("operators", "chips") for name, count in found[kind].items()]
        print(f"{word}: {kernels} of {signatures}: {', '.join(parts) or 'none'}")
        for kernel in registry if options.all else ():
            print(f"  {kernel}")
    return 0


def _write(options: argparse.Namespace) -> int:
    if options.output is None:
        raise CkmlirError(f"{options.action}: -o FILE is missing, the registry to write")
    check_writable([options.output])
    given = [_opened(options, word) for word in options.words]
    if not any(map(len, given)) and not options.partial:
        raise CkmlirError(f"no kernel is left to {options.action}; --partial allows that")
    whole = Registry(name=options.output.stem)
    if options.action == "import" and options.output.exists():  # what is there keeps its place and its priority
        given.insert(0, open_registry(options.output, partial=options.partial))
    for registry in given:
        for entry in registry.entries(in_order_of_addition=True):
            if entry.kernel not in whole:
                whole.add(entry.kernel, entry.priority)
    write_file(options.output, json.dumps(whole.to_dict(), indent=1).encode() + b"\n")
    print(f"{options.output}: {counted(len(whole), 'kernel')}")
    return 0


def _diff(options: argparse.Namespace) -> int:
    if len(options.words) != 2:
        raise CkmlirError(f"diff: {len(options.words)} files; expected two")
    first, second = (_opened(options, word) for word in options.words)
    only = [(sign, one) for sign, a, b in (("-", first, second), ("+", second, first)) for one in a if one not in b]
    for sign, kernel in only:
        print(f"{sign} {kernel}")
    return 1 if only else 0


def _explain(options: argparse.Namespace) -> int:
    if len(options.words) < 2 or not options.arch:
        raise CkmlirError("explain: expected FILE OP key=value … --arch A")
    file, name, *keys = options.words
    operator, target = find_operator(name), find_target(options.arch)
    problem = operator.problem(**parse_assignments(keys))
    spec = operator.spec(problem, target)
    require_valid(operator, spec, target)
    registry = open_registry(Path(file), partial=options.partial)
    print(registry.explain(operator, problem, target))
    own = Kernel(operator, spec, target)
    print(f"the operator's own choice, {own}, is {'among them' if own in registry else 'not among them'}")
    return 0


_DONE = {"show": _show, **dict.fromkeys(WRITE, _write), "diff": _diff, "explain": _explain}
