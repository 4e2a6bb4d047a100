"""Bundles: files of clang that hold a code object for each of several chips, as `hipcc --genco` writes them.

Source: LLVM's ClangOffloadBundler, "Bundled Binary File Layout" and "Bundle Entry ID".
"""

from __future__ import annotations

import struct

from ckmlir.codeobject.compressed_bundle import COMPRESSED, decompressed
from ckmlir.codeobject.errors import CodeObjectError

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")
_MOST_ENTRIES, _LONGEST_NAME = 256, 256


def is_bundle(data: bytes) -> bool:
    """Whether a file is a bundle, compressed or not."""
    return data.startswith((MAGIC, COMPRESSED))


def from_bundle(data: bytes, chip: str = "") -> bytes:
    """The code object for a chip, which may be left out where there is only one.

    Raises:
        CodeObjectError: the bundle is damaged, has none or several for this chip, or is compressed with zstd where
            the package that reads it is not installed.
    """
    if data.startswith(COMPRESSED):
        data = decompressed(data)
        if not data.startswith(MAGIC):
            raise CodeObjectError("damaged bundle of code objects: what is compressed is not a bundle")
    found = _code_objects(data)
    listed = ", ".join(found) or "none"
    wanted = {name: part for name, part in found.items() if chip in ("", name, name.partition(":")[0])}
    if len(wanted) == 1:
        return next(iter(wanted.values()))
    if not wanted:
        raise CodeObjectError(f"a bundle without a code object for {chip}; it has: {listed}")
    raise CodeObjectError(f"a bundle of several code objects; say which (--arch, or `chip`): {', '.join(wanted)}")


def _code_objects(data: bytes) -> dict[str, bytes]:
    """The code objects of a bundle by target, such as "gfx90a:xnack-"."""
    found = {}
    position = len(MAGIC)
    (count,) = _unpack(_COUNT, data, position)
    position += _COUNT.size
    if count > _MOST_ENTRIES:
        raise CodeObjectError(f"damaged bundle of code objects: it says that it has {count}")
    for _ in range(count):
        offset, size, length = _unpack(_ENTRY, data, position)
        position += _ENTRY.size
        name = _name(data[position : position + length], length)
        position += length
        if offset + size > len(data):
            raise CodeObjectError(f"damaged bundle of code objects: {name} ends at byte {offset + size} of {len(data)}")
        _, is_device, target = name.partition("amdgcn-amd-amdhsa-")
        if is_device and size:
            found[target.lstrip("-")] = data[offset : offset + size]
    return found


def _name(text: bytes, length: int) -> str:
    """The name of an entry, such as "hipv4-amdgcn-amd-amdhsa--gfx942"; damage may be of any length."""
    if length > _LONGEST_NAME or len(text) < length or not (text.isascii() and text.decode("latin-1").isprintable()):
        raise CodeObjectError(f"damaged bundle of code objects: {length} bytes at the place of a name are none")
    return text.decode("ascii")


def _unpack(layout: struct.Struct, data: bytes, position: int) -> tuple[int, ...]:
    if position + layout.size > len(data):
        raise CodeObjectError("damaged bundle of code objects: it ends within its table")
    return layout.unpack_from(data, position)
