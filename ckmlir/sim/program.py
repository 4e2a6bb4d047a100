"""A kernel made ready to run: its code in memory, decoded, and an array of records with the handlers' addresses."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ckmlir.codeobject import CodeObject, Kernel
from ckmlir.sim import selection, step_recording
from ckmlir.sim.checks.layout import INITIALISATION, INTERLEAVING, RECORDING, WAIT
from ckmlir.sim.checks.shadow import shadow_record
from ckmlir.sim.checks.variants import checked, is_atomic_load
from ckmlir.sim.decode import Instruction, UnknownInstruction, decode
from ckmlir.sim.decode.decoder import decode_all
from ckmlir.sim.errors import MissingInstruction, UnsupportedInstruction
from ckmlir.sim.library import HandlerLibrary
from ckmlir.sim.memory import DeviceMemory, MemoryTable
from ckmlir.sim.register_index import GPR_INDEX_ENABLE, TURNS_INDEXING_ON
from ckmlir.sim.selected import Environment, Selected
from ckmlir.sim.spinning import PAUSE, spinning
from ckmlir.sim.state import RECORD_BYTES, VECTOR_SKIP
from ckmlir.sim.statistics import category_of
from ckmlir.sim.wave_turns import turn_record

MODE_REGISTER = 1
_INDIRECT = ("s_swappc_b64", "s_setpc_b64", "s_call_b64")
_MODE_WRITES = ("s_setreg_b32", "s_setreg_imm32_b32")


def initial_mode(kernel: Kernel) -> int:
    """The MODE register at the start (AMDGPU user guide, COMPUTE_PGM_RSRC1)."""
    descriptor = kernel.descriptor
    return (
        descriptor.float_mode
        | descriptor.dx10_clamp << 8
        | descriptor.ieee_mode << 9
        | descriptor.fp16_overflow << 23
    )  # fmt: skip


def mode_bits_written(instruction: Instruction) -> int:
    """The bits of MODE that an s_setreg writes."""
    if instruction.mnemonic not in _MODE_WRITES:
        return 0
    field = next(item.index for item in instruction.sources if item.text.startswith("hwreg"))
    return ((1 << (field >> 11) + 1) - 1 << (field >> 6 & 31)) if field & 63 == MODE_REGISTER else 0


def environment_of(target: str, kernel: Kernel, instructions: list[Instruction]) -> Environment:
    """What handlers have to look at: only what some instruction of the kernel can change."""
    names = {instruction.mnemonic for instruction in instructions}
    written = 0
    for instruction in instructions:
        written |= mode_bits_written(instruction)
    return Environment(
        target,
        dynamic_mode=initial_mode(kernel) != 0x3F0 or bool(written),
        indexed=TURNS_INDEXING_ON in names or bool(written >> GPR_INDEX_ENABLE & 1),
        skips="s_setvskip" in names or bool(written >> VECTOR_SKIP & 1),
    )


class Program:
    """A kernel placed in memory.

    Attributes:
        code_object, kernel: Where it comes from.
        instructions: In order of address, addresses from the image's start.
        image: The code object in device memory.
        records: Rows of eight u64 (`state.py`): one an instruction, after those that checks put before it.
        own: Record number of each instruction.
        index: Number of the first record of each dword of the image, -1 where no instruction starts.
        start: Number of the first record.
        run_starts: Instructions that begin a straight run (`step_recording.py`), where runs are recorded.
    """

    def __init__(
        self, code_object: CodeObject, kernel: Kernel, library: HandlerLibrary, table: MemoryTable, flags: int = 0
    ) -> None:
        self.code_object, self.kernel = code_object, kernel
        size = len(code_object.image.contents)
        self.image = DeviceMemory(table, size, None, "the code object", "constant", read_only=True)
        contents = code_object.image.load(self.image.address)
        self.image.write(np.frombuffer(contents, np.uint8))
        try:
            self.instructions = _instructions(code_object, kernel, contents)
        except UnsupportedInstruction as error:
            known = [replace(item, source=self.source_of(item.address)) for item in error.missing]
            raise UnsupportedInstruction(kernel.name, known) from None
        self.environment = environment_of(code_object.target, kernel, self.instructions)
        chosen = self._with_checks(self._select(self.environment), flags)
        self.index = np.full(len(code_object.image.contents) // 4 + 1, -1, np.int32)
        for record in range(len(chosen) - 1, -1, -1):
            self.index[self.instructions[self._instruction_of[record]].address // 4] = record
        self.start = self._record_at(self.first_address())
        self.records = np.zeros((len(chosen) + 1, RECORD_BYTES // 8), np.uint64)
        self._remembered: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
        self._fill(chosen, library)

    def first_address(self) -> int:
        """Where waves start. With preloaded arguments the hardware skips 256 bytes that load them for firmware that
        cannot (AMDGPU user guide, "Preloaded Kernel Arguments")."""
        skip = 256 if self.kernel.descriptor.kernarg_preload_length else 0
        return self.kernel.address + skip

    def _select(self, environment: Environment) -> list[Selected]:
        chosen, missing = [], []
        ends = {instruction.address for instruction in self.instructions}
        known: dict[tuple[int, ...], Selected | None] = {}  # a selection depends on the words alone
        for instruction in self.instructions:
            words, target = instruction.words, instruction.branch_target
            if words not in known:
                known[words] = selection.select(instruction, environment)
            selected = known[words]
            if selected is None or (selected.branch >= 0 and target not in ends):
                missing.append(self.missing(instruction, selection.why_not(instruction, environment)))
            else:
                chosen.append(selected)
        if missing:
            raise UnsupportedInstruction(self.kernel.name, missing)
        return chosen

    def _with_checks(self, chosen: list[Selected], flags: int) -> list[Selected]:
        """The handlers of all records: checked variants, and before them ends of turns, shadows, waits and records of
        runs."""
        records: list[Selected] = []
        self._instruction_of: list[int] = []
        own = []
        waits = None
        if flags & WAIT:
            from ckmlir.sim.checks.wait_records import WaitRecords  # the analysis is only imported where it is used

            waits = WaitRecords(self.instructions)
        runs = step_recording.run_records(self.instructions) if flags & RECORDING else {}
        self.run_starts = list(runs)
        for number, (selected, instruction) in enumerate(zip(chosen, self.instructions)):
            turn = turn_record(instruction.mnemonic) if flags & INTERLEAVING else None
            shadow = shadow_record(instruction, selected) if flags & INITIALISATION else None
            records += (one for one in (turn, shadow) if one is not None)
            records += waits.before(instruction, selected) if waits else ()
            if number in self._spinning:
                records.append(PAUSE)
            if number in runs:
                records.append(runs[number])
            own.append(len(records))
            records.append(checked(selected, instruction, flags))
            self._instruction_of += [number] * (len(records) - len(self._instruction_of))
        self.own = np.array(own, np.intp)
        return records

    def missing(self, instruction: Instruction, reason: str) -> MissingInstruction:
        return MissingInstruction(
            instruction.text, instruction.words, instruction.address, self.source_of(instruction.address), reason
        )

    def source_of(self, address: int) -> str | None:
        """ "file:line" of an instruction, None without a line table."""
        found = self.code_object.line_of(address)
        return f"{found[0]}:{found[1]}" if found else None

    def instruction_number(self, record: int) -> int:
        """Number of the instruction that a record belongs to."""
        return self._instruction_of[record]

    def locate(self, number: int) -> tuple[str, int, str, tuple[str, int] | None]:
        """(kernel, byte offset from its start, text, source) of the instruction with a record's number."""
        if not 0 <= number < len(self._instruction_of):
            return self.kernel.name, self.kernel.size, "the end of the code", None
        instruction = self.instructions[self._instruction_of[number]]
        offset = instruction.address - self.kernel.address
        return self.kernel.name, offset, instruction.text, self.code_object.line_of(instruction.address)

    def _record_at(self, address: int) -> int:
        index = int(self.index[address // 4]) if 0 <= address // 4 < len(self.index) else -1
        if index < 0:
            raise UnsupportedInstruction(
                self.kernel.name, [MissingInstruction("no instruction to start at", (), address)]
            )
        return index

    def _fill(self, chosen: list[Selected], library: HandlerLibrary) -> None:
        addresses = library.addresses(dict.fromkeys([*(selected.key for selected in chosen), selection.TRAP]))
        rows, columns = [], []
        for number, selected in enumerate(chosen):
            instruction = self.instructions[self._instruction_of[number]]
            slots = list(selected.slots)
            if selected.branch >= 0 and instruction.branch_target is not None:
                target = int(self.index[instruction.branch_target // 4])
                slots[selected.branch] = (target - number) * RECORD_BYTES
            if selected.after >= 0:
                slots[selected.after] = self.image.address + instruction.address + instruction.size
            if selected.remembered >= 0:
                rows.append(number)
                columns.append(2 + selected.remembered)
            words = [addresses[selected.key], 0, *slots]
            self.records[number, : len(words)] = [word & 0xFFFF_FFFF_FFFF_FFFF for word in words]
        self._remembered = (np.array(rows, np.intp), np.array(columns, np.intp))
        # Falling off the end of the code is an error, not a crash: the last record traps.
        self.records[-1, :3] = (addresses[selection.TRAP], 0, 0xDEAD)

    def fresh_records(self, table_address: int) -> npt.NDArray[np.uint64]:
        """Records for a runner: counters at zero, and every memory instruction starts its search at the table's first
        entry."""
        records: npt.NDArray[np.uint64] = self.records.copy()
        records[self._remembered] = table_address
        return records

    @cached_property
    def addresses(self) -> npt.NDArray[np.int64]:
        """Of the instructions, in order."""
        return np.array([instruction.address for instruction in self.instructions], np.int64)

    @cached_property
    def categories(self) -> list[tuple[str, npt.NDArray[np.intp]]]:
        """Each category of the statistics with the numbers of its instructions, in order of first appearance."""
        members: dict[str, list[int]] = {}
        for number, instruction in enumerate(self.instructions):
            members.setdefault(category_of(instruction), []).append(number)
        return [(name, np.array(numbers, np.intp)) for name, numbers in members.items()]

    @cached_property
    def updates_memory(self) -> bool:
        """Whether there are atomic updates of global memory."""
        return any("_atomic_" in instruction.mnemonic for instruction in self.instructions)

    @cached_property
    def reads_flags(self) -> bool:
        """Whether there are atomic updates or loads of global memory: what they find may order other accesses."""
        return self.updates_memory or any(map(is_atomic_load, self.instructions))

    @cached_property
    def pauses(self) -> bool:
        """Whether waves pause, as where they wait for another workgroup."""
        return bool(self._spinning) or any(instruction.mnemonic == "s_sleep" for instruction in self.instructions)

    @cached_property
    def _spinning(self) -> frozenset[int]:
        """Instructions at which they do without saying so."""
        return spinning(self.instructions)


def _instructions(code_object: CodeObject, kernel: Kernel, contents: bytes) -> list[Instruction]:
    """The kernel's instructions; with indirect jumps in it, those of all other functions of the code object too.
    `contents` is the image after relocation, since literals may be relocated."""
    target = code_object.target
    found = _decode_range(contents, kernel.name, kernel.address, kernel.size, target)
    if any(instruction.mnemonic in _INDIRECT for instruction in found):
        known = {instruction.address for instruction in found}
        kernels = {other.address for other in code_object.kernels.values()}
        for name, (address, size) in sorted(code_object.image.symbols.items(), key=lambda item: item[1]):
            if (
                size
                and address % 4 == 0
                and address not in known
                and address not in kernels
                and not name.endswith(".kd")
            ):
                try:
                    found += _decode_range(contents, name, address, size, target)
                except UnsupportedInstruction:
                    continue  # data; a jump into it is caught when it happens
    unique = {instruction.address: instruction for instruction in found}
    return [unique[address] for address in sorted(unique)]


def _decode_range(contents: bytes, name: str, address: int, size: int, target: str) -> list[Instruction]:
    try:
        return decode_all(contents[address : address + size], address, target)
    except UnknownInstruction:
        return _decode_reachable(contents, name, address, size, target)


def _decode_reachable(contents: bytes, name: str, address: int, size: int, target: str) -> list[Instruction]:
    """Decode only what control flow reaches from the start: there may be padding or data between the instructions."""
    pending, missing = [address], []
    found: dict[int, Instruction] = {}
    while pending:
        place = pending.pop()
        while place not in found and address <= place < address + size:
            try:
                instruction = decode(contents[place : address + size], place, target)
            except UnknownInstruction as error:
                missing.append(MissingInstruction("unknown instruction", error.words, place))
                break
            found[place] = instruction
            if instruction.branch_target is not None:
                pending.append(instruction.branch_target)
            if instruction.mnemonic in ("s_endpgm", "s_branch", "s_setpc_b64"):
                break
            place += instruction.size
    if missing:
        raise UnsupportedInstruction(name, missing)
    return list(found.values())
