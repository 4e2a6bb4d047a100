"""The decoder against LLVM's disassembler, on random words. Needs llvm-mc of LLVM 22 or later; skipped without.

What may differ is listed here with the reason; anything else fails.
"""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable

import installed_tools
import pytest
from decode_words import mutated_instructions, random_instructions, random_words

from ckmlir.sim.chips import TARGETS
from ckmlir.sim.decode import UnknownInstruction, decode

CHUNK = 400

# Every input is followed by s_nop words, so that an instruction that wants a literal takes one of those.
FILLER, END = "0x5b,0x5a,0x80,0xbf", "0x5c,0x5a,0x80,0xbf"
LINES_PER_INPUT = 6
LISTING = re.compile(r"\s*(.*?)\s*(?:;|//) .*?encoding: \[(.*)\]")

DIFFERENT_TEXT = {
    r"ds_gws": "LLVM prints an AccVGPR for the address when the ACC bit is set",
    r"s_sendmsg": "LLVM names the operations of graphics messages, this decoder prints their numbers",
    r"lit\(": "LLVM marks a 16-bit literal that an inline constant would also express",
    r"v_pk_fmac_f16_sdwa": "LLVM prints no neg and abs although the bits are set",
}
ONLY_LLVM = {
    r"null|src_flat_scratch_base": "scalar operands of later chips, which gfx9 does not have",
    r"image_": "texture instructions, which compute kernels do not use",
    r"v_mfma_ld_scale_b32": "only the first half of a scaled MFMA",
}
ONLY_LLVM_REASONS = {
    r"not an operand of type": "a register range that is misaligned or ends behind the last register, which LLVM "
    "rounds down or prints past the end; a literal of VOP3, which gfx9 does not have",
    r"reserved bits": "bits that LLVM ignores",
    r"cut off": "a literal where LLVM reads the next instruction as one",
}
ONLY_OURS = {
    r"(global|flat)_atomic_\w+ a": "LLVM lacks some forms with an AccVGPR result and a scalar address",
    r"v_read(first)?lane_b32 m0": "LLVM marks m0 as a register that it does not let this instruction write",
    r"f8f6f4 .*\[25\d:255\]": "LLVM takes a factor for eight registers before the format says that it has six or four",
    r"_sdwa .*src0_sel": "LLVM wants the default dst_sel in conversions from fp8, which have none to print",
    r"buffer_(inv|wb)": "LLVM checks the cache bits of gfx90a's cache instructions",
    r"ds_gws|ds_swizzle|permute|ds_consume|ds_append|addtid": "LLVM checks the GDS bit",
}


def disassemble(target: str, inputs: list[bytes]) -> list[str | None]:
    """LLVM's text of each input; None where it is not an instruction, has another size, or makes LLVM crash."""
    lines = [",".join(f"0x{byte:02x}" for byte in item) for item in inputs]
    text = "".join("\n".join([line, *[FILLER] * (LINES_PER_INPUT - 2), END, ""]) for line in lines)
    command = [
        installed_tools.path_of("llvm-mc"),
        "-disassemble",
        "-triple=amdgcn",
        f"-mcpu={target}",
        "-show-encoding",
    ]
    environment = {**os.environ, "LLVM_DISABLE_SYMBOLIZATION": "1"}
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env=environment)
    if run.returncode < 0 or "Stack dump" in run.stderr:  # it crashes on some words: narrow down which
        if len(inputs) == 1:
            return [None]
        half = len(inputs) // 2
        return disassemble(target, inputs[:half]) + disassemble(target, inputs[half:])
    invalid = {(int(line) - 1) // LINES_PER_INPUT for line in re.findall(r"<stdin>:(\d+):\d+: warning", run.stderr)}
    found: list[str | None] = []
    pieces: list[str] = []
    fillers = 0
    for line in run.stdout.splitlines():
        match = LISTING.match(line)
        if match is None:
            continue
        if match[2] == END:
            whole = len(pieces) == 1 and fillers == LINES_PER_INPUT - 2 and len(found) not in invalid
            found.append(pieces[0] if whole and "/*" not in pieces[0] else None)
            pieces, fillers = [], 0
        elif match[2] == FILLER:
            fillers += 1
        else:
            pieces.append(match[1])
    assert len(found) == len(inputs)
    return found


def decode_text(target: str, data: bytes) -> tuple[str | None, str]:
    """Our text, or None and the reason."""
    try:
        instruction = decode(data, 0, target)
    except UnknownInstruction as error:
        return None, str(error)
    return (instruction.text, "") if instruction.size == len(data) else (None, "another size")


def explained(table: dict[str, str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in table)


Words = Callable[[str, int, int], list[bytes]]
KINDS: dict[str, tuple[Words, int, float]] = {  # how many by default, how many of them at least are instructions
    "instructions": (random_instructions, 9000, 0.7),
    "mutations": (mutated_instructions, 4000, 0.3),
    "words": (random_words, 3000, 0.2),
}
FULL = 20
"""How many times as many words the marker `full` compares."""


def compare(target: str, inputs: list[bytes]) -> tuple[Counter[str], list[str]]:
    """Counts of agreement, and the disagreements that nothing explains."""
    listed = [text for i in range(0, len(inputs), CHUNK) for text in disassemble(target, inputs[i : i + CHUNK])]
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for data, theirs in zip(inputs, listed):
        ours, reason = decode_text(target, data)
        if ours == theirs:
            counts["instruction" if ours else "no instruction"] += 1
        elif ours is None and theirs is not None:
            counts["only LLVM"] += 1
            if not explained(ONLY_LLVM, theirs) and not explained(ONLY_LLVM_REASONS, reason):
                wrong.append(f"{data.hex()}: LLVM {theirs}; {reason}")
        elif theirs is None and ours is not None:
            counts["only ours"] += 1
            if not explained(ONLY_OURS, ours):
                wrong.append(f"{data.hex()}: LLVM none, ours {ours}")
        else:
            counts["different text"] += 1
            if not explained(DIFFERENT_TEXT, str(theirs)):
                wrong.append(f"{data.hex()}: LLVM {theirs}, ours {ours}")
    return counts, wrong


def check(target: str, kind: str, times: int, seed: int) -> None:
    words, count, instructions = KINDS[kind]
    counts, wrong = compare(target, words(target, count * times, seed))
    assert not wrong, f"{len(wrong)} disagreements, {dict(counts)}:\n" + "\n".join(wrong[:20])
    assert counts["instruction"] > instructions * count * times, counts
    explained_only = counts["only LLVM"] + counts["only ours"] + counts["different text"]
    assert explained_only < 0.05 * count * times, counts
    print(target, kind, dict(counts))


needs_llvm = installed_tools.needs("llvm-mc", "the decoder is not compared with LLVM")


@pytest.mark.one_in(2)
@needs_llvm
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_decoder_agrees_with_llvm(target: str, kind: str) -> None:
    check(target, kind, 1, seed=20)


@needs_llvm
@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_decoder_agrees_with_llvm_on_many_words(target: str, kind: str) -> None:
    check(target, kind, FULL, seed=21)
