"""The matrix instructions (MFMA, SMFMAC) of gfx9: shapes, types, and which lane holds which element.

One wave of 64 lanes multiplies A (m, k) by the transpose of B (n, k) and adds C (m, n), in `blocks` independent copies.
The layouts are strings in the notation of tile distributions, over (m, k), (n, k) and (m, n), with a leading block
dimension where there are several blocks. They follow from the shape:

- A and B: element (i, k) of block b lies in lane `i + rows * (b + blocks * (k // k_per_lane))`, register `k %
  k_per_lane`.
- C: a lane holds groups of `group` consecutive rows of one column: 4, or 1 for f64.
- f8f6f4 with 8-bit operands: a lane's 32 elements are two chunks of 16, half of K apart.

Sparse instructions (SMFMAC) take two of every four elements of A along K: A is (m, k / 2), of which a lane holds half
as many elements as of B, one behind the other. Two bits for each say which of the four it is. B lies as in dense
instructions; where a lane has 32 bytes of B, these are two chunks of 16 bytes, half of K apart.

Sources: AMD CDNA2, CDNA3 and CDNA4 instruction set architecture, chapter "Matrix Arithmetic Instructions"; AMD matrix
instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator); the chunks of f8f6f4: Composable Kernel,
blockwise_gemm_mx_pipeline_xdlops_base.hpp, KThreadChunk; the chunks of SMFMAC: test/sim/test_sparse_exactly.py says.
"""


from msgspec import Struct

from ckmlir.targets.matrix_names import EIGHT_BIT_FLOATS, LANES, NARROW, SPARSE_BYTES, SPARSE_PAIRS, sparse_name

SCALED_BLOCK = 32
"""Elements of K that a block scale is of."""
ROCDL_FORMATS = {"fp8": "fp8_e4m3", "bf8": "fp8_e5m2", "fp6": "fp6_e2m3", "bf6": "fp6_e3m2", "fp4": "fp4_e2m1"}
"""The words for those types in the ROCDL dialect."""
CHUNK_BYTES = 16
"""What a lane holds of B together in a sparse instruction."""
INDEXED = 4
"""Elements of a sparse A whose places are a byte of the index: two bits each."""


