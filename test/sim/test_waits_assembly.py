"""The recorded words of assembly.txt are those of LLVM's assembler, and decode to the text they stand for."""

from __future__ import annotations

import re
import subprocess

import installed_tools
import pytest
from assembly import _recorded

from ckmlir.sim.decode import decode


@installed_tools.needs("llvm-mc", "recorded words are not assembled again")
@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx950"))
def test_recorded_words_are_llvm_s(chip: str) -> None:
    lines = {text: code for (target, text), code in _recorded().items() if target == chip}
    command = [installed_tools.path_of("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={chip}", "-show-encoding"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    made = [
        bytes(int(byte, 0) for byte in found.split(",")) for found in re.findall(r"encoding: \[(.*?)\]", done.stdout)
    ]
    assert made == list(lines.values()) and len(made) > 40


def test_recorded_words_decode_to_their_mnemonics() -> None:
    for (target, text), code in _recorded().items():
        mnemonic = re.sub(r"_(e32|e64|sdwa|dpp)$", "", text.split()[0])
        assert decode(code.ljust(16, b"\0"), 0, target).mnemonic == mnemonic
