"""Digests are SHA-256, whichever module makes them, and small ones load no OpenSSL."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from ckmlir import digests
from ckmlir.digests import LARGE, digest_of, sha256


@pytest.mark.parametrize("length", [0, 1, 55, 56, 64, LARGE - 1, LARGE, LARGE + 1])
def test_digests_are_those_of_hashlib(length: int) -> None:
    data = (bytes(range(251)) * (length // 251 + 1))[:length]
    assert sha256(data) == hashlib.sha256(data).hexdigest()


def test_a_name_has_the_first_digits_of_a_text() -> None:
    assert digest_of("a\u00e4", 8) == hashlib.sha256("a\u00e4".encode()).hexdigest()[:8]


def test_a_python_without_its_own_takes_that_of_hashlib() -> None:
    assert digests._sha256_of("no_module_of_this_name", "hashlib") is hashlib.sha256
    with pytest.raises(ImportError, match="none of no_module_of_this_name"):
        digests._sha256_of("no_module_of_this_name")


def test_openssl_is_loaded_for_large_data_only() -> None:
    program = "import sys; from ckmlir.digests import LARGE, sha256; sha256(bytes({})); print('hashlib' in sys.modules)"
    for size, loaded in (("LARGE - 1", "False\n"), ("LARGE", "True\n")):
        words = [sys.executable, "-c", program.format(size)]
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == loaded
