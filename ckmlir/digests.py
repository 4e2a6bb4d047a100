"""Digests of texts and bytes: SHA-256 in hexadecimal.

The module `hashlib` loads OpenSSL, which takes 3 ms: much for a cold process that takes its first kernel from a library
and digests a few kilobytes. So this takes Python's own SHA-256, as the standard library's `random` does, and OpenSSL's
only for data so large that its speed pays.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

LARGE = 1 << 20
"""Bytes from which on OpenSSL is worth its loading: it takes .6 ms for a mebibyte, Python's own 3."""


def sha256(data: bytes) -> str:
    """The SHA-256 of data, 64 hexadecimal digits."""
    make = _sha256_of("hashlib") if len(data) >= LARGE else _OWN
    digits: str = make(data).hexdigest()
    return digits


def digest_of(text: str, digits: int) -> str:
    """The first hexadecimal digits of a text's SHA-256, to stand for it in a name."""
    return sha256(text.encode())[:digits]


def _sha256_of(*modules: str) -> Callable[[bytes], Any]:
    """`sha256` of the first of these modules that this Python has."""
    for module in modules:
        try:
            function: Callable[[bytes], Any] = importlib.import_module(module).sha256
        except ImportError:
            continue
        return function
    raise ImportError(f"this Python has none of {', '.join(modules)}")


_OWN = _sha256_of("_sha2", "_sha256", "hashlib")  # since Python 3.12; before; where Python was built without its own
