"""Byte layouts that checks share with the compiled code: flags, attributes of allocations, the records of findings."""

from __future__ import annotations

# Flags of the checks that are compiled into a handler (modifier "checks" of its key), and of the context's CHECKED.
MEMORY, RACE, CLAMPED, UNALIGNED, BARRIER, INITIALISATION, WAIT = 1, 2, 4, 8, 16, 32, 64
INTERLEAVING = 128  # no check of its own: waves take shorter turns (`wave_turns.py`)
RECORDING = 256  # no check: handlers also write down what they access (`step_recording.py`)
FLAGS = {
    "memory": MEMORY,
    "race": RACE,
    "clamped": CLAMPED,
    "unaligned": UNALIGNED,
    "barrier": BARRIER,
    "initialisation": INITIALISATION,
    "wait": WAIT,
    "interleaving": INTERLEAVING,
}
IN_HANDLERS = MEMORY | RACE | CLAMPED | UNALIGNED | WAIT | RECORDING

# A row of ALLOCATION_ATTRIBUTES: what checks know about one allocation.
ATTRIBUTE_BYTES = 24
LINES = 0  # address of the race check's lines (`race_table.py`), or 0
PROPERTIES = 8
READ_ONLY, KEEPS_UNDEFINED = 1, 2  # bits of PROPERTIES; LDS and scratch may hold undefined values
SHADOW_DELTA = 16  # from an address to its shadow, or 0 where everything is defined

# Shadows: as many bits as what they belong to, 1 where a bit is undefined. The shadow of a wave block lies SHADOW bytes
# behind it, and a byte for each vector register, not 0 when it has an undefined bit, twice as far.
SHADOW = 4 << 20
MIXED = 2 * SHADOW
# What the wait check knows of a wave lies three times as far: `wait_layout.py`.
WAITS = 3 * SHADOW

# A recorded finding: u64 each.
FINDING_BYTES = 96
KIND, RECORD, WAVE, GROUP, LANES, ADDRESS, OTHER_TAG, OTHER_RECORD, TIMES, ROUND_OF, ROUND_START_OF = (
    8 * k for k in range(11)
)
CAPACITY = 512


class Kind:
    """Values of KIND."""

    READ_ONLY = 1
    MISALIGNED = 2
    CLAMPED = 3
    UNALIGNED = 4
    RACE_WITH_WRITE = 5
    RACE_WITH_READ = 6
    ENDED_BEFORE_BARRIER = 7
    LANES_AT_BARRIER = 8
    UNDEFINED_STORED = 9
    UNDEFINED_ADDRESS = 10
    UNDEFINED_CONDITION = 11
    UNDEFINED_EXEC = 12
    RACE_EQUAL = 13
    RACE_ORDERED = 14
    EARLY_REGISTER = 15
    EARLY_LDS_COPY = 16
    LATE_LDS = 17
    RACE_OF_ATOMIC_WITH_WRITE = 18
    RACE_OF_ATOMIC_WITH_READ = 19


FIRST_OF_PAIRS = Kind.EARLY_REGISTER
"""Kinds from this one on have a finding for each other instruction that takes part: what they weigh depends on both."""

OF_ATOMIC = Kind.RACE_OF_ATOMIC_WITH_WRITE - Kind.RACE_WITH_WRITE
"""From the kind of a race to that of one in which one of the two accesses is atomic."""


class Use:
    """What an access does, as the compiled checks see it."""

    READ, WRITE, ATOMIC, ATOMIC_READ, SAME, ATOMIC_WRITE = range(6)  # SAME: a write of what is there already
