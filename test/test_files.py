"""Results go to where the user says: whole files or none, and what is not a regular file is written to, never replaced.

Devices, pipes and links are made in a temporary directory; nothing here touches those of the machine by name.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ckmlir.errors import CkmlirError
from ckmlir.files import check_writable, is_stream, read_with_digest, write_file, write_with_digest
from ckmlir.tools import cli, opt

ROOT = Path(__file__).parent.parent
MODULE = "module {\n}\n"
NULL, FULL = os.makedev(1, 3), os.makedev(1, 7)  # Linux, admin-guide/devices.txt


def device(path: Path, number: int) -> Path:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, number)
        path.open("wb").close()
    except PermissionError:
        pytest.skip("devices can be made and opened by root only")
    return path


def read_from(pipe: Path) -> tuple[threading.Thread, list[bytes]]:
    """Somebody who reads a pipe to its end; what came out."""
    content: list[bytes] = []
    reader = threading.Thread(target=lambda: content.append(pipe.read_bytes()), daemon=True)
    reader.start()
    return reader, content


def optimise(output: Path, source: Path) -> int:
    source.write_text(MODULE)
    return opt.main([str(source), "-o", str(output)])


def test_a_device_stays_one(tmp_path: Path) -> None:
    null = device(tmp_path / "null", NULL)
    for path in (null, tmp_path / "link", tmp_path / "link to link"):
        if path != null:
            path.symlink_to("null" if path.name == "link" else "link")
        check_writable([path, path])  # several results may go there
        write_file(path, b"gone")
        assert optimise(path, tmp_path / "in.mlir") == 0
        assert stat.S_ISCHR(null.stat().st_mode) and null.stat().st_rdev == NULL
        assert path == null or path.is_symlink()


def test_a_device_that_is_full_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = device(tmp_path / "full", FULL)
    assert optimise(full, tmp_path / "in.mlir") == 2
    assert f"cannot write {full}: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_is_written_to(linked: bool, tmp_path: Path) -> None:
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    check_writable([path])
    reader, content = read_from(pipe)
    assert optimise(path, tmp_path / "in.mlir") == 0
    reader.join(60)
    assert content == [MODULE.encode()]
    assert pipe.is_fifo()


def test_a_link_to_a_file_stays_and_the_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    file, link = tmp_path / "below" / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to("below/file")
    with file.open() as old:
        write_file(link, b"new")
        assert old.read() == "old"  # who has it open keeps what was there
    assert link.is_symlink() and file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to("below/another")
    write_file(nowhere, b"made")
    assert nowhere.is_symlink() and (tmp_path / "below" / "another").read_bytes() == b"made"


def test_what_the_shell_opened_is_not_replaced(tmp_path: Path) -> None:
    """Standard output that is a file: what was printed before stays before, what follows goes behind."""
    source, out = tmp_path / "in.mlir", tmp_path / "out"
    source.write_text(MODULE)
    program = (
        "import sys; from ckmlir.tools import opt; print('before');"
        f"opt.main([{str(source)!r}, '-o', sys.argv[1]]); print('behind')"
    )
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with out.open("wb") as file:
            subprocess.run([sys.executable, "-c", program, name], stdout=file, cwd=ROOT, check=True, timeout=120)
        assert out.read_text() == f"before\n{MODULE}behind\n"


def test_a_process_behind_a_shell_s_substitution_gets_it(tmp_path: Path) -> None:
    source, out = tmp_path / "in.mlir", tmp_path / "out"
    source.write_text(MODULE)
    command = f"{sys.executable} -m ckmlir.tools.opt {source} -o >(cat > {out}) && wait $! && sleep 0.2"
    try:
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("there is no bash")
    assert out.read_text() == MODULE


@pytest.mark.parametrize(
    "arguments",
    [
        "compile layernorm2d m=4 n=64 --arch gfx942 -o PIPE",
        "run layernorm2d m=4 n=64 --arch gfx942 --output y=PIPE",
        "schedule gemm --arch gfx942 --export PIPE",
    ],
)
def test_commands_write_to_pipes(arguments: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader, content = read_from(pipe)
    assert cli.main(arguments.replace("PIPE", str(pipe)).split()) == 0
    reader.join(60)
    assert content[0].startswith((b"\x7fELF", b"\x93NUMPY", b"{"))


def test_what_is_kept_beside_needs_a_file_to_be_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert cli.main(["compile", "gemm", "--arch", "gfx942", "-o", str(pipe), "--keep", "asm"]) == 2
    assert f"{pipe} is not a regular file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [pipe]


def test_what_cannot_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "same").symlink_to("file")
    cases = {
        "it is a directory": [tmp_path],
        "there is no directory": [tmp_path / "a" / "b"],
        "two results would be written": [tmp_path / "file", tmp_path / "same"],
    }
    if os.geteuid() != 0:
        (tmp_path / "kept").write_text("")
        (tmp_path / "kept").chmod(0o400)
        cases["write-protected"] = [tmp_path / "kept"]
    for words, paths in cases.items():
        with pytest.raises(CkmlirError, match=words):
            check_writable(paths)
    assert not is_stream(tmp_path / "file") and not is_stream(tmp_path / "none")


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = tmp_path / ("a" * 300)
    assert cli.main(["compile", "softmax", "--arch", "gfx942", "-o", str(name)]) == 2
    assert capsys.readouterr().err == f"ckmlir: error: cannot write {name}: File name too long\n"


def test_a_digest_knows_every_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_with_digest(path, {"name": "x"}, bytes(range(256)))
    assert read_with_digest(path) == ({"name": "x"}, bytes(range(256)))
    whole = path.read_bytes()
    for damaged in (b"", b"\n", b"[]\n", whole[:-1], whole + b"x", whole[:20] + b"y" + whole[21:], whole[:60]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            read_with_digest(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError):
            read_with_digest(path)
