"""Scheduling problems of loops in fragment IR (after ck-split-tiles)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ckmlir.diagnostics import position_of
from ckmlir.dialect.build import producer, registers_of, text_of
from ckmlir.dialect.fragment_lds import tensor_bytes
from ckmlir.dialect.loop import schedule_of
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.schedule import Schedule
from ckmlir.dialect.types import LdsType, WindowType, describe
from ckmlir.mlir import ir
from ckmlir.passes.arithmetic import FREE, elements_of, least_cycles
from ckmlir.passes.lds_traffic import Traffic, traffic_of
from ckmlir.passes.loop_body import (
    STORES,
    by_stage,
    fragments_of,
    handed_on,
    holds_loop,
    operands_of,
    source_of,
    stage_of,
    within,
)
from ckmlir.passes.walk import target_of, waves_of
from ckmlir.scheduling.problem import Edge, Limits, Node, Problem, ProblemError
from ckmlir.targets import Target
from ckmlir.targets.timing import UNITS, Cycles, lds_cycles, matrix_cycles, memory_cycles, vector_cycles

GATHERS = frozenset({"ck.gather_fragment", "ck.scatter_fragment", "ck.atomic_scatter_fragment"})
L1_LANE_BYTES = 4
"""Of a lane, for which the L1 cache takes as long as the address unit for 64 lanes."""
LOADS = frozenset({"ck.load_fragment", "ck.gather_fragment", "ck.copy_fragment"})


def problem_of(loop: ir.Operation) -> Problem:
    """The problem of a loop.

    Raises:
        ProblemError: the loop holds another one.
        ValueError: its schedule cannot be read.
        PassFailure: no chip is named for its kernel.
    """
    return _Builder(loop).build()


@dataclass
class _Builder:
    loop: ir.Operation

    def build(self) -> Problem:
        function = self.loop.parent.operation
        while function.name != "func.func":
            function = function.parent.operation
        target, waves = target_of(function), waves_of(function)
        block = self.loop.regions[0].blocks[0]
        body = [op.operation for op in block.operations][:-1]
        if holds_loop(self.loop):
            raise ProblemError("only innermost loops are scheduling problems; this one holds another")
        schedule = schedule_of(self.loop)
        inside = [op for op in body if _is_node(op)]
        number = {op: place for place, op in enumerate(inside)}
        flow = list(_flow(body, block))
        carried = {producer(value) for value in handed_on(block)}
        ends = _ends(body, inside)
        index = _indices(body, schedule)
        nodes = []
        for place, op in enumerate(inside):
            unit, time, least = _work(op, target)
            position = position_of(op.location)
            nodes.append(Node(
                place, op.name, stage_of(op) or "", index.get(op, -1), unit, time.latency, time.busy, time.issue,
                time.source, sum(map(registers_held, op.results)), ends.get(op, 0), *_tensor(op),
                f"{position.file}:{position.line}" if position else "", op in carried, least,
            ))  # fmt: skip
        edges = {
            Edge(number[one], number[two], "flow", nodes[number[one]].latency, distance)
            for one, two, distance in _through(flow, number)
        }
        edges |= set(_lds_edges(inside, number, nodes, schedule)) | set(_memory_edges(inside, number, nodes))
        registers = target.registers
        share = registers.vector_total // max(1, -(-waves // target.simds))
        limits = Limits(
            min(share, registers.vector_per_wave), min(share // 2, registers.accumulation_per_wave), target.lds_bytes,
            waves, target.simds, {unit.name: unit.shared for unit in UNITS.values()}, waves > 1,
        )  # fmt: skip
        effects = tuple(number[op] for op in inside if any(one.name in STORES for one in within(op)))
        name = str(function.attributes["sym_name"].value)
        order = sorted(edges, key=lambda edge: (edge.source, edge.target, edge.kind, edge.distance))
        return Problem(
            name, target.name, tuple(nodes), tuple(order), limits, schedule.buffers, effects, schedule.groups
        )


def _indices(body: list[ir.Operation], schedule: Schedule) -> dict[ir.Operation, int]:
    """The numbers that fragments have in the text of a schedule."""
    stages = by_stage(body)
    fragments = [fragments_of(stages, stage, arithmetic=schedule.elements > 0) for stage in stages]
    return {op: number for ops in fragments for number, op in enumerate(ops)}


class Work(NamedTuple):
    """What an operation has to do: on which unit, how long, and how long at least (None: that long)."""

    unit: str
    cycles: Cycles
    least: int | None


def _work(op: ir.Operation, target: Target) -> Work:
    if len(op.regions):
        return _work_of_branch(op, target)
    unit = _unit(op)
    return Work(unit, _cycles(op, target), least_cycles(op, target).busy if unit == "vector" else None)


def _work_of_branch(branch: ir.Operation, target: Target) -> Work:
    """What the dearest way has to do, on the unit that has most of it, one operation behind the other; at least what
    the cheapest way has to do there."""
    ways = [
        [_work(op.operation, target) for block in way for op in list(block.operations)[:-1] if _is_node(op.operation)]
        for way in branch.regions
    ]
    dearest = max(ways, key=lambda way: sum(one.cycles.busy for one in way))
    busy = Counter[str]()
    for one in dearest:
        busy[one.unit] += one.cycles.busy
    unit = max(busy, key=lambda name: busy[name], default="vector")
    least = min(sum(one.cycles.busy if one.least is None else one.least for one in way if one.unit == unit)
                for way in ways)  # fmt: skip
    issue = sum(one.cycles.issue for one in dearest)
    latency = max([issue, *(one.cycles.latency for one in dearest)])
    return Work(unit, Cycles(latency, busy[unit], issue, f"the dearest of {len(ways)} ways of a branch"), least)


def _is_node(op: ir.Operation) -> bool:
    """Whether an operation becomes instructions."""
    return not op.name.startswith(FREE)


def _unit(op: ir.Operation) -> str:
    if op.name == "ck.mfma":
        return "matrix"
    if op.name in STORES or op.name in LOADS:
        return "memory"
    return "lds" if traffic_of(op) is not None else "vector"


def _cycles(op: ir.Operation, target: Target) -> Cycles:
    if op.name == "ck.mfma":
        return matrix_cycles(target, text_of(op, "instruction"))
    if op.name in STORES or op.name in LOADS:
        # Lanes that gather may all want the same bytes.
        return memory_cycles(target, L1_LANE_BYTES if op.name in GATHERS else lane_bytes(op))
    if (traffic := traffic_of(op)) is not None:
        return lds_cycles(target, "write" if traffic.writes else "read", lane_bytes(op))
    return vector_cycles(target, op.name, elements_of(op))  # packed instructions are not assumed


def lane_bytes(op: ir.Operation) -> int:
    """Bytes of a lane."""
    for operand in op.operands:
        if not isinstance(operand.type, (ir.VectorType, ir.IntegerType)):
            described = describe(operand.type)
            if isinstance(described, (LdsType, WindowType)):
                return max(4, len(registers_of(op)) * bits(described.element) // 8)
    return 4


def registers_held(value: ir.Value) -> int:
    """Vector registers of a lane that a value takes."""
    if not isinstance(value.type, ir.VectorType):
        return 0
    vector = ir.VectorType(value.type)
    elements: int = prod(vector.shape)
    return -(-elements * bits(vector.element_type) // 32)


def _tensor(op: ir.Operation) -> tuple[str, int]:
    """The name and bytes of the LDS tensor that an operation accesses; of a branch, that it accesses first."""
    traffic = next(_traffic(op), None)
    alloc = producer(traffic.tensor) if traffic else None
    if alloc is None:
        return "", 0
    return text_of(alloc, "name") if "name" in alloc.attributes else "unnamed", tensor_bytes(alloc)


def _traffic(op: ir.Operation) -> Iterator[Traffic]:
    """What an operation, or what a branch holds, does to LDS."""
    return (traffic for one in within(op) if (traffic := traffic_of(one)) is not None)


Dependence = tuple[ir.Operation, ir.Operation, int]
"""The second operation, so many iterations later, uses what the first computes."""


def _flow(body: list[ir.Operation], block: ir.Block) -> Iterator[Dependence]:
    handed, inside = handed_on(block), set(body)
    for op in body:
        for operand in operands_of(op):
            value, distance = source_of(operand, block, handed)
            source = producer(value)
            if source is not None and source in inside and source.name != "ck.lds_alloc":
                yield source, op, distance


def _through(flow: list[Dependence], number: dict[ir.Operation, int]) -> Iterator[Dependence]:
    """The dependences between nodes, through operations that are not nodes."""
    before: dict[ir.Operation, list[tuple[ir.Operation, int]]] = {}
    for source, op, distance in flow:
        before.setdefault(op, []).append((source, distance))
    for op in number:
        pending, seen = list(before.get(op, ())), set()
        while pending:
            source, distance = pending.pop()
            if (source, distance) in seen or distance > len(number):
                continue
            seen.add((source, distance))
            if source in number:
                yield source, op, distance
            else:
                pending += [(one, distance + more) for one, more in before.get(source, ())]


def _ends(body: list[ir.Operation], inside: list[ir.Operation]) -> dict[ir.Operation, int]:
    """Registers whose last use in program order is a node."""
    place = {one: number for number, op in enumerate(body) for one in within(op)}
    found: dict[ir.Operation, int] = {}
    for op in inside:
        for result in op.results:
            users = [use.owner.operation for use in result.uses]
            last = max((place[user] for user in users if user in place), default=None)
            if last is not None:
                found[body[last]] = found.get(body[last], 0) + registers_held(result)
    return found


def _lds_edges(
    inside: list[ir.Operation], number: dict[ir.Operation, int], nodes: list[Node], schedule: Schedule
) -> Iterator[Edge]:
    """A read follows the writes of its tensor; the writes as many iterations on as it has buffers follow the read."""
    tensors: dict[ir.Value, tuple[list[ir.Operation], list[ir.Operation]]] = {}
    for op in inside:
        for traffic in dict.fromkeys(_traffic(op)):
            tensors.setdefault(traffic.tensor, ([], []))[0 if traffic.writes else 1].append(op)
    for tensor, (writes, reads) in tensors.items():
        owner = producer(tensor)
        rotates = owner is not None and owner.block == inside[0].block
        buffers = schedule.buffers_of(nodes[number[(*writes, *reads)[0]]].tensor) if rotates else 1
        for write in writes:
            for read in reads:
                if write != read:  # both of a branch
                    yield Edge(number[write], number[read], "memory", nodes[number[write]].latency, 0)
                yield Edge(number[read], number[write], "anti", nodes[number[read]].issue, buffers, rotates)


def _memory_edges(inside: list[ir.Operation], number: dict[ir.Operation, int], nodes: list[Node]) -> Iterator[Edge]:
    """Loads and stores that may touch the same memory keep their order, over iterations too."""
    accesses = [(number[op], one) for op in inside for one in within(op) if one.name in LOADS or one.name in STORES]
    for place, (first, one) in enumerate(accesses):
        for second, two in accesses[place:]:
            if not {one.name, two.name} & STORES or _apart(one, two):
                continue
            if first != second:
                kind = "anti" if one.name in LOADS else "output" if two.name in STORES else "memory"
                yield Edge(first, second, kind, nodes[first].issue, 0)
            kind = "output" if first == second else "memory"
            yield Edge(second, first, kind, nodes[second].issue, 1)


def _apart(one: ir.Operation, two: ir.Operation) -> bool:
    """Whether two accesses go through different pointers that are marked to lead to memory of their own."""
    left, right = _pointer(one), _pointer(two)
    return left is not None and right is not None and left != right


def _pointer(op: ir.Operation) -> ir.Value | None:
    """The kernel's argument that an access's memory is reached through, if it alone leads there; None if not known."""
    value: ir.Value | None = op.operands[0 if op.name in LOADS else 1]
    while value is not None and not isinstance(value, ir.BlockArgument):
        owner = producer(value)
        value = owner.operands[0] if owner is not None and len(owner.operands) else None
    if value is None:
        return None
    function = value.owner.owner.operation
    if function.name != "func.func" or "arg_attrs" not in function.attributes:
        return None
    return value if "llvm.noalias" in function.attributes["arg_attrs"][value.arg_number] else None
