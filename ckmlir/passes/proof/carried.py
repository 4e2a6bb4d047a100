"""What loops carry round without changing it, which is what they began with in every iteration and behind them."""

from ckmlir.dialect.loop import LOOP
from ckmlir.mlir import ir
from ckmlir.passes.proof.flow import terminator

WHILE = "scf.while"


def carried(loop: ir.Operation) -> list[ir.Value]:
    """What a loop's carried arguments start with."""
    return list(loop.operands)[3 if loop.name == LOOP else 0 :]


class Carrying:
    """Which carried values the loops of a program change."""

    def __init__(self) -> None:
        self._changing: dict[ir.Operation, list[int]] = {}

    def changing(self, loop: ir.Operation) -> list[int]:
        """The places of the carried values that a loop changes. It hands the others on as it took them, perhaps through
        loops in it that do the same.
        """
        if loop not in self._changing:
            arguments = list(loop.regions[0].blocks[0].arguments)[loop.name == LOOP :]
            pairs = enumerate(zip(arguments, terminator(loop.regions[-1].blocks[0]).operands, strict=True))
            self._changing[loop] = [place for place, (taken, handed) in pairs if self._origin(handed) != taken]
        return self._changing[loop]

    def _origin(self, value: ir.Value) -> ir.Value:
        """The value that loops have carried here, without changing it."""
        while (before := self._before(value)) is not None:
            value = before
        return value

    def _before(self, value: ir.Value) -> ir.Value | None:
        """What a value is if nothing changes it: of a loop's result what the loop began with, of what the body of a
        loop without an index takes what has decided about it.
        """
        if isinstance(value, ir.BlockArgument):
            loop = value.owner.owner.operation
            inside = loop.name == WHILE and value.owner == loop.regions[1].blocks[0]
            return _forwarded(loop, value.arg_number) if inside else None
        loop, place = value.owner.operation, ir.OpResult(value).result_number
        if loop.name == WHILE:
            found = self._origin(_forwarded(loop, place))
            if not isinstance(found, ir.BlockArgument) or found.owner != loop.regions[0].blocks[0]:
                return None
            place = found.arg_number
        elif loop.name != LOOP:
            return None
        return None if place in self.changing(loop) else carried(loop)[place]


def _forwarded(loop: ir.Operation, place: int) -> ir.Value:
    """What a loop without an index hands to its body, and behind itself."""
    return terminator(loop.regions[0].blocks[0]).operands[1 + place]
