"""The innermost loops of a control-flow graph whose loops have been expanded."""

from ckmlir.mlir import ir


def innermost_loops(function: ir.Operation) -> list[frozenset[int]]:
    """The blocks, by number, of every loop that holds no other: natural loops, in the order of their first blocks.

    Blocks stand in the order of the program, as the expansion of loops leaves them: an edge that does not lead forward
    closes a loop.
    """
    blocks = list(function.regions[0])
    number = {block: index for index, block in enumerate(blocks)}
    leads_to = [[number[to] for to in block.operations[-1].operation.successors] for block in blocks]
    comes_from: list[list[int]] = [[] for _ in blocks]
    for block, successors in enumerate(leads_to):
        for successor in successors:
            comes_from[successor].append(block)
    loops: dict[int, set[int]] = {}
    for block, successors in enumerate(leads_to):
        for head in successors:
            if head <= block:
                loops.setdefault(head, {head}).update(_between(head, block, comes_from))
    return [
        frozenset(inside)
        for head, inside in sorted(loops.items())
        if not any(other != head and other in inside for other in loops)
    ]


def _between(head: int, end: int, comes_from: list[list[int]]) -> set[int]:
    """What lies on a way from a loop's head to its end."""
    found, pending = {head}, [end]
    while pending:
        block = pending.pop()
        if block not in found:
            found.add(block)
            pending += comes_from[block]
    return found
