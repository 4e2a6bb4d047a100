"""A stopped wave: its registers, and the LDS of its workgroup, as typed arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ckmlir.sim import state
from ckmlir.sim.decode.instruction import Instruction, Operand
from ckmlir.sim.runner import Runner

_NAMED = {
    "vcc": (state.VCC, 2), "exec": (state.EXEC, 2), "m0": (state.M0, 1), "scc": (state.SCC, 1),
    "flat_scratch": (4 * 102, 2), "xnack_mask": (4 * 104, 2), "mode": (state.MODE, 1),
}  # fmt: skip
"""Byte offset in the wave block and dwords of registers with a name of their own (`decode/instruction.py`)."""
_RANGE = re.compile(r"([vas])(?:(\d+)|\[(\d+):(\d+)\])")
_LAST = {"v": 255, "a": 255, "s": 101}


class Wave:
    """One wave before it executes an instruction, or after.

    Attributes:
        number: Of the wave in its workgroup.
        workgroup: Coordinates (x, y, z).
        instruction: That it is about to execute, or has just executed.
        record: Number of the instruction's first record.
    """

    def __init__(self, runner: Runner, number: int, instruction: Instruction, record: int) -> None:
        self._runner = runner
        self._bytes: npt.NDArray[np.uint8] = runner.blocks.bytes[number]
        self.number, self.instruction, self.record = number, instruction, record
        self.workgroup = runner.current_workgroup

    def register(self, name: str, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """A copy of a register or a range of registers.

        Args:
            name: "v3", "v[4:7]", "a0", "s7", "s[4:5]", "vcc", "exec", "scc", "m0", "flat_scratch", "xnack_mask",
                "mode".
            dtype: Of the elements, 1 to 8 bytes; 8 bytes take two registers each.

        Returns:
            Scalar registers: elements in order. Vector registers: [register, lane], with a last dimension for dtypes
            of which a register holds several; the first dimension is left out for a single register or pair.

        Raises:
            ValueError: No such register, or a dtype that does not fit.
        """
        if name in _NAMED:
            return self._scalars(*_NAMED[name], np.dtype(dtype), name)
        match = _RANGE.fullmatch(name)
        if match is None:
            raise ValueError(f"no register {name!r}; write v3, v[4:7], a0, s7, s[4:5], {', '.join(_NAMED)}")
        first, last = (int(match[2]),) * 2 if match[2] else (int(match[3]), int(match[4]))
        if not first <= last <= _LAST[match[1]]:
            raise ValueError(f"{name}: registers {match[1]}0 to {match[1]}{_LAST[match[1]]} exist, in ascending order")
        return self.operand(Operand(match[1], first, last - first + 1, name), dtype)

    def operand(self, operand: Operand, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """What an operand holds, as `register` gives it; the bits of a constant. Raises ValueError as `register`."""
        item = np.dtype(dtype)
        if operand.kind == "imm":
            size = max(4 * operand.count, item.itemsize)
            return np.frombuffer((operand.index & (1 << 8 * size) - 1).to_bytes(size, "little"), item)
        if operand.kind == "off":
            return np.zeros(0, item)
        if operand.kind == "s":
            offset = state.scalar_offset(operand.index)
            if offset is None:  # vccz, execz: a question about another register
                other = self.register("vcc" if operand.index == 251 else "exec")
                return np.array([not other.any()]).astype(item)
            return self._scalars(offset, operand.count, item, operand.text)
        offset, count = state.register_offset(operand), operand.count
        words = self._bytes[offset : offset + count * state.VGPR_BYTES].view(np.uint32).reshape(count, state.LANES)
        if item.itemsize == 8:
            _check_dtype(count, item, operand.text)
            words = words.reshape(count // 2, 2, state.LANES).transpose(0, 2, 1)
            typed: npt.NDArray[Any] = np.ascontiguousarray(words).view(item)[..., 0]
        else:
            _check_dtype(1, item, operand.text)
            typed = words.copy().view(item).reshape(count, state.LANES, 4 // item.itemsize)
            typed = typed[..., 0] if item.itemsize == 4 else typed
        return typed[0] if len(typed) == 1 else typed

    def _scalars(self, offset: int, count: int, item: np.dtype[Any], name: str) -> npt.NDArray[Any]:
        _check_dtype(count, item, name)
        found: npt.NDArray[Any] = self._bytes[offset : offset + 4 * count].copy().view(item)
        return found

    def lds(self, dtype: npt.DTypeLike = np.uint8, offset: int = 0, count: int | None = None) -> npt.NDArray[Any]:
        """A copy of `count` elements of the workgroup's LDS from a byte offset; without a count, all that follow.

        Raises:
            LaunchError: The range is not within the workgroup's LDS.
        """
        return self._runner.lds.read(dtype, count, offset)


def _check_dtype(dwords: int, item: np.dtype[Any], name: str) -> None:
    if item.hasobject or not item.itemsize or 4 * dwords % item.itemsize:
        raise ValueError(f"{name} has {4 * dwords} bytes (a lane), which {item} with {item.itemsize} does not divide")
