"""Whatever LLVM a machine has in PATH, tests pass or say why they are skipped, and code objects are linked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLD = """#!/bin/sh
case "$*" in
    --version) echo "Debian LLVM version 14.0.6
Debian clang version 14.0.6
Debian LLD 14.0.6 (compatible with GNU linkers)" ;;
    *) echo "error: unknown target CPU '$*'" >&2; exit 1 ;;
esac
"""
COMPARING = """
    targets/test_features.py lowering/test_linker.py lowering/test_linking.py sim/test_waits_assembly.py
    sim/test_decode_llvm.py sim/test_opencl_kernels.py sim/timing/test_llvm_mca.py
"""
"""Tests that look for tools of LLVM."""


@pytest.fixture
def old_tools(tmp_path: Path) -> dict[str, str]:
    """An environment in which LLVM 14 is all there is."""
    for name in ("llvm-mc", "llvm-mc-14", "ld.lld", "ld.lld-14", "clang", "clang-14", "llvm-mca"):
        (tmp_path / name).write_text(OLD)
        (tmp_path / name).chmod(0o755)
    for name in ("cat", "sleep"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CKMLIR_") and name != "ROCM_PATH"}
    return {**kept, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "CKMLIR_CACHE": "off"}


def test_tests_pass_where_llvm_is_old(old_tools: dict[str, str]) -> None:
    files = [f"test/{name}" for name in COMPARING.split()]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-rs", *files]
    done = subprocess.run(command, cwd=ROOT, env=old_tools, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    skipped = re.findall(r"^SKIPPED .*", done.stdout, re.M)
    assert skipped and all("is of version 14" in line for line in skipped), skipped


def test_kernels_are_linked_where_llvm_is_old(old_tools: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ckmlir.tools.cli", "run", "layernorm2d", "m=4", "n=64", "--arch", "gfx950"]
    for linker in ("internal", "lld"):
        environment = {**old_tools, "CKMLIR_LINKER": linker}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if linker == "lld" and "no ld.lld found" in done.stderr:
            assert "is LLD 14.0.6, 15 or later is needed" in done.stderr
            pytest.skip("the package ziglang is not installed, and nothing else may be taken")
        assert done.returncode == 0, done.stderr
