"""Programs of the language that nobody wrote: verified after every pass, proved, run under all checkers, and compared
with NumPy.

Some run by default, 300 with `full`. `python test/lang/test_drawn_programs.py 1000 200` draws 200 others.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced
from program_drawing import Drawing

from ckmlir.targets import get_target


@pytest.mark.one_in(200)
@pytest.mark.parametrize("seed", range(300))
def test_a_drawn_program(seed: int) -> None:
    """Loads, arithmetic, reductions, scans, moves through LDS, indices, loops, branches, of tiles that lie anyhow."""
    program = Drawing(seed).program()
    compiled = compile_traced(program.traced(get_target(CHIPS[seed % len(CHIPS)])), large=True)
    found = compiled.run(*program.arrays, np.int32(3), checks="all")
    for number, (got, wanted) in enumerate(zip(found, program.computed(), strict=True)):
        np.testing.assert_array_equal(got, wanted, f"array {number}")


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for drawn in range(first, first + count):
        try:
            test_a_drawn_program(drawn)
        except Exception as error:  # any failure of a seed is a finding to print; the seeds behind it still run
            print(drawn, CHIPS[drawn % len(CHIPS)], type(error).__name__, str(error).strip()[:300], flush=True)
