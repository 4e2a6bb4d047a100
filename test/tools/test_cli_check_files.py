"""`ckmlir check` of code objects of other forms: bundles, generic targets, no metadata, several pointers to LDS."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from ckmlir.codeobject import CodeObject
from ckmlir.lowering.assembler import assemble
from ckmlir.tools.cli import main

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT / "test" / "codeobject" / "data"
TEXT = (ROOT / "examples" / "foreign" / "doubled.s").read_text()
BARE = TEXT[: TEXT.index("  .amdgpu_metadata")]
LDS = "      - {{.name: {}, .size: 4, .offset: {}, .value_kind: dynamic_shared_pointer, .pointee_align: 64}}\n"
Printed = Callable[..., tuple[int, str]]


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Writes the bytes to x.hsaco, a launch to launch.json; the status of `check` of them, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(data: bytes, *words: str, launch: dict[str, Any] | None = None) -> tuple[int, str]:
        Path("x.hsaco").write_bytes(data)
        if launch is not None:
            Path("launch.json").write_text(json.dumps({"grid": [1], "block": [64], **launch}))
            words = ("--launch", "launch.json", *words)
        status = main(["check", "x.hsaco", *words])
        out = capsys.readouterr()
        return status, out.out + out.err

    return run


def bundle(parts: dict[str, bytes]) -> bytes:
    """As clang's offload bundler lays it out."""
    entries, body, start = b"", b"", 4096
    for name, data in parts.items():
        entries += struct.pack("<QQQ", start + len(body), len(data), len(name)) + name.encode()
        body += data
    return (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(parts)) + entries).ljust(start, b"\0") + body


def without_metadata(data: bytes) -> bytes:
    """The note is somebody else's; the assembler of MLIR leaves one that names no kernel."""
    assert data.count(b"AMDGPU\0") == 1
    return data.replace(b"AMDGPU\0", b"NOBODY\0")


def test_bundles(printed: Printed) -> None:
    own = {chip: (DATA / f"kernels_{chip}.hsaco").read_bytes() for chip in ("gfx90a", "gfx942")}
    host = {"host-x86_64-unknown-linux--": b""}
    one = bundle({**host, "hipv4-amdgcn-amd-amdhsa--gfx90a": own["gfx90a"]})
    assert printed(one) == printed(one, "--arch", "gfx90a") == printed(own["gfx90a"])
    status, text = printed(one, "--arch", "gfx942")
    assert status == 2 and "x.hsaco: a bundle without a code object for gfx942; it has: gfx90a" in text
    both = bundle({**host, **{f"hipv4-amdgcn-amd-amdhsa--{chip}:xnack-": data for chip, data in own.items()}})
    status, text = printed(both)
    assert status == 2 and "a bundle of several code objects" in text and "gfx90a:xnack-, gfx942:xnack-" in text
    assert printed(both, "--arch", "gfx942") == printed(own["gfx942"])
    assert CodeObject.parse(both, "gfx942") == CodeObject.parse(own["gfx942"])
    status, text = printed(own["gfx942"], "--arch", "gfx950")
    assert status == 2 and "a code object for gfx942, not for gfx950" in text


def test_bundles_that_cannot_be_read(printed: Printed) -> None:
    whole = bundle({"hipv4-amdgcn-amd-amdhsa--gfx90a": (DATA / "kernels_gfx90a.hsaco").read_bytes()})
    for end in (24, 40, 60, 100, 5000):
        status, text = printed(whole[:end])
        assert status == 2 and "damaged bundle of code objects" in text
    at = whole.index(b"hipv4")
    for broken in (whole[:at] + b"\0" + whole[at + 1 :], whole[: at - 8] + struct.pack("<Q", 3000) + whole[at:]):
        status, text = printed(broken)  # what is none is not printed
        assert status == 2 and "at the place of a name are none" in text and text.count("\n") == 1 and len(text) < 200


def compressed(content: bytes, version: int = 2, method: int = 0, size: int | None = None) -> bytes:
    """As clang compresses it; the hash is left out."""
    packed = zstandard.compress(content) if method == 1 else zlib.compress(content)
    layout = {1: "<4sHH", 2: "<4sHHI", 3: "<4sHHQ"}[version] + "IQ"[version == 3] + "8x"
    sizes = [struct.calcsize(layout) + len(packed)] * (version > 1) + [len(content) if size is None else size]
    return struct.pack(layout, b"CCOB", version, method, *sizes) + packed


@pytest.mark.parametrize("method", [0, 1])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles(printed: Printed, version: int, method: int) -> None:
    own = {chip: (DATA / f"kernels_{chip}.hsaco").read_bytes() for chip in ("gfx90a", "gfx942")}
    content = bundle({f"hipv4-amdgcn-amd-amdhsa--{chip}": data for chip, data in own.items()})
    whole = compressed(content, version, method)
    assert CodeObject.parse(whole, "gfx942") == CodeObject.parse(own["gfx942"])
    status, text = printed(whole)
    assert status == 2 and "a bundle of several code objects" in text
    assert printed(whole, "--arch", "gfx90a") == printed(own["gfx90a"])
    if version > 1:  # what follows is another bundle's
        assert CodeObject.parse(whole + b"CCOB", "gfx942") == CodeObject.parse(own["gfx942"])


