"""Random words of the gfx9 encodings, most of them instructions, for the tests of the decoder."""

import random

from ckmlir.sim.decode.encodings import ENCODINGS, encoding_of_prefix
from ckmlir.sim.decode.opcodes import Opcode, opcode_table
from ckmlir.sim.decode.operands import Operand

PREFIXES = {name: number for number, name in reversed(list(enumerate(encoding_of_prefix()))) if name}
"""For each encoding the lowest value of the word's 9 highest bits (for SOP2 and VOP2 their opcode is in them too)."""
NAMES = encoding_of_prefix()
SEGMENTS = {"FLAT": 0, "SCRATCH": 1, "GLOBAL": 2}
SDWA, DPP, LITERAL = 0xF9, 0xFA, 0xFF
CONTROLS = (0x00, 0xE4, 0x1B, 0x101, 0x11F, 0x128, 0x130, 0x13C, 0x140, 0x141, 0x142, 0x143, 0x150, 0x15A)


def base_word(row: Opcode) -> int:
    """The word of a row with all its other fields zero."""
    encoding = ENCODINGS[row.encoding]
    prefix = "FLAT" if row.encoding in SEGMENTS else {"MFMA": "VOP3P"}.get(row.encoding, row.encoding)
    word = PREFIXES[prefix] << 23 | row.number << encoding.opcode_shift
    return word | SEGMENTS.get(row.encoding, 0) << 14


def _operand_bits(row: Opcode, rng: random.Random) -> int:
    encoding = ENCODINGS[row.encoding]
    bits = 0
    for operand in {item.field: item for item in row.destinations + row.sources}.values():
        field = encoding.fields.get(operand.field)
        if field is None:
            continue
        kind = operand.type if operand.type != "address" else "b64"
        if kind.startswith("imm"):
            number = rng.getrandbits(field.width)
        else:
            entries = field.entries(kind)
            number = rng.choice([i for i, entry in enumerate(entries) if isinstance(entry, Operand)])
        if row.encoding == "MFMA" and field.width == 9 and number < 256:
            number = rng.randrange(256, 500, 2)
        bits |= number << field.shift
    return bits


def _second_word(row: Opcode, marker: int, rng: random.Random) -> int:
    if marker == DPP:
        return rng.getrandbits(8) | rng.choice(CONTROLS) << 8 | rng.getrandbits(5) << 19 | rng.getrandbits(8) << 24
    selections = (0, 1, 2, 3, 4, 5, 6)
    word = rng.getrandbits(8) | rng.choice(selections) << 16 | rng.getrandbits(2) << 19
    if row.encoding == "VOPC":
        word |= rng.choice((0, 106, 20)) << 8 | rng.getrandbits(1) << 15
    else:
        word |= rng.choice(selections) << 8 | rng.choice((0, 1, 2)) << 11 | rng.getrandbits(1) << 13
    return word if row.encoding == "VOP1" else word | rng.choice(selections) << 24 | rng.getrandbits(2) << 28


def random_instruction(row: Opcode, rng: random.Random) -> bytes:
    """Bytes that are probably an instruction of the row: valid registers, random modifiers, sometimes a bit flipped."""
    encoding = ENCODINGS[row.encoding]
    word = base_word(row) | _operand_bits(row, rng)
    for modifier in encoding.modifiers:
        if modifier.name != "simm16" and rng.random() < 0.3:
            word |= rng.getrandbits(modifier.width) << modifier.shift
    if row.encoding == "VOP3P":
        word |= rng.choice((0, 0b11 << 59 | 1 << 14))
    if row.encoding in ("MUBUF", "MTBUF", "DS", "FLAT", "GLOBAL", "SCRATCH", "MFMA", "SMEM"):
        word |= encoding.mode & (rng.getrandbits(64) & rng.getrandbits(64))
    if row.encoding == "SOPK" or (row.encoding == "SOPP" and row.sources):
        word |= rng.choice((rng.getrandbits(16), rng.getrandbits(6)))
    if rng.random() < 0.1:
        word ^= 1 << rng.randrange(32 * encoding.words)
    size = 4 * encoding.words
    literal = any(item.field == "literal" for item in row.sources)
    if row.encoding in ("VOP1", "VOP2", "VOPC") and not literal:
        marker = rng.choice([0, 0, *(code for code, flag in ((SDWA, "sdwa"), (DPP, "dpp")) if flag in row.flags)])
        if marker:
            word, size = word & ~0x1FF | marker | _second_word(row, marker, rng) << 32, 8
        elif rng.random() < 0.1:
            word, literal = word & ~0x1FF | LITERAL, True
    elif row.encoding in ("SOP1", "SOP2", "SOPC") and row.sources and rng.random() < 0.1:
        word, literal = word & ~0xFF | LITERAL, True
    data = word.to_bytes(size, "little")
    return data + rng.getrandbits(32).to_bytes(4, "little") if literal else data


def mutated_instructions(target: str, count: int, seed: int) -> list[bytes]:
    """Random instructions with one to three bits flipped anywhere but in a literal."""
    rng = random.Random(seed)
    found = []
    for data in random_instructions(target, count, seed):
        word = int.from_bytes(data, "little")
        for _ in range(rng.randrange(1, 4)):
            word ^= 1 << rng.randrange(min(64, 8 * len(data)))
        found.append(of_its_size(word, rng))
    return found


def random_words(target: str, count: int, seed: int) -> list[bytes]:
    """Uniformly random bits; `target` does not matter."""
    rng = random.Random(seed)
    return [of_its_size(rng.getrandbits(96), rng) for _ in range(count)]


def of_its_size(word: int, rng: random.Random) -> bytes:
    """As many bytes of a word as its encoding takes, with a literal or second word where its first source asks for one;
    four where there is no encoding."""
    name = NAMES[word >> 23 & 0x1FF]
    size = 4 * ENCODINGS[name].words if name else 4
    first, second = word & 0xFF, word >> 8 & 0xFF
    wide = name in ("VOP1", "VOP2", "VOPC") and word & 0x1FF in (SDWA, DPP, LITERAL)
    scalar = (name in ("SOP1", "SOP2", "SOPC") and first == LITERAL) or (name in ("SOP2", "SOPC") and second == LITERAL)
    size += 4 if wide or scalar else 0
    word |= rng.getrandbits(32) << 64 if word < 1 << 64 else 0
    return (word & (1 << 8 * size) - 1).to_bytes(size, "little")


def random_instructions(target: str, count: int, seed: int) -> list[bytes]:
    """`count` random instructions, spread evenly over the target's opcodes."""
    rng = random.Random(seed)
    rows = list(opcode_table(target).values())
    return [random_instruction(rows[i % len(rows)], rng) for i in range(count)]
