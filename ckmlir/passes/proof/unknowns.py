"""One name for each unknown of polynomials.

What is computed from the index of the next iteration, or from what is handed on to it, is what the next iteration
computes from its own: the end of a row in a table of begins is the begin of the next row. The scheduled program finds
both names; loops' bounds are said in the one of the other iteration.
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct, field

from ckmlir.passes.proof.polynomial import Polynomial, substitute, symbol
from ckmlir.passes.proof.structure import Loop
from ckmlir.passes.proof.terms import Name, Operands, Signature, Table


class Unknowns(Struct):
    """Which other names the values of the unscheduled program have.

    Attributes:
        indices: of sums that are a loop's index of another iteration, that index.
        computed: what operations compute, from what, in program order.
    """

    indices: dict[Name, Name] = field(default_factory=dict)
    computed: list[tuple[Name, Signature, Operands]] = field(default_factory=list)

    def settle(self, table: Table, loops: Sequence[Loop]) -> None:
        """Say the bounds of loops in one name of each unknown, once all operations are in the table."""
        found: dict[Name, Name] = {}
        known = {**_handed_on(loops), **self.indices}
        for name, signature, operands in self.computed:
            if name not in known and any(one in known for one in operands):
                for same in table.find(signature, [[known.get(one, one)] for one in operands]):
                    found[name] = known[name] = same

        def said(one: Hashable) -> Polynomial | None:
            return symbol(found[one]) if isinstance(one, Name) and one in found else None

        for loop in loops:
            bounds = (loop.lower, loop.upper, loop.stride)
            loop.lower, loop.upper, loop.stride = (substitute(polynomial, said) for polynomial in bounds)


def _handed_on(loops: Sequence[Loop]) -> dict[Name, Name]:
    """What loops hand on, as the carried arguments of the next iteration."""
    return {
        name: Name(argument, 1)
        for loop in loops
        for argument, name in zip(loop.arguments, loop.handed_on, strict=True)
        if name.shift == 0 and name not in loop.outside
    }
