"""A tile as one thread sees it: its registers, held in vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

from ckmlir.mlir import ir
from ckmlir.passes import vectors


@dataclass
class Registers:
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

    def gather(self, numbers: Sequence[int]) -> ir.Value:
        """The registers listed, as one vector."""
        homes = sorted({number // self.chunk for number in numbers})
        if len(homes) == 1:
            return self._within(self.chunks[homes[0]], [number % self.chunk for number in numbers])
        if (
            len(numbers) % self.chunk == 0
            and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
            and numbers[0] % self.chunk == 0
        ):
            return self._concatenate([self.chunks[home] for home in homes])
        if len(homes) == 2:
            first, second = homes
            positions = [
                number % self.chunk + (self.chunk if number // self.chunk == second else 0) for number in numbers
            ]
            return vectors.shuffle(self.chunks[first], self.chunks[second], positions)
        return vectors.from_elements(
            [vectors.element(self.chunks[number // self.chunk], number % self.chunk) for number in numbers]
        )

    @staticmethod
    def _within(vector: ir.Value, positions: list[int]) -> ir.Value:
        start, length = positions[0], len(positions)
        if positions == list(range(start, start + length)):
            return vectors.part(vector, start, length)
        if len(set(positions)) == 1:
            return vectors.splat(vectors.element(vector, start), length)
        return vectors.shuffle(vector, vector, positions)

    @staticmethod
    def _concatenate(parts: list[ir.Value]) -> ir.Value:
        while len(parts) > 1:
            if len(parts) % 2:
                return vectors.from_elements(
                    [vectors.element(part, i) for part in parts for i in range(vectors.length_of(part))]
                )
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [vectors.shuffle(left, right, range(2 * vectors.length_of(left))) for left, right in pairs]
        return parts[0]

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
