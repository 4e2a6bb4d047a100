"""Kernels that multiply no matrices are compiled as for a chip without matrix instructions.

LLVM then knows one file of vector registers instead of two. It keeps account of pressure in both, and when all is done
asks of each register, from the last one down, whether a kernel uses it or any of the tuples that it is in, up to 32
registers long (SIRegisterInfo, getNumUsedPhysRegs). Copies, transposes and norms take .92 to .95 of their time so. Of
74 listed kernels of rows, tensors and layouts 54 have the same code and 20 another order, with 21 vector registers
fewer in 2707 and 68 bytes more in 123348.

The second file also takes what the first has no room for. So a kernel that spills is compiled again for the whole chip.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ckmlir.dialect.build import text_of
from ckmlir.lowering.forgotten_states import MATRIX
from ckmlir.mlir import ir

FEATURES = "-mai-insts"
"""What LLVM is told of the chip (AMDGPU.td, FeatureMAIInsts)."""
NOTE = {".agpr_count": 0}
"""What the metadata says of a kernel on a chip with a second file, which LLVM then leaves out."""
ASSEMBLY = "llvm.inline_asm"
INTRINSIC = "llvm.call_intrinsic"
_SECOND_FILE = re.compile(r"mfma|smfmac|accvgpr|\ba(?:\d|\[)")
_CONSTRAINT = re.compile(r"(?:^|,)[=&~]*(?:a(?:,|$)|\{a)")


def can_spare(names: Collection[str], assemblies: Collection[ir.Operation]) -> bool:
    """Whether kernels with operations of these names, and these pieces of assembly, have no use for matrix
    instructions and their registers. What has no operations may be assembly as a whole, and an intrinsic that is called
    by name any instruction.
    """
    return (
        bool(names)
        and not any(name == INTRINSIC or name.startswith(MATRIX) for name in names)
        and not any(_needs_second_file(one) for one in assemblies)
    )


def _needs_second_file(assembly: ir.Operation) -> bool:
    text, constraints = text_of(assembly, "asm_string"), text_of(assembly, "constraints")
    return bool(_SECOND_FILE.search(text) or _CONSTRAINT.search(constraints))
