"""Tiles for matrix instructions: how A, B and C of a workgroup lie in registers so that an MFMA can take them as they
are.

An `Mma` is an instruction of the chip with a choice of how its K indices are numbered. An MFMA sums over K, so any
permutation of K is right as long as A and B use the same one. Two parameters choose it:

- `k_pack` instructions share one operand vector: a lane holds `k_pack * k_per_lane` elements of K.
- `k_chunk` of them are neighbours in the tile. By default (0) that is the whole vector, so that a lane reads 8 or 16
  contiguous bytes (for f8f6f4 of 8-bit operands: 16 bytes, twice). Equal to 4, K lies as the accumulators of a 16x16
  or 32x32 instruction do, so that the result of one product (the probabilities of attention) is an operand of the
  next without leaving its lane.

`spread` is for instructions that scale blocks of K: of so many of them each takes every so-manieth block, so that a
lane has neighbouring blocks, and the scales of those neighbouring bytes.

`run` rows of C are neighbours in a lane, by default (0) those that the instruction makes neighbours; the operand whose
rows they are has them in the same order (`row_runs.py`).

`transposed` swaps the operands: the instruction computes the transpose of C, and the accumulators that follow each
other in a lane are neighbours along n instead of m.

Of a sparse instruction A (m, k / 2) has the elements that are kept, two of every four along K; K counts those of B.
Operands are never swapped, and a lane's vectors follow each other along K (`k_chunk` 0).

Of packed elements (fp4, fp6, bf6) a tile holds the bytes: lengths and distributions of operands are then those of bytes
along K, all others count elements.

Waves are numbered row by row over (m, n). The iterations of a wave come first in the registers of an operand, rows
before K (A: m then k, B: n then k, C: m then n), then the operand vectors; a vector is a run of consecutive
registers. Iteration i of wave w covers tile i * waves + w of its dimension (CK's block GEMM).
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ckmlir.dialect.distribution import LANE, REGISTER, WAVE, Distribution, Factor
from ckmlir.dialect.distribution_factors import Row
from ckmlir.dialect.mma_fragments import Fragment, match
from ckmlir.dialect.packing import PACKED
from ckmlir.dialect.row_runs import RowRuns
from ckmlir.dialect.spreading import spread
from ckmlir.targets import MfmaInstruction, Target
from ckmlir.targets.mfma import INDEXED, INSTRUCTIONS, SCALED_BLOCK

ELEMENT_BITS = {
    "f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16,
    "fp8": 8, "bf8": 8, "i8": 8, "fp6": 6, "bf6": 6, "fp4": 4,
}  # fmt: skip
VECTOR_BITS = 128  # the widest memory access of a lane
INDEX_BYTES = 4  # of a sparse A's index that a register holds


class Mma(Struct, frozen=True):
    """A matrix instruction with its numbering of K and rows; `k_chunk` and `run` 0 are the instruction's own.

    With `parts` the waves of a workgroup have a part of a tile's K each. C then has the rows of every part, one part
    below the other: C[p m + i, j] is the sum over part p of K of A[i, k] B[j, k].

    Raises:
        ValueError: an instruction of several blocks, or numbers that do not divide what a lane holds.
    """

    instruction: MfmaInstruction
    k_pack: int = 1
    k_chunk: int = 0
    transposed: bool = False
    spread: int = 1
    run: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if self.instruction.blocks != 1:
            raise ValueError(
                f"{self.instruction.name} multiplies {self.instruction.blocks} blocks; tiles need one of a single block"
            )
        self._settle_rows()
        self._check_side_operands()
        self._settle_depth()

    def _settle_rows(self) -> None:
        if self.run and (self.instruction.sparse or self.spread > 1):
            name = self.instruction.name
            raise ValueError(f"run {self.run} of {name}: scales and indices are in its own order of rows")
        if self.run == self.instruction.acc_group:
            force_setattr(self, "run", 0)
        if self.run:
            RowRuns.of(self.instruction, self.run)

    def _check_side_operands(self) -> None:
        """Scales and sparse indices are in the instruction's own order of K."""
        if self.k_pack < 1:
            raise ValueError(f"k_pack {self.k_pack} must be at least 1")
        if self.instruction.scaled and self.k_pack != 1:
            raise ValueError(f"{self.instruction.name} scales blocks of K, so k_pack must be 1")
        if self.instruction.sparse and (self.transposed or self.k_chunk):
            raise ValueError(f"{self.instruction.name} takes a sparse A first, in its own order of K")
        if self.parts < 1 or (self.parts > 1 and self.instruction.sparse):
            raise ValueError(f"{self.parts} parts of K of {self.instruction.name}: expected 1, or a dense product")
        if self.spread < 1 or (self.spread > 1 and not self.instruction.scaled):
            name = self.instruction.name
            raise ValueError(f"spread {self.spread} of {name}: blocks are those that it scales; expected 1")

    def _settle_depth(self) -> None:
        held = self.k_pack * self.instruction.k_per_lane
        native = {self.k_pack * self.instruction.chunk(dtype) for dtype in (self.instruction.a, self.instruction.b)}
        if native == {self.k_chunk}:
            force_setattr(self, "k_chunk", 0)
        if self.k_chunk < 0 or (self.k_chunk and held % self.k_chunk):
            raise ValueError(f"k_chunk {self.k_chunk} does not divide the {held} elements of a lane")
        if self.k_chunk and len(native) > 1:
            raise ValueError(
                f"{self.instruction.name} takes A and B in different orders of K, so k_chunk cannot be chosen"
            )

    @staticmethod
    def select(
        target: Target,
        shape: str,
        a: str,
        b: str | None = None,
        *,
        block_k: int = 0,
        transposed: bool = False,
        sparse: bool = False,
    ) -> Mma:
        """The chip's instruction of `shape` ("32x32x8") for dtypes `a` and `b`, with operand vectors of up to 16 bytes;
        of a sparse A with so many that a lane's part of its index is up to 4 bytes.

        `block_k` is the depth of the tile that the vectors must divide (0: any).

        Raises:
            TargetError: the chip has no such instruction.
            ValueError: the instruction is deeper than the tile, or does not divide it.
        """
        first, second = (b or a, a) if transposed else (a, b or a)
        instruction = target.find_mfma(shape, first, second, sparse=sparse)
        if block_k % instruction.k:
            raise ValueError(f"a tile {block_k} deep is not a multiple of the {instruction.k} of {instruction.name}")
        bits = instruction.k_per_lane * ELEMENT_BITS[a]
        pack = 1 if instruction.scaled else max(1, VECTOR_BITS // bits)
        if sparse:
            pack = INDEX_BYTES * INDEXED // instruction.a_per_lane
        while block_k % (pack * instruction.k):
            pack //= 2
        return Mma(instruction, pack, transposed=transposed)

    # -- facts

    @property
    def m(self) -> int:
        """Rows of C of one instruction."""
        return self.instruction.n if self.transposed else self.instruction.m

    @property
    def n(self) -> int:
        """Columns of C of one instruction."""
        return self.instruction.m if self.transposed else self.instruction.n

    @property
    def k(self) -> int:
        """Depth of one operand vector of every lane: that of `k_pack` instructions."""
        return self.instruction.k * self.k_pack

    @property
    def a_dtype(self) -> str:
        """Element type of A."""
        return self.instruction.b if self.transposed else self.instruction.a

    @property
    def b_dtype(self) -> str:
        """Element type of B."""
        return self.instruction.a if self.transposed else self.instruction.b

    @property
    def acc_dtype(self) -> str:
        """Element type of C."""
        return self.instruction.acc

    def with_k_chunk(self, k_chunk: int) -> Mma:
        """The same with `k_chunk` neighbours of K in a lane."""
        return replace(self, k_chunk=k_chunk)

    def with_vector(self, most: int, block_k: int) -> Mma:
        """The same with up to `most` neighbours of K in a lane, in a tile so deep."""
        held = most
        while held > self.instruction.k_per_lane and block_k % (held * self.instruction.k_groups):
            held //= 2
        pack = 1 if self.instruction.scaled else max(held // self.instruction.k_per_lane, 1)
        return replace(self, k_pack=pack, k_chunk=held)

    def with_run(self, run: int) -> Mma:
        """The same with `run` neighbouring rows of C in a lane, columns if it is transposed."""
        return replace(self, run=run)

    # -- distributions

    @property
    def a(self) -> Distribution:
        """A (m, k) of one wave and one operand vector; of a sparse one (m, k / 2)."""
        if self.instruction.sparse:
            return self.along_a(self.k_pack * self.instruction.a_per_lane)
        return self._operand(self._rows(not self.transposed), self.a_dtype)

    def along_a(self, held: int) -> Distribution:
        """Rows of A of one wave, of each of which a lane of several holds so many neighbours."""
        k = (Factor(self.instruction.k_groups, LANE, 0), Factor(held, REGISTER, 0))
        return Distribution((), ((Factor(self.m, LANE, 1),), k))

    @property
    def b(self) -> Distribution:
        """B (n, k) of one wave and one operand vector."""
        return self._operand(self._rows(self.transposed), self.b_dtype)

    def _rows(self, first: bool) -> Row:
        """Of the instruction's first operand or of its second, over lanes from rank 1 on."""
        if first and self.run:
            return RowRuns.of(self.instruction, self.run).operand(1)
        return (Factor(self.instruction.m if first else self.instruction.n, LANE, 1),)

    @property
    def c(self) -> Distribution:
        """C (m, n) of one wave and one instruction."""
        layout = Distribution.parse(self.instruction.c_layout)
        if self.run:
            layout = RowRuns.of(self.instruction, self.run).accumulators
        return layout.permute((1, 0)) if self.transposed else layout

    def _deep(self, operand: Distribution, dtype: str) -> Distribution:
        """Of `spread` operand vectors."""
        if self.spread == 1:
            return operand
        return spread(operand, PACKED[dtype].size(SCALED_BLOCK) if dtype in PACKED else SCALED_BLOCK, self.spread)

    def _operand(self, rows: Row, dtype: str) -> Distribution:
        if self.instruction.sparse and self.instruction.chunk(dtype) < self.instruction.k_per_lane:
            return self._in_halves(self.n, self.instruction.chunk(dtype))
        chunk = self.k_chunk or self.k_pack * self.instruction.chunk(dtype)
        chunks = self.k_pack * self.instruction.k_per_lane // chunk
        held = PACKED[dtype].size(chunk) if dtype in PACKED else chunk
        k = (Factor(chunks, REGISTER, 0), Factor(self.instruction.k_groups, LANE, 0), Factor(held, REGISTER, 1))
        return Distribution((), (rows, k))

    def _in_halves(self, rows: int, chunk: int) -> Distribution:
        """B where a lane has two chunks of each instruction, half of the instruction's K apart, and A's vectors of
        several instructions follow each other: with K numbered as A has it.

        A lane of A has two neighbouring chunks of the instruction's K, of every instruction of the pack in turn; which
        half of K that is, is the most significant digit of its number.
        """
        groups = self.instruction.k_groups
        k = (
            Factor(2, REGISTER, 1), Factor(groups // 2, LANE, 0), Factor(self.k_pack, REGISTER, 0), Factor(2, LANE, 1),
            Factor(chunk, REGISTER, 2),
        )  # fmt: skip
        return Distribution((), ((Factor(rows, LANE, 2),), k))

    def a_over(self, waves: tuple[int, int], m: int, k: int) -> Distribution:
        """A (m, k) over `waves` (along m, along n) of each part of K: each row of waves holds its rows, copied along n;
        of a sparse A (m, k / 2).

        Raises:
            ValueError: the tile is not a multiple of what the waves take at once.
        """
        return self.over_rows(self._deep(self.a, self.a_dtype), waves, m, k)

    def over_rows(self, part: Distribution, waves: tuple[int, int], m: int, k: int) -> Distribution:
        """`part`, of one wave's rows of A and one operand vector, as `a_over` has it."""
        _multiple("m", m, waves[0], self.m)
        rows = (Factor(m // (waves[0] * self.m), REGISTER, 0), Factor(waves[0], WAVE, 1))
        return Distribution((Factor(waves[1], WAVE, 2),), (rows, self._steps(k))).embed(part)

    def _steps(self, k: int) -> Row:
        """Operand vectors along K, of each part of it."""
        _multiple("k", k, self.parts, self.k * self.spread)
        return Factor(self.parts, WAVE, 0), Factor(k // (self.parts * self.k * self.spread), REGISTER, 1)

    def b_over(self, waves: tuple[int, int], n: int, k: int) -> Distribution:
        """B (n, k) over `waves` (along m, along n) of each part of K: each column of waves holds its columns, copied
        along m.

        Raises:
            ValueError: the tile is not a multiple of what the waves take at once.
        """
        _multiple("n", n, waves[1], self.n)
        columns = (Factor(n // (waves[1] * self.n), REGISTER, 0), Factor(waves[1], WAVE, 2))
        dims = (columns, self._steps(k))
        return Distribution((Factor(waves[0], WAVE, 1),), dims).embed(self._deep(self.b, self.b_dtype))

    def c_over(self, waves: tuple[int, int], m: int, n: int) -> Distribution:
        """C (parts m, n) over `waves` (along m, along n) of each part of K.

        Raises:
            ValueError: the tile is not a multiple of what the waves take at once.
        """
        _multiple("m", m, waves[0], self.m)
        _multiple("n", n, waves[1], self.n)
        rows = (
            Factor(self.parts, WAVE, 0), Factor(m // (waves[0] * self.m), REGISTER, 0), Factor(waves[0], WAVE, 1)
        )  # fmt: skip
        columns = (Factor(n // (waves[1] * self.n), REGISTER, 1), Factor(waves[1], WAVE, 2))
        return Distribution((), (rows, columns)).embed(self.c)

    # -- agreement of three distributions

    def check(self, a: Distribution, b: Distribution, c: Distribution) -> list[str]:
        """Why A (m, k), B (n, k) and C (parts m, n) cannot be multiplied as they lie, in words; empty when they can.

        The distributions are evaluated: every lane must hold the rows that the instruction expects of it, A and B must
        number K alike, and all of K, or of a part, must be summed once for every element of C.
        """
        return list(match(self, a, b, c)[0])

    def fragments(self, a: Distribution, b: Distribution, c: Distribution) -> tuple[Fragment, ...]:
        """The instructions that multiply the tiles, by m, n and k iteration.

        Raises:
            ValueError: `check` finds a problem.
        """
        problems, fragments = match(self, a, b, c)
        if problems:
            raise ValueError("; ".join(problems))
        return fragments

    # -- text

    def __str__(self) -> str:
        chunk = f" k_chunk={self.k_chunk}" if self.k_chunk else ""
        chunk += f" spread={self.spread}" if self.spread > 1 else ""
        chunk += f" run={self.run}" if self.run else ""
        chunk += f" parts={self.parts}" if self.parts > 1 else ""
        return f"{self.instruction.name} k_pack={self.k_pack}{chunk}{' transposed' if self.transposed else ''}"

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> Mma:
        """The Mma that `str` wrote: `f32.32x32x8f16 k_pack=2`, optionally `k_chunk=4`, `spread=4`, `run=16`,
        `parts=4` and `transposed`.

        Raises:
            ValueError: malformed text or an unknown instruction.
        """
        numbers = "".join(rf"(?:\s+{name}=(\d+))?" for name in ("k_pack", "k_chunk", "spread", "run", "parts"))
        match = re.fullmatch(rf"\s*([\w.]+){numbers}(\s+transposed)?\s*", text)
        if match is None:
            form = "instruction k_pack=2 [k_chunk=4] [spread=4] [run=16] [parts=4] [transposed]"
            raise ValueError(f"'{text}' is not '{form}'")
        if match[1] not in INSTRUCTIONS:
            raise ValueError(f"there is no matrix instruction '{match[1]}'; they are written like f32.32x32x8f16")
        pack, chunk, apart, parts = (int(match[place] or least) for place, least in ((2, 1), (3, 0), (4, 1), (6, 1)))
        return Mma(INSTRUCTIONS[match[1]], pack, chunk, bool(match[7]), apart, int(match[5] or 0), parts)


def _multiple(name: str, length: int, waves: int, unit: int) -> None:
    if length < 1 or length % (waves * unit):
        by = f"{waves} waves of {unit}" if waves > 1 else str(unit)
        raise ValueError(f"{name} = {length} is not a multiple of {waves * unit} ({by})")