def test_compressed_bundles_that_cannot_be_read(printed: Printed) -> None:
    content = bundle({"hipv4-amdgcn-amd-amdhsa--gfx90a": (DATA / "kernels_gfx90a.hsaco").read_bytes()})
    whole = compressed(content)
    for broken, words in (
        (whole[:6], "it ends within its header"),
        (whole[:20], "it ends within its header"),
        (whole[:-10], f"it is said to end at byte {len(whole)} of {len(whole) - 10}"),
        (compressed(content, 1)[:-10], "it does not decompress to the"),
        (compressed(content, size=len(content) - 1), f"it does not decompress to the {len(content) - 1} bytes it says"),
        (compressed(content, 3, size=2**64 - 1), "damaged bundle of code objects"),
        (whole[:24] + bytes(len(whole) - 24), "damaged bundle of code objects: Error"),
        (compressed(content, method=7), "method 7 of compression is unknown"),
        (compressed(b"something else"), "what is compressed is not a bundle"),
        (compressed(content, 1, method=1)[:-10], "it does not decompress to the"),
        (compressed(content, method=1, size=len(content) - 1), "it does not decompress to the"),
        (compressed(content, 3, method=1, size=2**64 - 1), "it does not decompress to the"),
        (compressed(bytes(1 << 30), method=1, size=1000), "it does not decompress to the 1000 bytes it says"),
        (compressed(content, method=1)[:24] + b"not zstd" * 20, "damaged bundle of code objects"),
        (b"CCOB" + struct.pack("<H", 9) + bytes(60), "of version 9; 1, 2, 3 are read"),
    ):
        status, text = printed(broken)
        assert status == 2 and words in text and text.count("\n") == 1, words


def test_zstd_is_read_by_a_package_of_an_extra(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    status, text = printed(compressed(b"a bundle", method=1))
    assert status == 2 and "compressed with zstd: pip install 'ckmlir[zstd]' (the package zstandard)" in text


def test_code_for_a_generic_target(printed: Printed) -> None:
    """It runs on the chips that the target stands for, of which one is named."""
    data = bytearray(without_metadata(assemble(BARE, "gfx942").hsaco))
    data[48:52] = struct.pack("<I", struct.unpack_from("<I", data, 48)[0] & ~0xFF | 0x5F)
    status, text = printed(bytes(data))
    assert status == 2 and "made for gfx9-4-generic; say on which chip it runs: --arch gfx942|gfx950" in text
    status, text = printed(bytes(data), "--arch", "gfx950")
    assert status == 0 and text.startswith("x.hsaco: gfx950")
    status, text = printed(bytes(data), "--arch", "gfx90a")
    assert status == 2 and "a code object for gfx9-4-generic, not for gfx90a" in text


@pytest.mark.parametrize("without", [bytes, without_metadata])
def test_no_metadata(without: Callable[[bytes], bytes], printed: Printed) -> None:
    """The code is read; a launch says how large each argument is, which lies where a structure of C would have it."""
    text = BARE.replace("s[2:3], s[0:1], 0x0", "s[2:3], s[0:1], 0x8")
    data = without(assemble(text, "gfx942").hsaco)
    assert printed(data)[0] == 0
    x = {"shape": [64], "dtype": "f32", "fill": "arange", "save": "x.npy"}
    status, report = printed(data, launch={"arguments": [{"scalar": 3, "dtype": "i32"}, x]})
    assert status == 0 and "arguments[1]: float32 [64], 0 to 126" in report
    np.testing.assert_array_equal(np.load("x.npy"), 2 * np.arange(64, dtype=np.float32))
    status, report = printed(data, launch={"arguments": [3, x]})
    assert status == 2 and "arguments[0]: the code object has no metadata; say how large it is" in report
    status, report = printed(data, launch={"arguments": {"x": x}})
    assert status == 2 and "expected a list; the code object names no arguments" in report


def test_several_pointers_to_lds(printed: Printed) -> None:
    """Each is told its bytes; they lie one behind the other, as far apart as the kernel says. The kernel stores both
    addresses."""
    text = TEXT + LDS.format("s", 8) + LDS.format("t", 12)
    text = text.replace("  .end_amdgpu_metadata\n", "", 1) + "  .end_amdgpu_metadata\n"
    text = text.replace(".kernarg_segment_size: 8", ".kernarg_segment_size: 16")
    body = """  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_mov_b32_e32 v0, 0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v1, s7
  global_store_dword v0, v1, s[4:5]
  v_mov_b32_e32 v1, s6
  global_store_dword v0, v1, s[4:5] offset:4
  s_endpgm
"""
    begin, end = text.index("  s_load_dwordx2"), text.index(".Lend:")
    text = (text[:begin] + body + text[end:]).replace("next_free_sgpr 4", "next_free_sgpr 8")
    data = assemble(text, "gfx942").hsaco
    x = {"shape": [2], "dtype": "u32", "save": "x.npy"}
    status, report = printed(data, launch={"block": [1], "arguments": [x, {"lds": 100}, {"lds": 4}]})
    assert status == 0, report
    assert np.load("x.npy").tolist() == [128, 0]
    status, report = printed(data, launch={"arguments": {"x": x, "s": 0, "t": {"lds": 4}}})
    assert status == 2 and 'arguments.s: this argument is a pointer to LDS; expected {"lds": bytes}' in report
    status, report = printed(data, launch={"arguments": [{"lds": 4}] * 3})
    assert status == 2 and "arguments[0]: this argument is not a pointer to LDS" in report
    status, report = printed(data, launch={"arguments": [x, {"lds": 1 << 17}, {"lds": -1}]})
    assert status == 2 and "arguments[2].lds=-1: expected 0 to" in report
