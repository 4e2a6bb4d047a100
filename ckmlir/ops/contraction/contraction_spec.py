"""Which kernels of the contraction family there are: their specification. See `validity` for what a chip can run."""

# Annotations are not postponed: specifications are read by their fields' types, and texts would be compiled for that.
import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ckmlir.digests import digest_of
from ckmlir.ops.contraction.side import NAMES
from ckmlir.ops.contraction.sparsity import BY_ROWS
from ckmlir.ops.dtypes import HALF_BYTES, PACKED_FLOATS, Dtype, find_dtype
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Algorithm, Counts, Spec, by

if TYPE_CHECKING:
    from ckmlir.ops.contraction.scaling import ScaleSpec

DEPTHWISE = "depthwise"
"""What `windows` begins with where each group of channels is a convolution of its own."""
PACKED_OUTPUTS = dict.fromkeys(PACKED_FLOATS, ("bf16", "f16", "f32"))
"""The same of packed input dtypes, which only products with block scales take."""
OUTPUTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "fp8": ("f16", "bf16", "f32"),
    "bf8": ("f16", "bf16", "f32"),
    "i8": ("i32",),
    "f32": ("f32", "f16", "bf16"),
    "xf32": ("f32", "f16", "bf16"),
    "f64": ("f64", "f32"),
}
"""Input dtype -> output dtypes without an expression; the first is the default."""
STORED = {"xf32": "f32"}
"""Input dtypes that are a way to multiply, and what arrays hold: the chip rounds f32 to the 10-bit mantissa of xf32."""
COMPUTED = {"f32": ("f16", "bf16", "f32", "fp8", "bf8", "i8"), "f64": ("f64", "f32")}
"""What an expression is computed in -> its output dtypes; those of 8 bits saturate."""
SCALARS = ("alpha", "beta")
"""Numbers that an expression may name."""
MOST_BATCH_DIMENSIONS = 3
MOST_DIMENSIONS = 4
"""Of each of G, M, N and K in a contraction of tensors."""

STAYING = ("persistent", "stream_k")
"""Walks of workgroups that stay."""
WALKS = ("grid", "table", "persistent", "stream_k", "experts", "classes")
"""Which block of which product a workgroup computes: a block of a product for each, numbered along the grid; a block of
the products that a table in memory lists; or those blocks in turns; or an equal share of all steps along K; or a block
of rows that have one of several matrices B, as a list of sorted entries says; or a block of a class of places in images
(`ckmlir.ops.contraction.residues`)."""
ROWS = ("token", "entry")
"""Which rows of an array belong to those of a block where a list says (`ckmlir.ops.moe.routing`): a token's, or that of
a token and one of its slots."""
GATHERING = ("linear", "tree")
SINKS = ("store", "partial", "atomic", "atomic_shares", *GATHERING)
"""What becomes of a workgroup's sums: C; or, where workgroups share the sums, partial sums of each in a workspace, or
C to which memory adds them; or, `GATHERING`, one of the workgroups adds those of the others to its own."""
ATOMIC_OUTPUTS = {
    "f32": ("buffer_atomic_add_f32",),
    "f16": ("buffer_atomic_pk_add_f16",),
    "bf16": ("buffer_atomic_pk_add_bf16", "global_atomic_pk_add_bf16"),
    "f64": (),
    "i32": (),
}
"""Output dtypes that memory adds to, and the features of which a chip needs one for it."""

LAYOUTS = ("RCR", "RRR", "CRR", "CCR")
EPILOGUES = ("cshuffle", "direct")
NARROWEST_COPY = 4
"""Bytes that a lane copies straight to LDS at least."""
PRESHUFFLE = "preshuffle"
"""The schedule for B in fragment order."""


def without_alignment(described: tuple[str, ...]) -> tuple[str, ...]:
    """Texts of arrays without their last part, what they are aligned to: kernels take what is better aligned too."""
    return tuple(text.rpartition(":")[0] for text in described)


def _is_partial(sink: str) -> bool:
    """Parts of sums are another result than sums; in which way workgroups put sums together is not."""
    return sink == "partial"


