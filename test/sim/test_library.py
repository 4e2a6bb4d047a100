"""The library of handlers: what is kept on disk, found again, shared between processes, and made anew where damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckmlir.sim.handler import HandlerKey
from ckmlir.sim.library import HandlerLibrary


def test_handlers_are_kept_on_disk_and_found_again(tmp_path: Path) -> None:
    keys = [HandlerKey("v_add_u32", ("v", "v", "v")), HandlerKey("v_xor_b32", ("v", "v", "i"))]
    first = HandlerLibrary(tmp_path)
    first.addresses(keys)
    assert first.compiled == 2 and len(list(tmp_path.iterdir())) == 1
    second = HandlerLibrary(tmp_path)
    second.addresses(keys)
    assert second.compiled == 0


def test_what_another_process_has_compiled_meanwhile_is_found(tmp_path: Path) -> None:
    """The directory is looked into again where a handler is missing."""
    ours, theirs = HandlerLibrary(tmp_path), HandlerLibrary(tmp_path)
    ours.addresses([HandlerKey("v_add_u32", ("v", "v", "v"))])
    theirs.addresses([HandlerKey("v_xor_b32", ("v", "v", "i"))])
    ours.addresses([HandlerKey("v_xor_b32", ("v", "v", "i"))])
    assert (ours.compiled, theirs.compiled) == (1, 1)


def test_a_damaged_or_unwritable_cache_only_costs_time(tmp_path: Path) -> None:
    key = HandlerKey("v_or_b32", ("v", "v", "v"))
    (tmp_path / "broken.handlers").write_bytes(b"not json\n")
    (tmp_path / "empty.handlers").write_bytes(b"")
    library = HandlerLibrary(tmp_path)
    assert library.addresses([key])[key]
    unwritable = HandlerLibrary(tmp_path / "broken.handlers" / "below")
    assert unwritable.addresses([key])[key] and unwritable.compiled == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bytes_left", [0, 1, 700, -1])
def test_a_truncated_file_of_handlers_is_made_anew(bytes_left: int, tmp_path: Path) -> None:
    """LLVM ends the process on a damaged object, so nothing damaged may reach it."""
    script = (
        "import sys; from pathlib import Path\nfrom ckmlir.sim import semantics\n"
        "from ckmlir.sim.handler import HandlerKey\nfrom ckmlir.sim.library import HandlerLibrary\n"
        "library = HandlerLibrary(Path(sys.argv[1]))\n"
        "library.addresses([HandlerKey('v_not_b32', ('v', 'v'))])\nprint(library.compiled)"
    )

    def compiled() -> str:
        command = [sys.executable, "-c", script, str(tmp_path)]
        return subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True).stdout

    assert (compiled(), compiled()) == ("1\n", "0\n")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:bytes_left])
    assert (compiled(), compiled()) == ("1\n", "0\n")
    assert file.read_bytes() == whole
    file.write_bytes(whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :])
    assert (compiled(), compiled()) == ("1\n", "0\n")


def test_the_cache_can_be_turned_off(tmp_path: Path) -> None:
    script = (
        "from ckmlir.sim import semantics\nfrom ckmlir.sim.handler import HandlerKey\n"
        "from ckmlir.sim.library import library\n"
        "library().addresses([HandlerKey('v_not_b32', ('v', 'v'))])\nprint(library().directory, library().compiled)"
    )
    root = str(Path(__file__).parents[2])
    for setting, expected in (("off", "None 1"), ("simulator", str(tmp_path)), (None, str(tmp_path))):
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": root}
        environment.pop("CKMLIR_CACHE", None)
        if setting:
            environment["CKMLIR_CACHE"] = setting
        output = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert output.startswith(expected)
    assert list(tmp_path.rglob("*.handlers"))
