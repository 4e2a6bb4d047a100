"""The steady step of scheduled fragments as the instructions that a wave issues, before a backend has seen it.

Fragments stand in the order of the scheduled IR. In front of what uses a result of memory or of LDS stands the wait
that LLVM's SIInsertWaitcnts would put there: for all accesses up to that one, in the order in which they were issued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ckmlir.dialect.build import integer_of, text_of
from ckmlir.mlir import ir
from ckmlir.passes.arithmetic import FREE, arithmetic_cycles, is_arithmetic
from ckmlir.passes.lds_traffic import traffic_of
from ckmlir.passes.loop_body import FRAGMENTS, MATRIX, STORES
from ckmlir.passes.walk import target_of
from ckmlir.scheduling.loops import LOADS, lane_bytes, registers_held
from ckmlir.scheduling.problem import ProblemError
from ckmlir.scheduling.steady_blocks import steady_blocks
from ckmlir.targets import Target
from ckmlir.targets.timing import TRANSCENDENTAL, VECTOR_ISSUE

MEMORY, LDS = "memory", "lds"
"""Counters: accesses to memory and to LDS under way, each completed in order."""
REPLAYS = 3
"""Turns after which waits repeat: what is under way at the start of a turn is then what the one before left."""


class Issued(NamedTuple):
    """An instruction of a wave.

    Attributes:
        kind: "matrix", "vector", "transcendental", "scalar", "read", "write", "copy", "load", "store", "wait",
            "barrier", "priority" or "branch".
        cycles: that a matrix instruction keeps its unit busy; of the others the model knows them.
        width: bytes of a lane of an access.
        adds: the chain of sums that a matrix instruction adds to, -1 without one.
        uses: chains of sums that it reads otherwise.
        memory, lds: what a wait allows of each counter, None: any number; `memory` of a priority is its level.
    """

    kind: str
    cycles: int = 0
    width: int = 0
    adds: int = -1
    uses: tuple[int, ...] = ()
    memory: int | None = None
    lds: int | None = None


class StepStream(NamedTuple):
    """The steady block of a loop.

    Attributes:
        body: what a wave issues in one turn of it.
        fragments: how many of those are fragments: a turn may hold several steps.
        chains: of sums.
        registers: of a lane that hold values of vectors where most are alive at a time, addresses not among them.
    """

    body: tuple[Issued, ...]
    fragments: int
    chains: int
    registers: int


def steady_block(module: ir.Module) -> tuple[ir.Operation, ir.Block]:
    """The kernel and block of a scheduled module's main loop.

    Raises:
        ProblemError: the kernel has no loop, or its loop holds a branch.
    """
    blocks = steady_blocks(module)
    if not blocks:
        raise ProblemError("this kernel has no loop")
    if len(blocks) > 1:
        what = "the steady loop of this kernel holds a branch: its step is modelled from machine code only"
        raise ProblemError(f"{what}; expected `evaluate`, which compiles it")
    return blocks[0].owner.operation, blocks[0]


def stream_of(module: ir.Module) -> StepStream:
    """The steady step of a scheduled module, its context entered.

    Raises:
        ProblemError: the kernel has no loop, or its loop holds a branch.
    """
    function, block = steady_block(module)
    return _Reader(block, target_of(function)).stream()


class _Operation(NamedTuple):
    """An operation of the block: what it becomes, without waits, and the numbers of values that it reads and makes."""

    op: ir.Operation
    becomes: tuple[Issued, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    counter: str


class _Reader:
    def __init__(self, block: ir.Block, target: Target) -> None:
        self.block, self.target = block, target
        self.numbers: dict[ir.Value, int] = {value: at for at, value in enumerate(block.arguments)}
        ops = [op.operation for op in block.operations]
        self.handed = self._handed(ops.pop())
        for op in ops:
            for result in op.results:
                self.numbers[result] = len(self.numbers)
        self.chain_of = self._chains(ops)
        self.operations = [self._operation(op) for op in ops]

    def _handed(self, branch: ir.Operation) -> list[ir.Value]:
        """What the block hands to itself."""
        count = len(self.block.arguments)
        operands = list(branch.operands)
        if self.block == next(iter(branch.successors)):
            first = len(branch.operands) and branch.name == "cf.cond_br"
            return operands[int(first) : int(first) + count]
        return operands[len(operands) - count :]

    def _chains(self, ops: Sequence[ir.Operation]) -> dict[int, int]:
        """For each value that is a sum of products the chain of those that share its registers."""
        parent: dict[int, int] = {}

        def root(one: int) -> int:
            while parent.setdefault(one, one) != one:
                one = parent[one]
            return one

        for op in ops:
            if op.name == MATRIX:
                result, sum_ = self.numbers[op.results[0]], self.numbers.get(op.operands[2])
                root(result)
                if sum_ is not None:
                    parent[root(sum_)] = root(result)
        for argument, value in enumerate(self.handed):
            if argument in parent and self.numbers.get(value) in parent:
                parent[root(argument)] = root(self.numbers[value])
        roots = {one: at for at, one in enumerate(dict.fromkeys(map(root, sorted(parent))))}
        return {value: roots[root(value)] for value in parent}

    def _operation(self, op: ir.Operation) -> _Operation:
        reads = tuple(self.numbers[value] for value in op.operands if value in self.numbers)
        makes = tuple(self.numbers[value] for value in op.results)
        becomes = tuple(self._becomes(op, reads))
        counter = MEMORY if op.name in LOADS or op.name in STORES else LDS if traffic_of(op) is not None else ""
        return _Operation(op, becomes, reads, makes, counter)

    def _becomes(self, op: ir.Operation, reads: Sequence[int]) -> Iterator[Issued]:
        uses = tuple(dict.fromkeys(self.chain_of[one] for one in reads if one in self.chain_of))
        traffic = traffic_of(op)
        if op.name == MATRIX:
            adds = self.chain_of[self.numbers[op.results[0]]]
            factors = tuple(one for one in uses if one != adds)
            yield Issued("matrix", self.target.mfma_cycles[text_of(op, "instruction")], adds=adds, uses=factors)
        elif op.name == "ck.copy_fragment":
            yield Issued("scalar")  # M0 has where it goes
            yield Issued("copy", width=lane_bytes(op))
        elif traffic is not None:
            yield Issued("write" if traffic.writes else "read", width=lane_bytes(op), uses=uses)
        elif op.name in LOADS or op.name in STORES:
            yield Issued("load" if op.name in LOADS else "store", width=lane_bytes(op), uses=uses)
        elif op.name == "ck.barrier":
            yield Issued("barrier")
        elif op.name == "ck.priority":
            yield Issued("priority", memory=integer_of(op, "level"))
        elif is_arithmetic(op):
            kind = "transcendental" if op.name in TRANSCENDENTAL else "vector"
            each = self.target.transcendental_cycles if kind == "transcendental" else VECTOR_ISSUE
            yield from [Issued(kind, uses=uses)] * max(1, arithmetic_cycles(op, self.target).busy // each)
        elif op.name.startswith("arith.") and not op.name.startswith(FREE):
            yield Issued("scalar")

    def stream(self) -> StepStream:
        """The block with its waits."""
        waits = _Waits(self.operations)
        pending: Mapping[int, frozenset[tuple[str, int]]] = {}
        body: list[Issued] = []
        for _ in range(REPLAYS):
            body, after = waits.turn(pending)
            handed = (self.numbers.get(value) for value in self.handed)
            pending = {at: after[one] for at, one in enumerate(handed) if one is not None and one in after}
        fragments = sum(one.op.name in FRAGMENTS for one in self.operations)
        return StepStream((*body, Issued("branch")), fragments, len(set(self.chain_of.values())), self._registers())

    def _registers(self) -> int:
        """Values are alive from the operation that makes them to their last user in the step; what an operation that
        becomes no instruction makes is a part of what it reads."""
        parts = {number: frozenset({number}) for number in self.numbers.values()}
        size = {number: registers_held(value) for value, number in self.numbers.items()}
        for one in self.operations:
            if not one.becomes and one.reads:
                parts.update(dict.fromkeys(one.makes, frozenset[int]().union(*(parts[value] for value in one.reads))))
        handed = (self.numbers.get(value) for value in self.handed)
        alive = frozenset[int]().union(*(parts[value] for value in handed if value is not None))
        most = held = sum(size[value] for value in alive)
        for one in reversed(self.operations):
            ended = frozenset(one.makes) & alive
            begun = frozenset[int]().union(*(parts[value] for value in one.reads)) - (alive - ended)
            alive = (alive - ended) | begun
            held += sum(size[value] for value in begun) - sum(size[value] for value in ended)
            most = max(most, held)
        return most


class _Waits:
    """Counts accesses as they are issued, and says what has to be waited for.

    Attributes:
        issued: accesses so far, by counter; `done`: how many of them are known to be complete.
        copies: numbers of accesses to memory that are copies to LDS.
    """

    def __init__(self, operations: Sequence[_Operation]) -> None:
        self.operations = operations
        self.issued = {MEMORY: 0, LDS: 0}
        self.done = dict(self.issued)
        self.copies: list[int] = []

    def turn(
        self, pending: Mapping[int, frozenset[tuple[str, int]]]
    ) -> tuple[list[Issued], dict[int, frozenset[tuple[str, int]]]]:
        """One turn of the block, and which accesses each value depends on that nobody has waited for."""
        values, body = dict(pending), []
        for one in self.operations:
            needed = frozenset[tuple[str, int]]().union(*(values.get(value, frozenset()) for value in one.reads))
            if one.op.name == "ck.wait":
                body += self._asked(one.op)
            elif not one.becomes:
                values.update(dict.fromkeys(one.makes, needed))
            else:
                body += self._for(needed)
                body += one.becomes
                if one.counter:
                    values.update(dict.fromkeys(one.makes, frozenset({(one.counter, self.issued[one.counter])})))
                    if one.op.name == "ck.copy_fragment":
                        self.copies.append(self.issued[MEMORY])
                    self.issued[one.counter] += 1
        return body, values

    def _for(self, needed: frozenset[tuple[str, int]]) -> list[Issued]:
        last = dict.fromkeys(self.issued, -1)
        for counter, number in needed:
            last[counter] = max(last[counter], number)
        return self._until({counter: number + 1 for counter, number in last.items()})

    def _asked(self, op: ir.Operation) -> list[Issued]:
        """A wait that stands in the program."""
        done = dict(self.done)
        if "lds" in op.attributes:
            done[LDS] = self.issued[LDS] - integer_of(op, "lds")
        if "vector_memory" in op.attributes:
            done[MEMORY] = self.issued[MEMORY] - integer_of(op, "vector_memory")
        if "copies" in op.attributes:
            left = integer_of(op, "copies")
            over = self.copies[: len(self.copies) - left]
            done[MEMORY] = max(done[MEMORY], over[-1] + 1 if over else 0)
        return self._until(done)

    def _until(self, complete: Mapping[str, int]) -> list[Issued]:
        """The wait until so many accesses of each counter are complete; none where they are."""
        new = {counter: number for counter, number in complete.items() if number > self.done[counter]}
        if not new:
            return []
        self.done.update(new)
        allowed = {counter: self.issued[counter] - number for counter, number in new.items()}
        return [Issued("wait", memory=allowed.get(MEMORY), lds=allowed.get(LDS))]