class ContractionSpec(Spec):
    """What the code of a kernel depends on.

    Attributes:
        operator: that it belongs to, for the name.
        products: matrices B, each with accumulators of its own: 1, or 2 (gate and up).
        op: the expression of the epilogue, over `accumulators`, D tensors, alpha and beta; "" stores the accumulators.
        side: the D tensors d0, d1, …, each as `dtype:kind:align` (`ckmlir.ops.contraction.side`).
        batch: dimensions of the batch, 0 for a single product.
        merged: () for matrices; else for A, the matrices B, D tensors and outputs how each lies, when its rows and its
            columns are several dimensions, as `ckmlir.ops.contraction.merged` writes it.
        windows: how images are seen as matrices, as `ckmlir.ops.contraction.windows` writes it; "" where none is.
        sources: the arrays that A and B are made of, each as `name:dtype:form:align`
            (`ckmlir.ops.contraction.sources`), and `combine` the expressions of both; () where A and B are arrays.
        scaling: the scales of A and the matrices B, as `ckmlir.ops.contraction.scaling` writes them; () for none.
        b_dtype: of the matrices B where it is not that of A; "": the same.
        taken: the type that A and B become, exactly, on their way to LDS, and in which they are multiplied; "": what
            they are.
        walk: of `WALKS`.
        rows: arrays whose rows do not follow each other in a block, each as `name:word` of `ROWS`; those of the walk
            "experts" alone.
        sink: of `SINKS`; for "partial" there is no expression, and `out` is the type of the accumulators.
        block: tile (m, n, k) of a workgroup in one step of the K loop.
        waves: waves of a workgroup along (m, n).
        along_k: so many times as many, each with a part of a step's K; LDS adds their sums.
        mfma: shape (m, n, k) of the matrix instruction; (1, 1, 1) where vector arithmetic multiplies
            (`ckmlir.ops.contraction.depthwise`).
        shuffled: columns of a tile of B in fragment order (`ckmlir.ops.contraction.shuffle`), 0 for a plain matrix.
        pad: the letters of m, n, k whose size need not be a multiple of the block.
        slices: parts of the block's rows and columns that the epilogue takes one after the other.
        sparse: 0 where A is dense; else bytes of which both the length and the distance of the index's rows are
            multiples (`ckmlir.ops.contraction.sparsity`).
        index_order: of the index, of `ckmlir.ops.contraction.sparsity.ORDERS`.
        align: for A, B and C, elements of which both the leading dimension and the length of a row are multiples: the
            widest vector that is aligned and never crosses the end of a row (a power of two, at most 16 bytes).
        chain: (0, 0) where C is stored. Else C is multiplied by a second matrix, `down`, before anything of it gets to
            memory (`ckmlir.ops.contraction.chain_kernel`): columns of that product that a step computes, and elements
            of which the length and the distance of rows of `down` are multiples.
        chain_scaling: the scales of `down`, as `scaling` writes them; () for none.
        chain_side: what is added to the sums of that product before they are weighted, a row as `side` has it; () for
            nothing.
        kept: elements along K of which LDS keeps the scales that `keepable` has (`ckmlir.ops.contraction.kept_scales`);
            0: each step brings its own.
        beside: columns of C behind those of B: the first has the sums of the squares of A's rows, the others zeros.
    """

    operator: str
    dtype: str
    out: str
    layout: str
    products: int
    op: str
    side: Annotated[tuple[str, ...], Counts(without_alignment)]
    batch: int
    merged: tuple[str, ...]
    windows: str
    sources: Annotated[tuple[str, ...], Counts(without_alignment)]
    combine: tuple[str, ...]
    rows: tuple[str, ...]
    walk: Algorithm[str]
    sink: Annotated[str, Counts(_is_partial)]
    block: Algorithm[tuple[int, int, int]]
    waves: Algorithm[tuple[int, int]]
    mfma: Algorithm[tuple[int, int, int]]
    epilogue: Algorithm[str]
    slices: Algorithm[tuple[int, int]]
    schedule: Algorithm[str]
    shuffled: int
    pad: Algorithm[str]
    align: Algorithm[tuple[int, int, int]]
    scaling: Annotated[tuple[str, ...], Counts(without_alignment)] = ()
    sparse: Annotated[int, Counts(bool)] = 0
    index_order: str = BY_ROWS
    b_dtype: str = ""
    taken: str = ""
    chain: Annotated[tuple[int, int], Counts(any)] = (0, 0)
    chain_scaling: Annotated[tuple[str, ...], Counts(without_alignment)] = ()
    chain_side: Annotated[tuple[str, ...], Counts(without_alignment)] = ()
    kept: Algorithm[int] = 0
    beside: int = 0
    along_k: Algorithm[int] = 1

    @property
    def name(self) -> str:
        parts = [
            self.operator, self.dtype, self.out, self.layout.lower(), by(self.block), f"waves{by(self.waves)}",
            f"mfma{by(self.mfma)}", self.epilogue, self.schedule, f"align{by(self.align)}",
        ]  # fmt: skip
        parts += [f"by_{self.b_dtype}"] * bool(self.b_dtype) + [f"as_{self.taken}"] * bool(self.taken)
        parts += [f"shuffled{self.shuffled}"] * (self.shuffled > 0)
        parts += [f"products{self.products}"] * (self.products > 1)
        parts += [f"batch{self.batch}"] * (self.batch > 0)
        parts += [word.replace(".", "x") for word in self.merged]
        parts += [self.windows.replace(":", "_")] * bool(self.windows)
        parts += [f"of{digest_of('_'.join((*self.combine, *self.sources)), 8)}"] * bool(self.sources)
        parts += [text.replace(":", "x") for text in self.scaling]
        parts += [f"sparse{self.sparse}"] * (self.sparse > 0) + [self.index_order] * (self.index_order != BY_ROWS)
        parts += [self.walk] * (self.walk != "grid") + [self.sink] * (self.sink != "store")
        parts += [text.replace(":", "_") for text in self.rows]
        if self.op:
            parts += [f"op{digest_of(self.op, 8)}", *(text.replace(":", "") for text in self.side)]
        parts += [f"chain{by(self.chain)}"] * any(self.chain)
        parts += [text.replace(":", "x") for text in (*self.chain_scaling, *self.chain_side)]
        parts += [f"kept{self.kept}"] * (self.kept > 0) + [f"beside{self.beside}"] * (self.beside > 0)
        parts += [f"slices{by(self.slices)}"] * (math.prod(self.slices) > 1)
        parts += [f"along{self.along_k}"] * (self.along_k > 1)
        return "_".join(parts + ([f"pad_{self.pad}"] if self.pad else []))

    @property
    def stored(self) -> str:
        """What A and the matrices B hold."""
        return stored_type(self.dtype)

    @property
    def held(self) -> tuple[Dtype, Dtype]:
        """What A, and the matrices B, hold."""
        return stored_kinds(self.dtype, self.b_dtype)

    def packed_across(self, place: int) -> bool:
        """Whether A (0), or a matrix B (1), is of elements that share bytes across K."""
        return self.held[place].packing is not None and self.layout[place] != "RC"[place]

    @property
    def in_memory(self) -> tuple[Dtype, Dtype]:
        """What memory holds of A, and of the matrices B: of what is made of elements of 4 bits, these."""
        held, packed = self.held, [text.split(":")[:2] for text in self.sources]
        made = {name[0]: find_dtype(dtype) for name, dtype in packed if dtype in HALF_BYTES}
        return made.get("a", held[0]), made.get("b", held[1])

    @property
    def multiplied(self) -> tuple[str, str]:
        """The types of A, and of the matrices B, that the matrix instruction takes."""
        return self.taken or self.dtype, self.taken or self.b_dtype or self.dtype

    @property
    def in_lds(self) -> tuple[Dtype, Dtype]:
        """What LDS holds of A, and of the matrices B."""
        return stored_kinds(*self.multiplied)

    @property
    def accumulators(self) -> tuple[str, ...]:
        """What an expression calls the accumulators."""
        return accumulator_names(self.products)

    @property
    def tensors(self) -> tuple[str, ...]:
        """A and the matrices B, or what they are made of, as kernel arguments name them."""
        return tuple(text.partition(":")[0] for text in self.sources) or operand_names(self.products)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it writes, as kernel arguments name it."""
        return output_names(self.products, partial=self.sink == "partial")

    @property
    def arrays(self) -> tuple[str, ...]:
        """All arrays in the order of kernel arguments."""
        return (*self.summed, *NAMES[: len(self.side)], *self.behind, *self.outputs)

    @property
    def summed(self) -> tuple[str, ...]:
        """Those that sums need."""
        return (*self.tensors, *self.index, *self.scales, *self.zeros)

    def in_order(self, arrays: Sequence[Any], integers: Iterable[Any]) -> tuple[Any, ...]:
        """Arguments of kernels whose grid has a workgroup for each block, or whose workgroups share the blocks: arrays
        that sums need, integers, other arrays. The first arguments are in registers where a kernel begins.
        """
        first = len(self.summed)
        return (*arrays[:first], *integers, *arrays[first:])

    @property
    def behind(self) -> tuple[str, ...]:
        """What C is multiplied by before it is stored: a matrix, with its scales, what is added to the product, and a
        number for each row of the result."""
        return (*self.matrices_behind, *self.bias_behind, "weights") if any(self.chain) else ()

    @property
    def matrices_behind(self) -> tuple[str, ...]:
        """Those of them that have rows: the matrix, and its scales."""
        return ("down", *("scale_down",) * len(self.chain_scaling)) if any(self.chain) else ()

    @property
    def bias_behind(self) -> tuple[str, ...]:
        """The one that is added to the product."""
        return ("bias_down",) * len(self.chain_side)

    @property
    def index(self) -> tuple[str, ...]:
        """The array that says which elements of A are kept, where A is sparse."""
        return ("index",) if self.sparse else ()

    @property
    def _all_scales(self) -> "tuple[ScaleSpec, ...]":
        """`scaling` as it is read; plain products load quickly without what reads it."""
        if not self.scaling:
            return ()
        from ckmlir.ops.contraction.scaling import ScaleSpec

        return tuple(map(ScaleSpec.parse, self.scaling))

    @property
    def scaled_sums(self) -> "tuple[ScaleSpec, ...]":
        """The scales that sums are multiplied by, not elements."""
        return tuple(one for one in self._all_scales if not one.of_elements)

    @property
    def piece(self) -> int:
        """Elements along K of the products that are added up before they are scaled: of a step, or of a group."""
        scales = () if self.scaled_by_instruction else self.scaled_sums
        return min([self.block[2], *(one.group for one in scales if one.group)])

    @property
    def scaled_by_instruction(self) -> bool:
        """Whether the matrix instruction, of several blocks along K, scales them itself."""
        scales = self.scaled_sums
        return bool(scales) and all(one.is_power and one.group < self.mfma[2] for one in scales)

    @property
    def makes_room(self) -> bool:
        """Whether registers are to leave room for another workgroup on a compute unit: columns have scales, or B goes
        straight to registers, of groups that one matrix instruction takes as a whole, so that its sums are scaled as
        they come."""
        groups = [one for one in self.scaled_sums if one.group]
        whole = self.mfma[2] == self.piece == self.block[2]
        if not (groups and whole) or self.scaled_by_instruction or self.shuffled:
            return False
        return self.is_straight or any(one.is_of_columns(self.block[1]) for one in groups)

    @property
    def is_straight(self) -> bool:
        """Whether B goes straight to registers."""
        return parse_schedule(self.schedule_text).path_of("b") == "straight"

    @property
    def keepable(self) -> "tuple[ScaleSpec, ...]":
        """The scales that LDS may keep for many steps: of A's rows, and of B's columns where B does not pass LDS, which
        is busy with both otherwise."""
        straight = bool(self.scaled_sums) and self.is_straight
        return tuple(one for one in self.scaled_sums if one.is_along_k and (one.operand == "a" or straight))

    @property
    def scales(self) -> tuple[str, ...]:
        """The arrays of scales."""
        return tuple(one.name for one in self._all_scales)

    @property
    def stays(self) -> bool:
        """Whether workgroups stay and take block after block, as many as the chip holds at a time."""
        return self.walk in STAYING

    @property
    def gathers(self) -> bool:
        """Whether workgroups wait for the sums of others, and add them to their own."""
        return self.sink in GATHERING

    @property
    def zeros(self) -> tuple[str, ...]:
        """The arrays of zero points."""
        return tuple(name for one in self._all_scales for name in one.zero_names)

    @property
    def is_depthwise(self) -> bool:
        """Whether vector arithmetic multiplies, of groups of few channels."""
        return self.windows.startswith(f"{DEPTHWISE}:")

    @property
    def listed(self) -> dict[str, str]:
        """Arrays whose rows a list tells, by name the word of `ROWS`."""
        return dict(text.split(":") for text in self.rows)

    @property
    def wave_count(self) -> int:
        return math.prod(self.waves) * self.along_k

    @property
    def schedule_text(self) -> str:
        """The K loop's schedule in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def accumulator_names(products: int) -> tuple[str, ...]:
    """What an expression calls the accumulators of so many products."""
    return ("acc",) if products == 1 else ("gate", "up")


def operand_names(products: int) -> tuple[str, ...]:
    """A and the matrices B of so many products."""
    return ("a", "b") if products == 1 else ("a", "gate", "up")


def output_names(products: int, *, partial: bool) -> tuple[str, ...]:
    """C; or the partial sums of every accumulator."""
    return tuple(f"{name}_parts" for name in accumulator_names(products)) if partial else ("c",)


def accumulator_type(dtype: str) -> str:
    """What products of a dtype are summed in."""
    return {"i8": "i32", "f64": "f64"}.get(dtype, "f32")


def stored_type(dtype: str) -> str:
    """What arrays of an input dtype hold."""
    return STORED.get(dtype, dtype)


@functools.lru_cache
def stored_kinds(dtype: str, b_dtype: str) -> tuple[Dtype, Dtype]:
    """What A, and the matrices B, hold; "" of B: the same."""
    return find_dtype(stored_type(dtype)), find_dtype(stored_type(b_dtype or dtype))


def computing_type(dtype: str) -> str:
    """What an expression of sums of a dtype is computed in."""
    return "f64" if dtype == "f64" else "f32"
