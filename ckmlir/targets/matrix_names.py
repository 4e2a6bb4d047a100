"""Names of matrix instructions that follow from types and shapes: chips list theirs without the table (`mfma`)."""

from itertools import product

LANES = 64
"""Of a wave: CDNA ISA, "Wavefront"."""
NARROW = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""The operand types of the f8f6f4 instructions, in the order of their format codes (CBSZ and BLGP 0 to 4)."""
SPARSE_BYTES = {"f16": 2, "bf16": 2, "i8": 1, "fp8": 1, "bf8": 1}
"""Of an element of A and B in sparse matrix instructions."""
EIGHT_BIT_FLOATS = ("fp8", "bf8")
SPARSE_PAIRS = (("f16", "f16"), ("bf16", "bf16"), ("i8", "i8"), *product(EIGHT_BIT_FLOATS, repeat=2))
"""What they multiply."""


def sparse_name(m: int, bytes_of_b: int, a: str, b: str) -> str:
    """The sparse matrix instruction of m x m results whose lanes hold so many bytes of B."""
    k = bytes_of_b // SPARSE_BYTES[b] * LANES // m
    return f"smfmac.{'i32' if a == 'i8' else 'f32'}.{m}x{m}x{k}.{f'{a}.{b}' if a in EIGHT_BIT_FLOATS else a}"


def sparse_cycles(bytes_of_b: int) -> dict[str, int]:
    """The sparse instructions whose lanes hold so many bytes of B: 8 passes of 4 cycles for 32 x 32, 4 for 16 x 16
    (LLVM, SISchedule.td; for gfx942 AMD's matrix instruction calculator has the same).
    """
    return {sparse_name(m, bytes_of_b, a, b): m for m in (32, 16) for a, b in SPARSE_PAIRS}  # as many cycles as rows
