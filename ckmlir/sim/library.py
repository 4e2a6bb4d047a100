"""The library of compiled handlers: made when first needed, kept in memory for the process and on disk for the next
one.

On disk: `$XDG_CACHE_HOME/ckmlir/simulator/<key>/`, one file a batch of handlers, each a line of JSON with the names of
its handlers and a digest, then a relocatable object. The key covers the processor and its features, llvmlite, LLVM,
Python's byte order and the source of this package, so a stale file is never found; a damaged one, which LLVM would
crash on, is known by its digest, and goes. Files are written beside and renamed into place, and found by processes that
have begun before. CKMLIR_CACHE=off leaves the disk alone; with CKMLIR_CACHE=simulator these files are all that is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ckmlir import files
from ckmlir.errors import from_json
from ckmlir.sim import cross_lane, processor
from ckmlir.sim.access import helper_texts
from ckmlir.sim.checks import observe
from ckmlir.sim.checks.shadow_memory import SHADOW_PLACES
from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.processor import Processor
from ckmlir.sim.run_time_functions import defined_functions
from ckmlir.sim.scheduler import SCHEDULER

_CTTZ = "declare i64 @llvm.cttz.i64(i64, i1 immarg)\n"
_DECLARED_BY_HELPERS = {
    "declare i64 @llvm.ctpop.i64(i64)",
    "declare i64 @llvm.umax.i64(i64, i64)",
    "declare i64 @llvm.umin.i64(i64, i64)",
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
    "declare i64 @llvm.vector.reduce.or.v64i64(<64 x i64>)",
}
# Nothing after a handler needs its frame: no unwinding, no stack protector; vzeroupper would cost a few cycles an
# instruction and only matters on the way back to Python.
_ATTRIBUTES = "attributes #0 = { nounwind }\nattributes #1 = { nounwind noinline }\n"

_DECLARATION = re.compile(r"^declare .*$", re.MULTILINE)
_RUNTIME_CALL = re.compile(rb"\0(__[a-z]+[sdthx]f[a-z]*\d)\0")  # such as __truncdfhf2, in the object's string table


def handler_symbol(key: HandlerKey) -> str:
    """The linker name of a handler: readable, and unique through a digest of the whole key."""
    digest = hashlib.blake2b(str(key).encode(), digest_size=8).hexdigest()
    return f"ckmlir_{key.mnemonic}_{digest}"


@lru_cache(maxsize=1)
def _native_target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def target_machine(made_for: Processor) -> Any:
    """A target machine. A new one each time, because an execution engine takes ownership of its own."""
    return _native_target().create_target_machine(
        cpu=made_for.cpu, features=made_for.feature_text, opt=2, codemodel="jitdefault", jit=True
    )


def _helpers_for(text: str) -> str:
    """The helper functions that a text calls, with those that they call."""
    available = {**helper_texts(), **cross_lane.HELPERS, **observe.helper_texts()}
    available["shadow_places"] = SHADOW_PLACES
    wanted, pending = {}, [text]
    while pending:
        for name in re.findall(r"call \w+ @([a-z]\w+)\(", pending.pop()):
            if name in available and name not in wanted:
                wanted[name] = available[name]
                pending.append(available[name])
    return "".join(wanted.values())


def module_text(keys: Iterable[HandlerKey]) -> str:
    """The LLVM module with the handlers of these keys."""
    from ckmlir.sim.selection import emit

    functions, declarations = [], set(_DECLARED_BY_HELPERS)
    for key in keys:
        text, needed = emit(key, handler_symbol(key))
        functions.append(text)
        declarations |= needed
    body = "\n".join(functions)
    helpers = _helpers_for(body)
    declarations |= set(_DECLARATION.findall(helpers))  # a module may declare a function once
    declared = "".join(f"{line}\n" for line in sorted(declarations) if "@llvm.cttz.i64(" not in line)
    return f"{_CTTZ}{declared}{_ATTRIBUTES}{_DECLARATION.sub('', helpers)}{body}"


def compile_object(text: str, made_for: Processor) -> bytes:
    """A relocatable object of an LLVM module's text."""
    functions = defined_functions(made_for)
    module = llvm.parse_assembly(text + "".join(functions.values()))
    module.verify()
    compiled = bytes(target_machine(made_for).emit_object(module))
    missing = {name.decode() for name in _RUNTIME_CALL.findall(compiled)} - set(functions)
    if missing:
        raise RuntimeError(f"handlers need the compiler's run-time functions {sorted(missing)}, which are not linked")
    return compiled


