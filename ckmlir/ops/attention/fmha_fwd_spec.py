"""Which attention forward kernels there are: the specification, and what a tile of it is.

A workgroup of four waves takes 128 queries of one head, 32 a wave, and walks over the keys in blocks; one of eight
waves takes 256, where two waves of a SIMD take turns. Of few queries it takes 16 or 32, see `row_choice.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from ckmlir.ops.attention.paged_spec import page_size
from ckmlir.ops.attention.schedule_choice import (
    RISING,
    TOGETHER,
    slack,
)  # fmt: skip
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.schedules import EDGE as EDGES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Algorithm, Counts, Spec, by
from ckmlir.targets import Target, TargetError
from ckmlir.targets.cdna import ACCESS_BYTES

DTYPES = ("f16", "bf16", "fp8", "f32")
"""Of Q, K and V."""
SCALED = ("fp8", "i8")
"""Types of Q and K whose elements stand for themselves times a number."""
TAKEN = {"fp4": "fp8"}
"""Packed types of Q, K and V in memory, and what they are multiplied as: a type that has all their numbers, so that the
weights are rounded to that and not to so few bits."""
OUTPUTS = {
    "f16": ("f16", "fp8"), "bf16": ("bf16", "fp8"), "f32": ("f32",), "fp8": ("bf16", "f16", "f32", "fp8"),
    "i8": ("bf16", "f16"),
}  # fmt: skip
"""By the dtype of Q, K and V: what O may be, the default first."""
WEIGHT_EXPONENT = {"fnuz": 7, "ocp": 8}
"""By flavour of 8-bit floats: weights up to 1 are multiplied by two to this power before they become fp8, so that they
use its whole range (up to 240 or 448). The row sums have the factor too, so that it cancels (as in CK Tile)."""
MASK_KINDS = ("none", "causal", "window")
FORWARD_MASKS = (*MASK_KINDS, "sinks")
SEQUENCES = ("", "length", "start", "startlength", "pages")
"""What memory holds of the queries', or the keys', places: see `sequences.Rows.word`."""
UNPAGED = tuple(word for word in SEQUENCES if word != "pages")
"""Those of arrays without pages."""
HEAD_TILES = (32, 64, 96, 128, 256)
"""Channels that a tile may have; a head is padded to the next of them."""
WHOLE_TILES = tuple(tile for tile in HEAD_TILES if not tile & (tile - 1))
"""Those of 2^n channels. Copies to LDS fill no others: lanes side by side make whole rows of them, or parts of one."""
LISTS = (("seqstart_{}", "start"), ("seqlen_{}", "length"), ("kv_indptr", "pages"), ("kv_last_page_lens", "pages"))
"""Names of arrays, and the words that ask for them."""
WAVES = 4
QUERIES_PER_WAVE = (32, 16)
"""Rows of a wave's matrix instruction; the fewer, the larger the heads that fit."""
KEY_BLOCKS = (64, 32)
BY_INSTRUCTION = "mxscales"
"""First word of the part whose scales, of 32 elements along K, matrix instructions apply."""
DRAWING = "dropout"
"""First word of the part that draws random numbers."""
BY_INSTRUCTION_TILE = 64
"""Channels that tiles have at least then: those instructions are as deep with 32 rows. A block of 32 keys lies in
whole registers of such an instruction's operand only where the accumulators before have 32 rows too."""


