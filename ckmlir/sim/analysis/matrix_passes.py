"""How long matrix instructions take, in passes of four cycles, and on which pipeline they run.

Source: the scheduling models of LLVM's AMDGPU back end (SISchedule.td), which its hazard recognizer reads; AMD's CDNA3
ISA, table "Passes" of section 7.1, gives the same numbers.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_SHAPE: Final = re.compile(r"v_(?:mfma|smfmac)(?:_scale)?_(?:f32|i32|f64)_(\d+)x(\d+)x(\d+)_?(\w*)")


@cache
def _shape(mnemonic: str) -> tuple[int, int, str]:
    """Rows of the product (as in 32x32), K, and the rest of the name."""
    found = _SHAPE.match(mnemonic)
    if found is None:
        raise ValueError(f"{mnemonic} is not a matrix instruction")
    return int(found[1]), int(found[3]), found[4]


def contraction(mnemonic: str) -> int:
    """K: the products that each element of the result is a sum of."""
    return _shape(mnemonic)[1]


def is_double(mnemonic: str) -> bool:
    """Whether it multiplies f64 matrices (DGEMM)."""
    return "_f64_" in mnemonic


def runs_on_xdl(mnemonic: str, target: str) -> bool:
    """Whether it runs on the XDL pipeline: all but f64, and on gfx942 and later all but f32 inputs."""
    if is_double(mnemonic):
        return False
    return target == "gfx90a" or mnemonic.startswith("v_smfmac") or not re.search(r"[\d_b]f32$", mnemonic[12:])


def passes(mnemonic: str, target: str, fast_formats: bool = False) -> int:
    """Passes of a matrix instruction: 2, 4, 8 or 16. `fast_formats`: neither A nor B of an f8f6f4 instruction has
    8-bit elements, which halves its time."""
    rows, k, rest = _shape(mnemonic)
    if is_double(mnemonic):
        return 4 if rows == 4 else 16 if target == "gfx950" else 8
    if rows == 4:
        return 2
    if target == "gfx90a":
        return {16: 8, 32: 16}[rows]
    if mnemonic.endswith("f8f6f4"):
        return {16: 8, 32: 16}[rows] // (2 if fast_formats else 1)
    if mnemonic.startswith("v_smfmac") or "xf32" in rest:
        return {16: 4, 32: 8}[rows]
    return {16: 8 if k <= 4 else 4, 32: 16 if k <= 4 else 8}[rows]
