"""What stands for the linker that MLIR insists on calling: it hands the object back, and linking is ours.

`gpu-module-to-binary` runs `TOOLKIT/llvm/bin/ld.lld -shared OBJECT -o OUTPUT` and reads OUTPUT. Both are files of its
own in one directory, so that OBJECT may just get the other's name. A program of nine instructions does that on Linux's
x86-64; a shell that starts `cat` does it elsewhere, for a millisecond more: two programs that look for their libraries
and ask what the processor can do.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from ckmlir.codeobject.elf import FILE_HEADER, PROGRAM_HEADER
from ckmlir.digests import sha256
from ckmlir.files import cache_directory, user_directory, write_atomically

SCRIPT = b'#!/bin/sh\nLC_ALL=C exec cat "$2" >"$4"\n'
"""Without a locale `cat` starts in less than half the time that `cp` takes."""

INSTRUCTIONS = (
    ("mov rdi, [rsp + 24]", "48 8b 7c 24 18"),  # argv[2]; a process begins with argc at rsp, and argv[0] above
    ("mov rsi, [rsp + 40]", "48 8b 74 24 28"),  # argv[4]
    ("mov eax, 82", "b8 52 00 00 00"),  # rename(argv[2], argv[4])
    ("syscall", "0f 05"),
    ("neg eax", "f7 d8"),
    ("mov edi, eax", "89 c7"),
    ("mov eax, 60", "b8 3c 00 00 00"),  # exit(the number of rename's error, or 0)
    ("syscall", "0f 05"),
    ("ud2", "0f 0b"),  # exit does not return
)
"""What the program does, in Intel's notation and in bytes. System calls have their numbers in eax, arguments in rdi and
rsi, and give a negative number of an error (System V ABI for AMD64, "Process Initialization" and "Linux Conventions";
numbers from Linux's arch/x86/entry/syscalls/syscall_64.tbl)."""

ADDRESS = 0x400000
"""Where the program is loaded: anywhere above the lowest pages, which Linux keeps free."""
EXECUTABLE, X86_64, LOADED, READ_EXECUTE = 2, 62, 1, 5
"""Type and machine of an executable, type and flags of its segment (ELF, "ELF Header" and "Program Header")."""


def program() -> bytes:
    """The executable: a header, one segment, which is the whole file, and INSTRUCTIONS."""
    code = bytes.fromhex("".join(encoded for _, encoded in INSTRUCTIONS))
    begin = FILE_HEADER.size + PROGRAM_HEADER.size
    size = begin + len(code)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)  # 64 bits, little-endian, version 1
    tables = (FILE_HEADER.size, 0, 0, FILE_HEADER.size, PROGRAM_HEADER.size, 1, 0, 0, 0)
    header = FILE_HEADER.pack(identity, EXECUTABLE, X86_64, 1, ADDRESS + begin, *tables)
    return header + PROGRAM_HEADER.pack(LOADED, READ_EXECUTE, 0, ADDRESS, ADDRESS, size, size, 0x1000) + code


STAND_IN = program() if sys.platform == "linux" and os.uname().machine == "x86_64" else SCRIPT


def toolkit() -> Path:
    """The directory whose `llvm/bin/ld.lld` is the stand-in: made once per user, in the cache if that can be.

    Looked for each time: another process may clear the cache. It is named by what the stand-in is: were there another
    in its place now and then, as other versions of this package have one, a shell might read that half-way.

    Raises:
        OSError: it can be written nowhere.
    """
    cached = cache_directory()
    try:
        return _made(cached)
    except OSError:
        return _made(user_directory("cache"))


def _made(root: Path) -> Path:
    directory, linker = _named(root, STAND_IN)
    if not _holds(linker, STAND_IN):
        linker.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(linker, STAND_IN, executable=True)
    return directory


@cache
def _named(root: Path, content: bytes) -> tuple[Path, Path]:
    """The directory in a cache, and the stand-in there."""
    directory = root / "toolkit" / sha256(content)[:16]
    return directory, directory / "llvm" / "bin" / "ld.lld"


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False
