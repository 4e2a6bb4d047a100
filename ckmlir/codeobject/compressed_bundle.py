"""Bundles of code objects that clang has compressed, with zlib or zstd.

Source: LLVM's ClangOffloadBundler, "Compression and Decompression". Version 1 has no size of the file, version 3 sizes
of 64 bits.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from ckmlir.codeobject.errors import CodeObjectError

COMPRESSED = b"CCOB"
_VERSION_AND_METHOD = struct.Struct("<4xHH")
_HEADERS = {1: struct.Struct("<8xI8x"), 2: struct.Struct("<8xII8x"), 3: struct.Struct("<8xQQ8x")}
"""By version: the size of the file, which version 1 does not have, and of the bundle; a hash follows."""


def decompressed(data: bytes) -> bytes:
    """The bundle in a compressed one.

    Raises:
        CodeObjectError: it is damaged, or compressed with zstd, and the package that reads that is not installed.
    """
    if len(data) < _VERSION_AND_METHOD.size:
        raise CodeObjectError("damaged bundle of code objects: it ends within its header")
    version, method = _VERSION_AND_METHOD.unpack_from(data)
    header = _HEADERS.get(version)
    if header is None:
        raise CodeObjectError(
            f"a compressed bundle of code objects of version {version}; {', '.join(map(str, _HEADERS))} are read: "
            "compile with --no-offload-compress"
        )
    if method not in _METHODS:
        raise CodeObjectError(f"damaged bundle of code objects: method {method} of compression is unknown")
    if len(data) < header.size:
        raise CodeObjectError("damaged bundle of code objects: it ends within its header")
    *file_size, size = header.unpack_from(data)
    end = file_size[0] if file_size else len(data)
    if not header.size <= end <= len(data):
        raise CodeObjectError(f"damaged bundle of code objects: it is said to end at byte {end} of {len(data)}")
    content = _METHODS[method](data[header.size : end], size)
    if len(content) != size:
        raise CodeObjectError(f"damaged bundle of code objects: it does not decompress to the {size} bytes it says")
    return content


def _zlib(packed: bytes, size: int) -> bytes:
    """What is packed, or as much of it as shows that it is larger than its size; nothing where its end is missing."""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(packed, size + 1)
    except (zlib.error, OverflowError) as problem:
        raise CodeObjectError(f"damaged bundle of code objects: {problem}") from None
    return content if stream.eof else b""


def _zstd(packed: bytes, size: int) -> bytes:
    """The same of zstd, piece by piece, since the package takes the frame's word for its size."""
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        raise CodeObjectError(
            "a bundle of code objects that is compressed with zstd: pip install 'ckmlir[zstd]' (the package zstandard) "
            "to read it, or compile with --no-offload-compress"
        ) from None
    content = bytearray()
    try:
        for piece in zstandard.ZstdDecompressor().read_to_iter(packed):
            content += piece
            if len(content) > size:
                break
    except zstandard.ZstdError as problem:
        raise CodeObjectError(f"damaged bundle of code objects: {problem}") from None
    return bytes(content)


_METHODS: Mapping[int, Callable[[bytes, int], bytes]] = {0: _zlib, 1: _zstd}
"""By LLVM's number of the method."""
