"""Reading a control-flow graph: what a branch hands to whom, and where ways meet again."""

from functools import cached_property

from ckmlir.mlir import ir


def handed(branch: ir.Operation, successor: int) -> list[ir.Value]:
    """The operands that a branch hands to the arguments of one of its successors (by number)."""
    operands = list(branch.operands)
    if branch.name == "cf.br":
        return operands
    middle = 1 + len(branch.successors[0].arguments)
    return operands[1:middle] if successor == 0 else operands[middle:]


def handed_over(op: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """(operand, block argument) pairs of an operation; none for what is not a branch."""
    return [
        pair
        for number, block in enumerate(op.successors)
        for pair in zip(handed(op, number), block.arguments, strict=True)
    ]


def terminator(block: ir.Block) -> ir.Operation:
    """The last operation of a block."""
    return block.operations[-1].operation


class Graph:
    """The blocks of a kernel and the ways between them."""

    def __init__(self, function: ir.Operation) -> None:
        self.blocks = list(function.regions[0])
        self.successors = {block: list(terminator(block).successors) for block in self.blocks}

    def joins(self, block: ir.Block) -> ir.Block | None:
        """The first block that all ways from the end of a block to the kernel's end lead through, if there is one."""
        after = self._after[block] - {block}
        return next((one for one in after if self._after[one] == after), None)

    def goes_back(self, block: ir.Block, to: ir.Block) -> bool:
        """Whether every way from the kernel's beginning to a block leads through `to`, where it then goes."""
        return to in self._before[block]

    def comes_back(self, block: ir.Block) -> bool:
        """Whether a loop begins with a block."""
        return any(block in self.successors[one] and self.goes_back(one, block) for one in self.blocks)

    @cached_property
    def _after(self) -> dict[ir.Block, set[ir.Block]]:
        """For every block those that all ways from it to the kernel's end lead through, itself included."""
        ends = [block for block in self.blocks if not self.successors[block]]
        return _always(self.blocks[::-1], self.successors, ends)

    @cached_property
    def _before(self) -> dict[ir.Block, set[ir.Block]]:
        """For every block those that all ways from the kernel's beginning to it lead through, itself included."""
        came: dict[ir.Block, list[ir.Block]] = {block: [] for block in self.blocks}
        for block, successors in self.successors.items():
            for to in successors:
                came[to].append(block)
        return _always(self.blocks, came, self.blocks[:1])


def _always(
    blocks: list[ir.Block], next_to: dict[ir.Block, list[ir.Block]], ends: list[ir.Block]
) -> dict[ir.Block, set[ir.Block]]:
    """For every block those on all ways to one of the ends."""
    found = {block: {block} if block in ends else set(blocks) for block in blocks}
    changed = True
    while changed:
        changed = False
        for block in blocks:
            if block in ends:
                continue
            others = [found[one] for one in next_to[block]]
            new = {block} | (set.intersection(*others) if others else set(blocks))
            changed |= new != found[block]
            found[block] = new
    return found
