"""Bundles of code objects that clang has compressed, with zlib or zstd.

Source: LLVM's ClangOffloadBundler, "Compression and Decompression". Version 1 has no size of the file, version 3 sizes
of 64 bits.
"""

from __future__ import annotations

import struct
import zlib

from ckmlir.codeobject.errors import CodeObjectError

COMPRESSED = b"CCOB"
_VERSION_AND_METHOD = struct.Struct("<4xHH")
_HEADERS = {1: struct.Struct("<8xI8x"), 2: struct.Struct("<8xII8x"), 3: struct.Struct("<8xQQ8x")}
"""By version: the size of the file, which version 1 does not have, and of the bundle; a hash follows."""
_ZLIB, _ZSTD = 0, 1


def decompressed(data: bytes) -> bytes:
    """The bundle in a compressed one.

    Raises:
        CodeObjectError: it is damaged, or compressed with what Python's library does not read.
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
    if method == _ZSTD:
        raise CodeObjectError(
            "a bundle of code objects that is compressed with zstd, which Python's library does not read: compile "
            "with --no-offload-compress, or take one code object out of it (clang-offload-bundler --unbundle --type=o "
            "--targets=hipv4-amdgcn-amd-amdhsa--CHIP --input=FILE --output=CODE_OBJECT)"
        )
    if method != _ZLIB:
        raise CodeObjectError(f"damaged bundle of code objects: method {method} of compression is unknown")
    if len(data) < header.size:
        raise CodeObjectError("damaged bundle of code objects: it ends within its header")
    *file_size, size = header.unpack_from(data)
    end = file_size[0] if file_size else len(data)
    if not header.size <= end <= len(data):
        raise CodeObjectError(f"damaged bundle of code objects: it is said to end at byte {end} of {len(data)}")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data[header.size : end], size + 1)  # no more than it says, however damaged it is
    except (zlib.error, OverflowError) as problem:
        raise CodeObjectError(f"damaged bundle of code objects: {problem}") from None
    if len(content) != size or not stream.eof:
        raise CodeObjectError(f"damaged bundle of code objects: it does not decompress to the {size} bytes it says")
    return content
