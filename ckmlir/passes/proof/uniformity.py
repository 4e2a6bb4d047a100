"""All waves of a workgroup take the same way to every barrier and every access to LDS.

A value is uniform when it follows from the kernel's arguments, the workgroup's position, constants, and memory at a
uniform place that the kernel does not change. Others differ between the lanes of a wave, or between waves; what lane 0
holds (`ck.first_lane`) only differs between waves. Where an element of a tile becomes a scalar, all waves hold copies
of it, which are equal unless waves read memory at times of their own, or went different ways, to make them. Where waves
or lanes have gone different ways, so has what the ways hand over. A branch on anything that differs may send waves, or
lanes, different ways; then what lies on the way to the point where the ways meet again must neither be a barrier (some
waves would wait for ever) nor touch LDS (the proof about hazards follows one way at a time).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ckmlir.dialect.build import registers_of, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.memory import INVARIANT
from ckmlir.mlir import ir
from ckmlir.passes.proof.finding import Finding, words_for
from ckmlir.passes.proof.flow import Graph, handed, handed_over, terminator
from ckmlir.passes.proof.footprints import is_access
from ckmlir.passes.proof.terms import EFFECTS, memory_root

UNIFORM_SOURCES = frozenset({"ck.workgroup_id", "ck.lds_alloc", "arith.constant", "ub.poison"})
KEEPING = frozenset({
    "llvm.getelementptr", "llvm.inttoptr", "llvm.ptrtoint", "ck.convert", "ck.make_view", "ck.make_window",
    "ck.move_window", "ck.with_digits", "ck.repack_fragment", "ck.dequantize_fragment", "ck.unpack_fragment",
    "ck.pack_fragment", "ck.rescale_vector", "ck.cut_vector", "ck.anew",
})  # fmt: skip
KEEPING_DIALECTS = ("arith.", "math.", "vector.")
"""What differs only as its operands do."""
ACROSS_LANES = frozenset({"ck.exchange", "ck.half", "ck.row_lane", "ck.mfma"})
"""What makes lanes differ, but not waves that hold the same."""
MEMORY_READS = frozenset({"ck.load_fragment", "ck.gather_fragment"})
PLACED = MEMORY_READS | {
    "ck.lds_read", "ck.lds_gather_fragment", "ck.thread_coordinate", "ck.inside_fragment", "ck.offset_fragment",
}  # fmt: skip
"""What a distribution says for every thread."""
BARRIERS = ("ck.barrier", "ck.group_barrier")

LANES, WAVES, COPIES = 1, 2, 4
"""Other elements in other lanes, or in other waves; copies of one element that waves have made apart."""
ANY = LANES | WAVES | COPIES


class Difference(NamedTuple):
    """Between what a value differs (LANES, WAVES, COPIES), and the operation that makes it do so."""

    between: int
    cause: ir.Operation


def check_uniformity(function: ir.Operation) -> list[Finding]:
    """Findings of the kind `uniform`, one for each operation that waves may reach apart."""
    divergent = _divergent_values(function)
    graph = Graph(function)
    findings: dict[ir.Operation, Finding] = {}
    for branch in map(terminator, graph.blocks):
        if branch.name != "cf.cond_br" or branch.operands[0] not in divergent:
            continue
        for apart in _between(branch, graph):
            for op in (view.operation for view in apart):
                if op.name in BARRIERS or is_access(op):
                    what = "a barrier" if op.name in BARRIERS else words_for(op)
                    cause = divergent[branch.operands[0]].cause
                    message = (
                        f"some waves may not reach {what} with the others: the branch before depends on "
                        f"'{cause.name}', which differs between threads"
                    )
                    notes = (("the branch is here", branch), ("it depends on this", cause))
                    findings.setdefault(op, Finding("uniform", op, message, notes))
    return list(findings.values())


def _divergent_values(function: ir.Operation) -> dict[ir.Value, Difference]:
    """Every value that may differ between threads."""
    graph = Graph(function)
    operations = [view.operation for block in graph.blocks for view in block]
    stored = {memory_root(op, function) for op in operations if op.name in EFFECTS}

    def changes(read: ir.Operation) -> bool:
        """Whether the kernel may change what is read."""
        root = memory_root(read, function)
        return bool(stored if root is None else stored & {root, None})

    computing = [(op, *_own(op, changes)) for op in operations if op.results]
    branches = [branch for block in graph.blocks if (branch := terminator(block)).successors]
    found: dict[ir.Value, Difference] = {}
    changed = True
    while changed:
        changed = False
        for op, own, kept in computing:
            known = [Difference(own, op), *(found[operand] for operand in op.operands if operand in found)]
            for result in op.results:
                changed |= _differs(found, result, known, kept)
        for branch in branches:
            for operand, argument in handed_over(branch):
                changed |= operand in found and _differs(found, argument, [found[operand]])
            if branch.name == "cf.cond_br" and branch.operands[0] in found:
                chosen = [_apart(found[branch.operands[0]])]
                news = [_differs(found, argument, chosen) for argument in _chosen(branch, graph)]
                changed |= any(news)
    return found


def _differs(found: dict[ir.Value, Difference], value: ir.Value, causes: list[Difference], kept: int = ANY) -> bool:
    """Note that a value differs as what it is made of does; whether that is news."""
    known = found.get(value)
    between = known.between if known is not None else 0
    for one in causes:
        if one.between & kept & ~between:
            between |= one.between & kept
            known = Difference(between, known.cause if known is not None else one.cause)
    if known is None or known == found.get(value):
        return False
    found[value] = known
    return True


def _apart(condition: Difference) -> Difference:
    """How what a branch hands over differs: waves that took different ways have no copies of one element any more."""
    return condition._replace(between=condition.between | (COPIES if condition.between & ~LANES else 0))


def _chosen(branch: ir.Operation, graph: Graph) -> list[ir.Value]:
    """What threads that take different ways are handed differently, on these ways and where they meet."""
    end = graph.joins(branch.block)
    found = []
    for block in [*_between(branch, graph), *([end] if end is not None else [])]:
        ways = [
            handed(terminator(one), place)
            for one in graph.blocks
            for place, to in enumerate(graph.successors[one])
            if to == block
        ]
        found += [argument for number, argument in enumerate(block.arguments) if len({way[number] for way in ways}) > 1]
    return found


def _own(op: ir.Operation, changes: Callable[[ir.Operation], bool]) -> tuple[int, int]:
    """How an operation's result differs whatever its operands are, and what it keeps of their differences."""
    if op.name in PLACED:
        own = _spread(text_of(op, "distribution"), registers_of(op) if "registers" in op.attributes else (0,))
        changing = op.name in MEMORY_READS and INVARIANT not in op.attributes
        apart = changing and changes(op)  # waves read at times of their own
        return own | (COPIES if apart else 0), ANY
    if op.name == "llvm.load":
        return (0 if INVARIANT in op.attributes else COPIES), ANY
    if op.name == "ck.first_lane":
        return 0, COPIES if "copies" in op.attributes else WAVES | COPIES
    if op.name in UNIFORM_SOURCES or op.name in KEEPING or op.name.startswith(KEEPING_DIALECTS):
        return 0, ANY
    return (LANES if op.name in ACROSS_LANES else ANY), ANY


@lru_cache(maxsize=1024)
def _spread(distribution: str, registers: tuple[int, ...]) -> int:
    """Whether waves, and lanes, hold different elements."""
    elements = Distribution.parse(distribution).elements()[..., list(registers)]  # [wave, lane, register]
    return (WAVES if (elements != elements[:1]).any() else 0) | (LANES if (elements != elements[:, :1]).any() else 0)


def _between(branch: ir.Operation, graph: Graph) -> list[ir.Block]:
    """The blocks on the ways from a branch to where they meet again."""
    end = graph.joins(branch.block)
    found: dict[ir.Block, None] = {}
    pending = list(branch.successors)
    while pending:
        block = pending.pop()
        if block != end and block not in found:
            found[block] = None
            pending.extend(graph.successors[block])
    return list(found)