class HandlerLibrary:
    """Addresses of compiled handlers by key; compiles and loads what is missing."""

    def __init__(self, directory: Path | None, made_for: Processor | None = None) -> None:
        self.directory = directory
        self.processor = made_for or processor.chosen()
        self._addresses: dict[str, int] = {}
        self._engines: list[Any] = []  # they own the code
        self.compiled = 0  # handlers compiled by this process
        self._on_disk: dict[str, tuple[Path, list[str]]] = {}  # handler -> the file that has it, the file's handlers
        self._seen: set[str] = set()  # names of files

    def _look(self) -> None:
        """Note the files that are new since the directory was looked into: other processes write there too."""
        if self.directory is None:
            return
        try:
            names = sorted({name for name in os.listdir(self.directory) if name.endswith(".handlers")} - self._seen)
        except OSError:
            return
        self._seen.update(names)
        for path in map(self.directory.joinpath, names):
            try:
                with path.open("rb") as file:
                    handlers = from_json(file.readline())["handlers"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            self._on_disk.update((handler, (path, handlers)) for handler in handlers)

    def addresses(self, keys: Iterable[HandlerKey]) -> dict[HandlerKey, int]:
        """The entry address of each handler."""
        wanted = {key: handler_symbol(key) for key in keys}
        self._load_from_disk(wanted.values())
        missing = {symbol: key for key, symbol in wanted.items() if symbol not in self._addresses}
        if missing:
            compiled = compile_object(module_text(missing.values()), self.processor)
            self.compiled += len(missing)
            self._store(list(missing), compiled)
            self._link(compiled, list(missing))
        return {key: self._addresses[symbol] for key, symbol in wanted.items()}

    def scheduler(self) -> int:
        """The address of the function that runs a workgroup."""
        name = "ckmlir_run_workgroups"
        self._load_from_disk([name])
        if name not in self._addresses:
            compiled = compile_object(SCHEDULER, self.processor)
            self._store([name], compiled)
            self._link(compiled, [name])
        return self._addresses[name]

    def _link(self, compiled: bytes, symbols: list[str]) -> None:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(self.processor))
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(compiled))
        engine.finalize_object()
        self._engines.append(engine)
        for symbol in symbols:
            address = engine.get_function_address(symbol)
            if not address:
                raise RuntimeError(f"handler {symbol} is missing from its object")
            self._addresses[symbol] = address

    def _load_from_disk(self, symbols: Iterable[str]) -> None:
        """Load the files that have those of the handlers which are not there."""
        missing = [symbol for symbol in symbols if symbol not in self._addresses]
        if any(symbol not in self._on_disk for symbol in missing):
            self._look()
        for symbol in missing:
            if symbol in self._addresses or symbol not in self._on_disk:
                continue
            path, names = self._on_disk[symbol]
            try:
                header, compiled = files.read_with_digest(path)
                if header["handlers"] != names:
                    raise ValueError(f"{path} is another than it was")
                self._link(compiled, names)
            except (OSError, ValueError) as error:
                if isinstance(error, ValueError):
                    path.unlink(missing_ok=True)
                for name in names:
                    self._on_disk.pop(name, None)

    def _store(self, symbols: list[str], compiled: bytes) -> None:
        """Keep a batch on disk. Failing to is not an error: the cache only saves time."""
        if self.directory is None:
            return
        name = hashlib.blake2b(json.dumps(symbols).encode(), digest_size=12).hexdigest() + ".handlers"
        try:
            if not self.directory.exists():
                self.directory.mkdir(parents=True, exist_ok=True)
                _remove_old(self.directory.parent)
            files.write_with_digest(self.directory / name, {"handlers": symbols}, compiled)
        except OSError:
            return


def _remove_old(root: Path) -> None:
    """Remove what earlier versions left: configurations not written for 30 days."""
    limit = time.time() - 30 * 86400
    for directory in root.iterdir():
        if directory.is_dir() and directory.stat().st_mtime < limit:
            shutil.rmtree(directory, ignore_errors=True)


def _source_of_handlers() -> bytes:
    """The source that handlers are made by, in one piece: it is read whenever a process starts to simulate."""
    package = os.path.dirname(__file__)
    folders = [os.path.join(package, part) for part in ("", "semantics", "checks")]
    paths = sorted(os.path.join(folder, name) for folder in folders for name in os.listdir(folder))
    contents = []
    for path in paths:
        if path.endswith(".py"):
            with open(path, "rb", buffering=0) as file:
                contents += [os.path.basename(path).encode(), file.read()]
    return b"".join(contents)


def cache_directory() -> Path | None:
    """Where this configuration keeps its handlers, or None if the disk cache is off."""
    if not files.keeps_machine_code():
        return None
    made_for, digest = processor.chosen(), hashlib.blake2b(digest_size=12)
    for item in (sys.byteorder, llvmlite.__version__, str(llvm.llvm_version_info), made_for.cpu, made_for.feature_text):
        digest.update(f"{item}\0".encode())
    digest.update(_source_of_handlers())
    return files.cache_directory() / "simulator" / digest.hexdigest()


@lru_cache(maxsize=1)
def library() -> HandlerLibrary:
    """The process's handler library. Raises CkmlirError for settings that make no sense."""
    return HandlerLibrary(cache_directory())
