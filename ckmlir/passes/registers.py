"""A tile as one thread sees it: its registers, held in vectors."""

from collections.abc import Sequence

from msgspec import Struct

from ckmlir.dialect.scalars import bits
from ckmlir.mlir import ir
from ckmlir.passes import vectors


class Registers(Struct):
    """The registers of a tile in order, in chunks of equal length.

    Consumers ask for any list of registers as one vector; where the list lies inside one chunk that costs nothing.
    """

    chunks: list[ir.Value]
    chunk: int
    element: ir.Type

    @property
    def count(self) -> int:
        """Number of registers."""
        return len(self.chunks) * self.chunk

    def is_chunk(self, numbers: Sequence[int]) -> bool:
        """Whether the registers listed are one of the chunks."""
        return len(numbers) == self.chunk and not numbers[0] % self.chunk and _consecutive(numbers)

    def gather(self, numbers: Sequence[int]) -> ir.Value:
        """The registers listed, as one vector."""
        homes = sorted({number // self.chunk for number in numbers})
        if len(homes) == 1:
            return self._within(self.chunks[homes[0]], [number % self.chunk for number in numbers])
        if len(homes) == 2:
            first, second = homes
            positions = [
                number % self.chunk + (self.chunk if number // self.chunk == second else 0) for number in numbers
            ]
            return vectors.shuffle(self.chunks[first], self.chunks[second], positions)
        # LLVM knows better how to put dwords together from single bytes when it sees all of them at once.
        if len(numbers) % 2 == 0 and (bits(self.element) > 8 or _consecutive(numbers)):
            middle = len(numbers) // 2
            halves = self.gather(numbers[:middle]), self.gather(numbers[middle:])
            return vectors.shuffle(*halves, range(len(numbers)))
        return vectors.from_elements(
            [vectors.element(self.chunks[number // self.chunk], number % self.chunk) for number in numbers]
        )

    @staticmethod
    def _within(vector: ir.Value, positions: list[int]) -> ir.Value:
        start, length = positions[0], len(positions)
        if _consecutive(positions):
            return vectors.part(vector, start, length)
        if len(set(positions)) == 1:
            return vectors.splat(vectors.element(vector, start), length)
        return vectors.shuffle(vector, vector, positions)

    def rechunked(self, chunk: int) -> "Registers":
        """The same registers in chunks of another length."""
        if chunk == self.chunk:
            return self
        return Registers(
            [self.gather(range(start, start + chunk)) for start in range(0, self.count, chunk)], chunk, self.element
        )

    @staticmethod
    def scatter(pieces: Sequence[tuple[Sequence[int], ir.Value]], element: ir.Type) -> "Registers":
        """Registers from vectors that each hold the registers listed; together they hold every register once."""
        lengths = {len(numbers) for numbers, _ in pieces}
        ordered = sorted(pieces, key=lambda piece: min(piece[0]))
        chunk = lengths.pop() if len(lengths) == 1 else 0
        if chunk and all(
            list(numbers) == list(range(i * chunk, (i + 1) * chunk)) for i, (numbers, _) in enumerate(ordered)
        ):
            return Registers([vector for _, vector in ordered], chunk, element)
        home = {number: (vector, position) for numbers, vector in pieces for position, number in enumerate(numbers)}
        singles = [vectors.part(*home[number], 1) for number in range(len(home))]
        return Registers(singles, 1, element)


def _consecutive(numbers: Sequence[int]) -> bool:
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
