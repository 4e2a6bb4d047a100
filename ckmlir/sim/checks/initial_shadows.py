"""Which registers are defined when a wave starts (LLVM's AMDGPU user guide, "Initial Kernel Execution State")."""

from __future__ import annotations

import numpy as np

from ckmlir.codeobject import Kernel
from ckmlir.sim import state
from ckmlir.sim.launch import WaveBlocks

_ALWAYS_DEFINED = (*range(102, 106), *range(108, 124), 126, 127)  # flat_scratch, xnack_mask, trap registers, exec


def define_initial_registers(template: WaveBlocks, kernel: Kernel, user_registers: int, target: str) -> None:
    """Set the shadows of the waves' blocks: user SGPRs, workgroup ids and v0 are defined. Lanes beyond the end of the
    workgroup do not exist, so that nothing in them is undefined."""
    descriptor = kernel.descriptor
    shadows = template.shadow.view(np.uint32)
    shadows[:] = 0
    defined = user_registers + sum(descriptor.workgroup_id_enabled) + descriptor.workgroup_info_enabled
    defined += bool(descriptor.enable_private_segment and target == "gfx90a")
    shadows[:, defined:128] = 0xFFFF_FFFF
    shadows[:, _ALWAYS_DEFINED] = 0
    shadows[:, state.SCC // 4] = 0xFFFF_FFFF
    exec = template.words(state.EXEC, 8, np.uint8)
    present = np.unpackbits(exec, axis=1, bitorder="little").astype(bool)
    lanes = np.where(present, np.uint32(0xFFFF_FFFF), np.uint32(0))
    vectors = shadows[:, state.VGPR // 4 :].reshape(len(shadows), -1, 64)
    vectors[:] = lanes[:, None, :]
    vectors[:, 0] = 0
    template.mixed[:] = 1
    template.mixed[:, 0] = 0