class FmhaFwdSpec(Spec):
    """What an attention forward kernel's code depends on.

    Attributes:
        dtype, out: element types of Q, K and V, and of O.
        d, dv: channels of Q and K, and of V and O.
        block: tile (queries, keys) of a workgroup in one step of the loop.
        waves: waves of a workgroup, side by side along the queries.
        along_keys: how many of them are side by side along keys, and along channels of V, in place of queries.
        packed: a block's rows are queries of all heads that share keys, see `block_rows_kernel.HeadsTogether`.
        mfma: shape (m, n, k) of the matrix instruction of both products.
        mask: none, causal (only the bound x of the mask's coordinate is tested), window (both bounds) or sinks (a
            window and the first keys).
        sequences: what memory holds of the places of queries and of keys, see `SEQUENCES`.
        v_columns: 0 for V in rows; else it is in columns, and this divides their length, of packed keys in bytes.
        parts: words of what else is done, see `part.Part.word`.
        v_dtype: type of V and of the weights; none: that of Q and K.
        stored: packed type of Q, K and V in memory, see `TAKEN`; none: they are what is multiplied.
        lse: the logarithm of the sum of exponentials is an output.
        source: word of where K and V lie, see `part.Part.word`; rows of batches have none.
        split: several workgroups share a block's keys, and O and LSE are those of their parts.
        pad_sq, pad_sk: the number of queries, of keys, need not be a multiple of the block.
        schedule, edge: of the loop over keys, and of another one for the blocks of keys that the mask cuts; `TOGETHER`
            if the loop takes those as well.
        order: in which blocks of queries are dealt out, see `orders.FORWARD_ORDERS`.
    """

    dtype: str
    out: str
    d: int
    dv: int
    block: Algorithm[tuple[int, int]]
    waves: Algorithm[int]
    mfma: Algorithm[tuple[int, int, int]]
    mask: str
    lse: bool
    pad_sq: Algorithm[bool]
    pad_sk: Algorithm[bool]
    schedule: Algorithm[str]
    sequences: tuple[str, str] = ("", "")
    v_columns: Annotated[int, Counts(bool)] = 0
    parts: tuple[str, ...] = ()
    source: str = ""
    split: bool = False
    edge: Algorithm[str] = TOGETHER
    order: Algorithm[str] = RISING
    along_keys: Algorithm[int] = 1
    packed: Algorithm[bool] = False
    v_dtype: str = ""
    stored: str = ""

    @property
    def values(self) -> str:
        """The type of V, to which weights are rounded."""
        return self.v_dtype or self.dtype

    @property
    def name(self) -> str:
        read = [*[self.stored] * bool(self.stored), self.dtype, *[self.v_dtype] * bool(self.v_dtype)]
        types = [*read, *[self.out] * (self.out != self.dtype)]
        parts = [
            "fmha_fwd", *types, f"d{self.d}x{self.dv}", by(self.block), f"waves{self.waves}",
            f"mfma{by(self.mfma)}", f"mask_{self.mask}", self.schedule,
        ]  # fmt: skip
        parts += [f"along_keys{self.along_keys}"] * (self.along_keys != 1) + ["packed"] * self.packed
        parts += [f"edge_{self.edge}"] * (self.edge != TOGETHER) + [self.order] * (self.order != RISING)
        parts += [*words_of(self.sequences), *([f"vcolumns{self.v_columns}"] if self.v_columns else []), *self.parts]
        parts += [self.source] * bool(self.source)
        pad = ["sq"] * self.pad_sq + ["sk"] * self.pad_sk
        return "_".join(parts + ["split"] * self.split + ["lse"] * self.lse + (["pad", *pad] if pad else []))

    @property
    def scaled(self) -> bool:
        """Q, K and V have a scale each: those of Q and K are part of the scores' scale, that of V an argument."""
        return self.dtype in SCALED

    @property
    def varied(self) -> bool:
        """Whether sequences differ in their numbers of queries or keys."""
        return any(self.sequences)

    @property
    def along_queries(self) -> int:
        """Waves side by side along queries."""
        return self.waves // self.along_keys

    @property
    def cuts(self) -> bool:
        """Whether there may be blocks of keys that queries do not attend to as a whole."""
        return self.mask != "none" or self.pad_sk

    @property
    def main_loop(self) -> int:
        """The one in front of that for the edge."""
        return 0

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return lists_of(self.sequences)

    @property
    def d_tile(self) -> int:
        """Channels of Q's and K's tiles: d padded to the next of `HEAD_TILES`."""
        return head_tile(self.d, copied=self._copied("k"), deep=self.scaled_by_instruction)

    @property
    def dv_tile(self) -> int:
        """Channels of V's and O's tiles: dv padded to the next of `HEAD_TILES`."""
        return head_tile(self.dv, copied=self._copied("v"), deep=self.scaled_by_instruction)

    @property
    def scaled_by_instruction(self) -> bool:
        """Whether matrix instructions multiply elements with scales."""
        return scaled_by_instruction(self.parts)

    def _copied(self, tensor: str) -> bool:
        """Whether a tensor goes from memory to LDS without registers, in one of the loops."""
        return bool(copying(self, tensor))

    @property
    def loops(self) -> dict[str, str]:
        """By field, the texts of the loops' schedules, as far as these are known."""
        known = {"schedule": SCHEDULES.get(self.schedule), "edge": EDGES.get(self.edge)}
        return {field: text for field, text in known.items() if text is not None}

    @property
    def slack(self) -> float:
        """How far scores may rise above those that weights are taken from, as exponents to the base 2."""
        return slack(self.schedule, max(self.d_tile, self.dv_tile), self.waves)

    @property
    def branches(self) -> bool:
        """Whether waves branch around masks that change nothing: in one loop over all blocks of keys, few of which a
        mask cuts, where they branch in each step anyway, around rescaling or around zeros in vectors of V."""
        cuts = self.slack > 0 or "vectors" in self.source.split("_")
        return len(self.loops) == 1 and cuts

    @property
    def schedule_text(self) -> str:
        """The schedule of the loop over keys in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def words_of(sequences: tuple[str, str]) -> list[str]:
    """The words for queries and keys, as names of kernels have them."""
    return [f"{side}_{word}" for side, word in zip("qk", sequences, strict=True) if word]


def lists_of(sequences: tuple[str, str]) -> tuple[str, ...]:
    """The arrays that say where sequences begin and how long they are, by the words for queries and keys."""
    words = zip("qk", sequences, strict=True)
    return tuple(name.format(side) for side, word in words for name, short in LISTS if short in word)


def draws(parts: Sequence[str]) -> bool:
    """Whether a part draws for blocks of 32 x 32, of which a wave has one row."""
    return any(word.partition("_")[0] == DRAWING for word in parts)


def scaled_by_instruction(parts: Sequence[str]) -> bool:
    return any(word.partition("_")[0] == BY_INSTRUCTION for word in parts)


def head_tile(channels: int, *, copied: bool = False, deep: bool = False) -> int:
    """The channels of the tile that holds a head, `copied` to LDS or loaded, `deep` for instructions that scale.

    Raises:
        ValueError: more than the largest of `HEAD_TILES`.
    """
    tiles = WHOLE_TILES if copied or deep else HEAD_TILES
    return min(tile for tile in tiles if tile >= max(channels, BY_INSTRUCTION_TILE * deep))


def channel_multiple(dtype: str) -> int:
    """Channels of a head come in multiples of this, so that rows are whole vectors."""
    return find_dtype(dtype).widest


def row_multiple(dtype: str) -> int:
    """Rows of memory begin at multiples of this, in what memory counts: they are whole vectors."""
    return ACCESS_BYTES // find_dtype(dtype).bytes


def copying(spec: FmhaFwdSpec, *tensors: str) -> list[str]:
    """The fields whose schedules copy one of these to LDS without registers."""
    paths = {field: [parse_schedule(text).path_of(one) for one in tensors] for field, text in spec.loops.items()}
    return [field for field in paths if "direct" in paths[field]]


def loads_k_earlier(spec: FmhaFwdSpec) -> bool:
    """Whether every loop loads a block's K in an earlier step than its V."""
    schedules = [parse_schedule(text) for text in spec.loops.values()]
    return all(one.ahead_of("load_k") > one.ahead_of("load_v") for one in schedules)


def shape_for_values(shape: tuple[int, int, int], dtype: str, values: str, target: Target) -> tuple[int, int, int]:
    """The matrix instruction that multiplies weights of type `values` where one of this shape has made scores of
    `dtype`: the same, or the fastest of another type with as many rows and columns.

    Raises:
        TargetError: the chip has none.
    """
    if values == dtype:
        return shape
    rows, columns, _ = shape
    able = [one for one in target.mfmas(values) if (one.m, one.n) == (rows, columns) and not one.scaled]
    if not able:
        raise TargetError(f"{target.name} has no {rows}x{columns} matrix instruction for {values}")
    return able[0].m, able[0].n, able[0].k


def keys_of_scale(parts: Sequence[str], source: str) -> float:
    """How many keys share a scale, by words of parts and of the source of K and V."""
    for word in parts:
        name, *sizes = word.split("_")
        if name in ("blockscales", "sagescales"):
            return int(sizes[1])
        if name == "pagescales":
            return page_size(source)
    return math.inf
