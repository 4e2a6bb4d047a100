"""Machine code for tests from assembly text, without an assembler: every line a test uses is in assembly.txt with its
words, as LLVM's assembler made them.

A test with new lines is run once with CKMLIR_RECORD_ASSEMBLY=1 where llvm-mc of LLVM 22 is installed, which adds them.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from functools import cache
from pathlib import Path

from decode_words import base_word

from ckmlir.sim.analysis.blocks import ControlFlow
from ckmlir.sim.analysis.control_flow import control_flow_of_code
from ckmlir.sim.decode.opcodes import opcode_table

_FILE = Path(__file__).with_suffix(".txt")
_BRANCH = re.compile(r"(s_branch|s_cbranch_\w+) (\w+)")


@cache
def _recorded() -> dict[tuple[str, str], bytes]:
    rows = (line.split(" | ") for line in _FILE.read_text().splitlines())
    return {(target, text): bytes.fromhex(code) for target, text, code in rows}


def words_of(line: str, target: str) -> bytes:
    """The code of one line of assembly."""
    known = _recorded()
    if (target, line) not in known:
        assert os.environ.get("CKMLIR_RECORD_ASSEMBLY"), (
            f"{line!r} for {target} is not in {_FILE.name}; run this test with CKMLIR_RECORD_ASSEMBLY=1"
        )
        known[target, line] = _llvm_mc(line, target)
        rows = sorted(" | ".join((chip, text, code.hex())) for (chip, text), code in known.items())
        _FILE.write_text("".join(f"{row}\n" for row in rows))
    return known[target, line]


def _llvm_mc(line: str, target: str) -> bytes:
    import installed_tools  # only here: scripts of tests have this folder, and not the one above, in their path

    command = [installed_tools.path_of("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-show-encoding"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    found = re.search(r"encoding: \[(.*?)\]", done.stdout)
    assert found, done.stderr
    return bytes(int(item, 0) for item in found[1].split(","))


def assemble(text: str, target: str) -> bytes:
    """The code of several lines. A line that ends in a colon is a label, and branches name labels."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    sizes = [
        0 if line.endswith(":") else 4 if _BRANCH.fullmatch(line) else len(words_of(line, target)) for line in lines
    ]
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    labels = {line[:-1]: start for line, start in zip(lines, starts) if line.endswith(":")}
    code = b""
    for line, start in zip(lines, starts):
        if branch := _BRANCH.fullmatch(line):
            row = next(row for row in opcode_table(target).values() if row.mnemonic == branch[1])
            code += struct.pack("<I", base_word(row) | (labels[branch[2]] - start - 4) // 4 & 0xFFFF)
        elif not line.endswith(":"):
            code += words_of(line, target)
    return code


def flow_of(text: str, target: str) -> ControlFlow:
    """The control-flow graph of lines of assembly; s_endpgm is added."""
    return control_flow_of_code(assemble(f"{text}\ns_endpgm", target), 0, target)