class MfmaInstruction(Struct, frozen=True):
    """A matrix instruction, the same on every chip that has it.

    `name` is unique; `op` the ROCDL operation, `intrinsic` the LLVM one; `a`, `b`, `acc` the element types; `a_type`,
    `b_type`, `acc_type` the MLIR types of the operands of one lane, which holds `k_per_lane` elements of A and of B.
    """

    name: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    acc: str
    a_type: str
    b_type: str
    acc_type: str
    scaled: bool = False
    sparse: bool = False

    @property
    def op(self) -> str:
        """The operation of the ROCDL dialect."""
        if self.scaled:
            return f"rocdl.mfma.scale.f32.{self.shape}.f8f6f4"
        return f"rocdl.{self.name}" if self.sparse else f"rocdl.mfma.{self.name}"

    @property
    def intrinsic(self) -> str:
        """The LLVM intrinsic."""
        return f"llvm.amdgcn.{self.op.removeprefix('rocdl.')}"

    @property
    def mnemonic(self) -> str:
        """What assemblers of gfx942 and gfx950 call it, unscaled."""
        name = self.name.removesuffix(f".{self.a}.{self.b}") if self.scaled else self.name
        return f"v_{'' if self.sparse else 'mfma_'}{name.replace('.', '_')}"

    @property
    def modifiers(self) -> str:
        """What they want behind the operands: the formats of A and B where the name does not say them."""
        return f" cbsz:{NARROW.index(self.a)} blgp:{NARROW.index(self.b)}" if self.scaled else ""

    @property
    def shape(self) -> str:
        """`32x32x8`: m, n and k."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def k_groups(self) -> int:
        """Groups of lanes that hold different parts of K."""
        return LANES // (self.m * self.blocks)

    @property
    def k_per_lane(self) -> int:
        """Elements of B, and of a dense A, that one lane holds."""
        return self.k // self.k_groups

    @property
    def a_per_lane(self) -> int:
        """Elements of A that one lane holds."""
        return self.k_per_lane // 2 if self.sparse else self.k_per_lane

    @property
    def acc_per_lane(self) -> int:
        """Accumulators that one lane holds."""
        return self.m * self.n * self.blocks // LANES

    @property
    def acc_group(self) -> int:
        """Neighbouring rows of C that one lane holds, before those of another."""
        return 1 if self.acc == "f64" else 4

    @property
    def a_layout(self) -> str:
        """Distribution of A over (m, k); of a sparse one over (m, k / 2)."""
        if self.sparse:
            return f"m: {self.m}@lane.1, k: {self.k_groups}@lane.0 {self.a_per_lane}@y0"
        return self._operand_layout("m", self.m, self.a)

    @property
    def b_layout(self) -> str:
        """Distribution of B over (n, k)."""
        return self._operand_layout("n", self.n, self.b)

    def chunk(self, dtype: str) -> int:
        """Consecutive elements of K that a lane holds of an operand of `dtype`, B where A is sparse, before those of
        another lane.
        """
        if self.sparse:
            return min(self.k_per_lane, CHUNK_BYTES // SPARSE_BYTES[dtype])
        return 16 if self.scaled and dtype in EIGHT_BIT_FLOATS else self.k_per_lane

    def _operand_layout(self, row: str, rows: int, dtype: str) -> str:
        last = self.chunk(dtype)
        chunks = self.k_per_lane // last
        k = f"{chunks}@y0 {self.k_groups}@lane.0 {last}@y1" if chunks > 1 else f"{self.k_groups}@lane.0 {last}@y0"
        if self.blocks == 1:
            return f"{row}: {rows}@lane.1, k: {k}"
        return f"b: {self.blocks}@lane.1, {row}: {rows}@lane.2, k: {k}"

    @property
    def c_layout(self) -> str:
        """Distribution of the accumulators over (m, n)."""
        group = self.acc_group
        lane_blocks = max(1, LANES * group // (self.m * self.n))  # blocks side by side in the lanes
        lane_rows = LANES // (lane_blocks * self.n)
        groups = self.m // (group * lane_rows)
        if self.blocks == 1:
            return f"m: {groups}@y0 {lane_rows}@lane.0 {group}@y1, n: {self.n}@lane.1"
        register_blocks = self.blocks // lane_blocks
        return (
            f"b: {register_blocks}@y0 {lane_blocks}@lane.1, "
            f"m: {groups}@y1 {lane_rows}@lane.0 {group}@y2, n: {self.n}@lane.2"
        )

    @property
    def operations(self) -> int:
        """Multiplications and additions of one wave."""
        return 2 * self.m * self.n * self.k * self.blocks


# Spelling of each family: accumulator, suffix after the shape, operand type, and the shapes (m, n, k, blocks).
_FAMILIES: tuple[tuple[str, str, str, str, str, tuple[tuple[int, int, int, int], ...]], ...] = (
    ("f32", "f32", "f32", "f32", "f32",
     ((32, 32, 2, 1), (16, 16, 4, 1), (32, 32, 1, 2), (16, 16, 1, 4), (4, 4, 1, 16))),
    ("f32", "f16", "f16", "f16", "vector<4xf16>",
     ((32, 32, 8, 1), (16, 16, 16, 1), (32, 32, 4, 2), (16, 16, 4, 4), (4, 4, 4, 16))),
    ("f32", "bf16.1k", "bf16", "bf16", "vector<4xi16>",
     ((32, 32, 8, 1), (16, 16, 16, 1), (32, 32, 4, 2), (16, 16, 4, 4), (4, 4, 4, 16))),
    ("f32", "bf16", "bf16", "bf16", "vector<2xi16>",
     ((32, 32, 4, 1), (16, 16, 8, 1), (32, 32, 2, 2), (16, 16, 2, 4), (4, 4, 2, 16))),
    ("i32", "i8", "i8", "i8", "i32", ((32, 32, 8, 1), (16, 16, 16, 1), (32, 32, 4, 2), (16, 16, 4, 4), (4, 4, 4, 16))),
    ("i32", ".i8", "i8", "i8", "i64", ((32, 32, 16, 1), (16, 16, 32, 1))),
    ("f64", "f64", "f64", "f64", "f64", ((16, 16, 4, 1), (4, 4, 4, 4))),
    ("f32", ".xf32", "xf32", "xf32", "vector<2xf32>", ((32, 32, 4, 1), (16, 16, 8, 1))),
    *(("f32", f".{a}.{b}", a, b, "i64", ((32, 32, 16, 1), (16, 16, 32, 1)))
      for a in EIGHT_BIT_FLOATS for b in EIGHT_BIT_FLOATS),
    ("f32", ".f16", "f16", "f16", "vector<8xf16>", ((32, 32, 16, 1), (16, 16, 32, 1))),
    ("f32", ".bf16", "bf16", "bf16", "vector<8xbf16>", ((32, 32, 16, 1), (16, 16, 32, 1))),
    ("i32", ".i8", "i8", "i8", "vector<4xi32>", ((32, 32, 32, 1), (16, 16, 64, 1))),
)  # fmt: skip

_NARROW_TYPES = {
    "fp8": "vector<8xi32>", "bf8": "vector<8xi32>",
    "fp6": "vector<6xi32>", "bf6": "vector<6xi32>", "fp4": "vector<4xi32>",
}  # fmt: skip


def _sparse_types(dtype: str, count: int) -> str:
    """The MLIR type of so many elements; of the forms that gfx942 has, bf16 are integers."""
    if dtype == "bf16":
        return f"vector<{count}x{'i16' if count <= 8 else 'bf16'}>"
    return f"vector<{count}xf16>" if dtype == "f16" else f"vector<{count // 4}xi32>"


def _sparse(m: int, bytes_of_b: int, a: str, b: str) -> MfmaInstruction:
    """The sparse instruction of a shape whose lanes hold so many bytes of B."""
    held = bytes_of_b // SPARSE_BYTES[b]
    acc, k = "i32" if a == "i8" else "f32", held * LANES // m
    name = sparse_name(m, bytes_of_b, a, b)
    own = _sparse_types(a, held // 2)
    if a == "bf16" and bytes_of_b > CHUNK_BYTES:
        own = f"vector<{held // 2}xbf16>"
    return MfmaInstruction(name, m, m, k, 1, a, b, acc, own, _sparse_types(b, held), _accumulators(acc, m, m, 1),
                           sparse=True)  # fmt: skip


def _accumulators(acc: str, m: int, n: int, blocks: int) -> str:
    count = m * n * blocks // LANES
    return f"vector<{count}x{acc}>" if count > 1 else acc


def _table() -> dict[str, MfmaInstruction]:
    table = {}
    for acc, suffix, a, b, operand, shapes in _FAMILIES:
        for m, n, k, blocks in shapes:
            name = f"{acc}.{m}x{n}x{k}{suffix}"
            accumulators = _accumulators(acc, m, n, blocks)
            table[name] = MfmaInstruction(name, m, n, k, blocks, a, b, acc, operand, operand, accumulators)
    for m, k in ((16, 128), (32, 64)):
        for a in NARROW:
            for b in NARROW:
                name = f"f32.{m}x{m}x{k}.f8f6f4.{a}.{b}"
                types = _NARROW_TYPES[a], _NARROW_TYPES[b], _accumulators("f32", m, m, 1)
                table[name] = MfmaInstruction(name, m, m, k, 1, a, b, "f32", *types, scaled=True)
    for one in (_sparse(m, size, a, b) for size in (16, 32) for m in (32, 16) for a, b in SPARSE_PAIRS):
        table[one.name] = one
    return table


INSTRUCTIONS: dict[str, MfmaInstruction] = _table()
"""Every matrix instruction by name; a target says which of them it has and how long each takes."""
