"""Libraries: compiled kernels in one file, with what is known of them.

    with Library.load("lib.ckl").attached() as library:
        chosen = Dispatcher(library.registry(), gfx942, strict=True).select("gemm", m=1000)

A library is a line of JSON, a manifest (JSON) and code objects behind each other. The first line says how long the
manifest is and its digest; the manifest has, for every kernel, its identity, where its code object lies, the digest of
that, its resources, and what static checks found. So a file that is damaged, cut off, newer or none of ours is refused
with the reason, and loading costs the manifest only.

Code objects run as they are: neither MLIR nor LLVM is asked, nor are this package's sources, which may have changed.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.digests import sha256
from ckmlir.dispatch.identity import Find, Kernel
from ckmlir.dispatch.reading import check_schema, fields_of
from ckmlir.dispatch.registry import Registry
from ckmlir.errors import CkmlirError, from_json
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator
from ckmlir.ops.request import RequestError
from ckmlir.ops.spec import Spec
from ckmlir.runtime.compile_cache import consult, consult_no_more
from ckmlir.targets import Target

if TYPE_CHECKING:
    from pathlib import Path

KIND = "ckmlir library"
_LINE = {KIND: int, "manifest": int, "content": int, "sha256": str}
_ROW = {
    "kernel": dict, "symbol": str, "offset": int, "size": int, "sha256": str, "resources": dict, "checks": dict,
}  # fmt: skip


class LibraryError(CkmlirError):
    """A file is not a library, is damaged or too new, or lacks a kernel; the text says which."""


class Library:
    """A library that was loaded.

    Attributes:
        path: of the file.
        toolchain: what made it: versions, as text.
    """

    def __init__(self, path: str, manifest: Mapping[str, Any], start: int, end: int) -> None:
        self.path = path
        self.toolchain: Mapping[str, str] = manifest["toolchain"]
        self._start, self._end = start, end  # of the code objects
        self._rows: dict[str, dict[str, Any]] = {}
        for row in manifest["kernels"]:
            try:
                self._rows[row["kernel"]["identifier"]] = row
            except (KeyError, TypeError):
                raise LibraryError(f"{path}: an entry of the manifest has no identifier") from None

    @staticmethod
    def load(path: str | Path) -> Library:
        """Read a file's manifest.

        Raises:
            LibraryError: the file cannot be read, is none of ours, is damaged, cut off or too new.
        """
        try:
            path = os.fspath(path)
        except TypeError:
            raise LibraryError(f"a library is read from a path, got {path!r:.80}") from None
        try:
            with open(path, "rb") as file:
                line = file.readline(4096)
                header = _header(path, line)
                start = len(line) + header["manifest"]
                whole, size = start + header["content"], os.fstat(file.fileno()).st_size
                if size != whole:
                    what = "cut off" if size < whole else "longer than it says"
                    raise LibraryError(f"{path} is {what}: {size} bytes instead of {whole}")
                manifest = file.read(header["manifest"])
        except OSError as error:
            raise LibraryError(f"cannot read {path}: {error.strerror or error}") from None
        if sha256(manifest) != header["sha256"]:
            raise LibraryError(f"{path} is damaged: its manifest has another digest than it says")
        try:
            with _nothing_collected():
                found = fields_of(from_json(manifest), "manifest", {"toolchain": dict, "kernels": list})
        except ValueError as error:  # RequestError among them
            raise LibraryError(f"{path}: {error}") from None
        return Library(path, found, start, whole)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        """The identifiers of its kernels, sorted."""
        return iter(self._rows)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._rows

    def registry(self, *, find: Find = find_operator, partial: bool = False) -> Registry:
        """Its kernels, to choose from.

        Raises LibraryError for a kernel that this version does not know, unless a `partial` registry is wanted.
        """
        registry = Registry(name=os.path.basename(self.path))
        for identifier, row in self._rows.items():
            try:
                registry.add(Kernel.from_dict(row["kernel"], find, older=True))
            except RequestError as error:
                if not partial:
                    raise LibraryError(f"{self.path}: {identifier}: {error}") from None
        return registry

    def described(self, identifier: str) -> Mapping[str, Any]:
        """What the manifest says of a kernel: resources and checks too. Raises LibraryError where it is not here."""
        row = self._rows.get(identifier)
        if row is None:
            raise LibraryError(f"{self.path}: there is no kernel {identifier} in it")
        try:
            return fields_of(row, identifier, _ROW)
        except RequestError as error:
            raise LibraryError(f"{self.path}: {error}") from None

    def compiled(self, identifier: str) -> CompiledKernel:
        """A kernel's code object. Raises LibraryError where it is not here, or its bytes are others than they were."""
        row = self.described(identifier)
        first = self._start + row["offset"]
        if not self._start <= first <= first + row["size"] <= self._end:
            raise LibraryError(f"{self.path} is damaged: the code object of {identifier} lies outside of it")
        try:
            with open(self.path, "rb") as file:
                file.seek(first)
                code = file.read(row["size"])
        except OSError as error:
            raise LibraryError(f"cannot read {self.path}: {error.strerror or error}") from None
        if sha256(code) != row["sha256"]:
            raise LibraryError(f"{self.path} is damaged: the code object of {identifier} has another digest")
        return CompiledKernel(code, row["symbol"], row["kernel"]["arch"])

    def find(self, operator: Operator[Any, Any], spec: Spec, target: Target) -> CompiledKernel | None:
        """The code object of a specification, None where it is not here. Raises LibraryError as `compiled`."""
        identifier = Kernel(operator, spec, target).identifier
        return self.compiled(identifier) if identifier in self._rows else None

    @contextlib.contextmanager
    def attached(self) -> Iterator[Library]:
        """Have everybody in this process take kernels from here instead of compiling them, in a `with` block."""
        self.attach()
        try:
            yield self
        finally:
            self.detach()

    def attach(self) -> None:
        """The same from now on. Libraries that were attached later are asked first."""
        consult(self._found)

    def detach(self) -> None:
        """No more. Kernels that were loaded stay loaded."""
        consult_no_more(self._found)

    @cached_property
    def _found(self) -> Any:
        return self.find  # the same object each time


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """No search for garbage in a `with` block: there is none in what a file is read to, and looking through the objects
    of ten thousand kernels again and again takes longer than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _header(path: str, line: bytes) -> dict[str, Any]:
    try:
        values = from_json(line)
    except ValueError:
        values = None
    if not isinstance(values, dict) or KIND not in values:
        raise LibraryError(f"{path} is not a library of kernels: its first line is another one")
    try:
        if isinstance(values[KIND], int):
            check_schema(values[KIND], path)
        header = fields_of(values, path, _LINE)
    except RequestError as error:
        raise LibraryError(str(error)) from None
    for part in ("manifest", "content"):
        if header[part] < 0:
            raise LibraryError(f"{path}: {part}={header[part]}: expected a number of bytes")
    return header
