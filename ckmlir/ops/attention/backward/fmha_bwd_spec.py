"""Which main kernels of attention backward there are: the specification, how it is chosen, what a chip can run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from msgspec import Struct

from ckmlir.ops.attention.fmha_fwd_spec import FORWARD_MASKS, HEAD_TILES, head_tile, lists_of, row_multiple, words_of
from ckmlir.ops.attention.orders import ORDERS
from ckmlir.ops.attention.part import Part
from ckmlir.ops.attention.parts.alibi import Alibi
from ckmlir.ops.attention.parts.bias import Bias
from ckmlir.ops.attention.parts.bias_gradient import BiasGradient
from ckmlir.ops.attention.parts.dropout import Dropout
from ckmlir.ops.attention.parts.hstu_keys import HstuKeys
from ckmlir.ops.attention.parts.silu import Silu
from ckmlir.ops.attention.philox import BLOCK as DRAWN
from ckmlir.ops.attention.schedule_choice import RISING, order_of_keys
from ckmlir.ops.choice import first_valid
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import BACKWARD, BACKWARD_KEYS, parse
from ckmlir.ops.spec import Algorithm, Reason, Spec, by, not_a_choice, not_powers_of_two
from ckmlir.targets import Target, TargetError
from ckmlir.targets.cdna import WAVE_SIZE

SCHEDULES = {**BACKWARD, **BACKWARD_KEYS}
DTYPES = ("f16", "bf16", "f32")
BACKWARD_PARTS: tuple[type[Part], ...] = (Bias, Alibi, Dropout, BiasGradient)
"""What a request of `fmha_bwd` may add, in the order in which scores are changed."""
KEPT = "kept"
SHARING = ("shares", "blocks")
STAYING = (*SHARING, "heads")
SINKS = ("atomic", "slots", *STAYING, KEPT)
"""What becomes of a block's part of dQ: it is added to the others, stored in a slot of its own, added to those that
the same workgroup, which stays, has in the same head (its range ends behind any step, or behind a block of keys), added
to those of all blocks of a head by the workgroup that takes them, or added in registers by a workgroup that keeps all
queries."""
STRIDED = ("q", "k", "v", "do", "dk", "dv")
"""Arrays whose strides the kernel takes."""
WAVES = 4
BLOCKS = {2: {128: (32, 128, 32), 256: (16, 64, 16)}, 4: {64: (32, 128, 32), 256: (16, 64, 16)}}
"""By the bytes of an element and the channels of the larger tile, at most: queries and keys of a block, rows of the
matrix instruction."""
REGISTER_BYTES = 4
LEAST_SIDE = 16
"""Rows and columns of the smallest result of a matrix instruction."""
DEFAULT, KEYS_DEFAULT = "phases", "keys"
WOVEN, WOVEN_QUERIES = "woven", "woven_queries"
"""What is taken where it fits, the first before the second, which has LDS for Q of two steps alone: for types of 16
bits, by the model of time (docs/timing.md)."""
MOST_BESIDE = {WOVEN: 2, WOVEN_QUERIES: 1}
"""Beside 97 to 128 channels: parts that a woven step leaves registers for, by spills."""
WOVEN_TILE = 64
"""Channels from which on a product has the matrix instructions that reads run ahead of."""
FULL_TILES = 96, 128
"""More channels than these and no more than those take nearly all registers, since blocks have 128 keys."""
FEW = {2: {128: 32, 256: 16}, 4: {64: 32, 128: 16}}
"""By the bytes of an element and the channels of the larger tile, at most: queries that a workgroup keeps, at most."""
FEW_ROWS = (16, 32)
FEW_KEYS = 64
"""Blocks where a workgroup keeps all queries: their rows, and keys of a step, by matrix instructions of 16 rows."""
WIDE_SINGLES = 128, 256
"""Of f32 one of d and dv has no more channels than the first; the other has at most the second."""


class Deal(Struct, frozen=True):
    """How the draws of dropout for a block of (queries, keys) are dealt out: a draw is for one query and half of 32
    keys, so that lanes hold the queries and both halves.

    Attributes:
        lanes, waves, blocks: how many blocks of 32 keys lie along lanes, waves and a lane's registers.
        word_waves: waves that draw the same and keep a part of it each.
    """

    lanes: int
    waves: int
    blocks: int
    word_waves: int


class FmhaBwdSpec(Spec):
    """What a main kernel's code depends on.

    Attributes:
        dtype, out: element types of Q, K, V and dO, and of dK and dV.
        d, dv: channels of Q and K, and of V and O.
        block: tile (queries, keys) of a workgroup in one step of the loop.
        waves: of a workgroup, side by side along the keys.
        mfma: shape (m, n, k) of the matrix instruction of all products but dQ.
        dq_mfma, dq_waves: that of dQ, and how many waves are side by side along queries and channels there.
        mask: none, causal (only the bound x of the mask's coordinate is tested), window (both bounds) or sinks (a
            window, and the first keys).
        sink: see `SINKS`.
        sequences: what memory holds of queries and of keys: see `sequences.Rows.word`.
        parts: words of what changes scores.
        order: in which blocks of keys are dealt out, see `orders.ORDERS`.
    """

    dtype: str
    out: str
    d: int
    dv: int
    block: Algorithm[tuple[int, int]]
    waves: Algorithm[int]
    mfma: Algorithm[tuple[int, int, int]]
    dq_mfma: Algorithm[tuple[int, int, int]]
    dq_waves: Algorithm[tuple[int, int]]
    mask: str
    sink: str
    schedule: Algorithm[str]
    sequences: tuple[str, str]
    parts: tuple[str, ...]
    order: Algorithm[str] = RISING

    @property
    def name(self) -> str:
        types = [self.dtype] if self.out == self.dtype else [self.dtype, self.out]
        return "_".join([
            "fmha_bwd", *types, f"d{self.d}x{self.dv}", by(self.block), f"waves{self.waves}",
            f"mfma{by(self.mfma)}", f"dq{by(self.dq_mfma)}_waves{by(self.dq_waves)}", f"mask_{self.mask}", self.sink,
            self.schedule, *words_of(self.sequences),
            *self.parts, *([] if self.order == RISING else [self.order]),
        ])  # fmt: skip

    @property
    def varied(self) -> bool:
        """Whether sequences differ in their numbers of queries or keys."""
        return any(self.sequences)

    @property
    def lists(self) -> tuple[str, ...]:
        """The arrays that say where sequences begin and how long they are."""
        return lists_of(self.sequences)

    @property
    def d_tile(self) -> int:
        """Channels of Q's and K's tiles: d padded to the next of `HEAD_TILES` that leaves every wave as much of dQ."""
        part = self.waves * LEAST_SIDE**2 // self.block[0]
        return min(tile for tile in HEAD_TILES if tile >= self.d and tile % part == 0)

    @property
    def dv_tile(self) -> int:
        """Channels of V's and O's tiles: dv padded to the next of `HEAD_TILES`."""
        return head_tile(self.dv)

    @property
    def sums(self) -> bool:
        """Whether weights have a sum that they are divided by, and rows of it: those of a softmax."""
        return not any(word.partition("_")[0] == Silu.name for word in self.parts)

    @property
    def beside(self) -> int:
        """How many parts take registers: not SiLU, which has no rows where a softmax has two."""
        return len(self.parts) - (not self.sums)

    @property
    def row_multiple(self) -> int:
        """Elements of which the distances of rows and heads are multiples."""
        return row_multiple(self.dtype)

    def read_both_ways(self, target: Target) -> bool:
        """Whether a tile in LDS is read by rows and across them: reads transpose, or elements are whole registers."""
        return find_dtype(self.dtype).bytes == REGISTER_BYTES or target.has("lds_transpose_read")

    @property
    def schedule_text(self) -> str:
        """The schedule of the loop over queries in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]


def choose_spec(
    *, d: int, dv: int, dtype: str, out: str, mask: str, sink: str, schedule: str | None, target: Target,
    sequences: tuple[str, str], parts: tuple[str, ...], few: int, dealt: str,
) -> FmhaBwdSpec:  # fmt: skip
    """The kernel for a problem: the largest block whose tiles fit, and of the ways to share dQ among the waves the
    first that the largest matrix instruction takes. `few`: the most queries of a sequence, which are kept as one block
    with that sink; `dealt`: the mask whose blocks of keys take as long as these."""
    channels = max(head_tile(d), head_tile(dv))
    queries, keys, side = block_of(dtype, channels) if sink != KEPT else (rows_of(few), FEW_KEYS, LEAST_SIDE)
    mfma = _instruction(target, dtype, side, queries)
    candidates = []
    schedules = [schedule] if schedule else [KEYS_DEFAULT] if sink == KEPT else _defaults(dtype)
    for name, rows, along in itertools.product(schedules, (32, 16), (1, 2, 4)):
        candidates.append(FmhaBwdSpec(
            dtype=dtype, out=out, d=d, dv=dv, block=(queries, keys), waves=WAVES, mfma=mfma,
            dq_mfma=_instruction(target, dtype, rows, keys), dq_waves=(along, WAVES // along), mask=mask, sink=sink,
            schedule=name, sequences=sequences, parts=parts,
            order=order_of_keys(dealt, shared=sink in STAYING),
        ))  # fmt: skip
    return first_valid(candidates, lambda one: invalid_fields(one, target))


def _defaults(dtype: str) -> tuple[str, ...]:
    """Schedules of the loop over queries, the best first."""
    return (DEFAULT,) if find_dtype(dtype).bytes == REGISTER_BYTES else (WOVEN, WOVEN_QUERIES, DEFAULT)


def block_of(dtype: str, channels: int) -> tuple[int, int, int]:
    """Queries and keys of a block, and rows of the matrix instruction, by the channels of the larger tile."""
    blocks = BLOCKS[find_dtype(dtype).bytes]
    return next(block for most, block in blocks.items() if channels <= most)


def most_kept(dtype: str, d: int, dv: int) -> int:
    """The most queries of a sequence that a workgroup keeps in registers beside what it does with keys, or 0."""
    found = FEW[find_dtype(dtype).bytes]
    return next((rows for most, rows in found.items() if max(head_tile(d), head_tile(dv)) <= most), 0)


def rows_of(queries: int) -> int:
    """Rows of the block that so many queries are."""
    return next((rows for rows in FEW_ROWS if queries <= rows), FEW_ROWS[-1])


def _instruction(target: Target, dtype: str, side: int, depth: int) -> tuple[int, int, int]:
    """The chip's fastest instruction with so many rows and columns whose k divides a depth."""
    found = (one for one in target.mfmas(dtype) if one.m == one.n == side and not one.scaled and depth % one.k == 0)
    one = next(found, None)
    return (one.m, one.n, one.k) if one else (side, side, depth)


def invalid_fields(spec: FmhaBwdSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(spec, dtype=DTYPES, mask=FORWARD_MASKS, sink=SINKS, schedule=tuple(SCHEDULES),
                      order=tuple(ORDERS)),
        *not_powers_of_two(spec, "block", "waves", "dq_waves"),
        *_channels(spec),
        *_output(spec),
        *_drawn(spec, target),
        *_staying(spec),
        *_scheduled(spec),
    ]
    # Each group of checks relies on the ones before it.
    reasons = reasons or list(_shared_channels(spec, target))
    reasons = reasons or [*_woven(spec, target), *_matrix_instructions(spec, target)]
    return reasons or excess(backward_resources(spec, target), target)


def _channels(spec: FmhaBwdSpec) -> Iterator[Reason]:
    if spec.dtype not in DTYPES:
        return
    multiple = spec.row_multiple
    for field in ("d", "dv"):
        channels = getattr(spec, field)
        if channels < 1 or channels % multiple or channels > HEAD_TILES[-1]:
            right = f"expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
            yield Reason(field, channels, "no tile holds so many channels in whole vectors", right)
    if find_dtype(spec.dtype).bytes == REGISTER_BYTES and min(spec.d, spec.dv) > WIDE_SINGLES[0]:
        why = f"with dv={spec.dv} a block of keys and its gradients take more registers of {spec.dtype} than there are"
        yield Reason("d", spec.d, why, f"expected d or dv of at most {WIDE_SINGLES[0]}, or f16 or bf16")


def _shared_channels(spec: FmhaBwdSpec, target: Target) -> Iterator[Reason]:
    """Whether a workgroup has so many waves, and they share dQ evenly."""
    work_items, most = spec.waves * target.wave_size, target.workgroup_size
    if work_items > most:
        yield Reason("waves", spec.waves, f"a workgroup of {work_items} work-items", f"expected at most {most}")
        return
    part = spec.waves * LEAST_SIDE**2 // spec.block[0]
    if not any(part and tile >= spec.d and tile % part == 0 for tile in HEAD_TILES):
        why = f"{spec.waves} waves do not share {spec.d} channels of so many queries"
        yield Reason("block", spec.block, why, "expected 16, 32 or 64 queries, or another number of waves")


def _output(spec: FmhaBwdSpec) -> Iterator[Reason]:
    if spec.out not in (spec.dtype, "f32"):
        why = f"dK and dV of {spec.dtype} attention cannot have this type"
        yield Reason("out", spec.out, why, f"expected {spec.dtype} or f32")


def shared_draws(queries: int, keys: int, waves: int) -> Deal:
    """How the draws for a block are dealt out. Raises ValueError where they cannot be."""
    along = WAVE_SIZE // (2 * queries)
    blocks = keys // DRAWN
    if queries > DRAWN or keys % DRAWN or along == 0 or blocks % along:
        raise ValueError(f"{queries}x{keys} elements cannot be drawn for by {WAVE_SIZE} lanes")
    blocks //= along
    across = min(blocks, waves)
    if waves // across > 4:
        raise ValueError(f"{waves} waves are more than draw for {queries}x{keys} elements")
    return Deal(along, across, blocks // across, waves // across)


def _drawn(spec: FmhaBwdSpec, target: Target) -> Iterator[Reason]:
    """Whether dropout's draws can be dealt out."""
    if not any(word.startswith("dropout") for word in spec.parts) or not all(map(_is_power, (*spec.block, spec.waves))):
        return
    try:
        shared_draws(*spec.block, spec.waves)
    except ValueError as error:
        yield Reason("block", spec.block, f"dropout: {error}", "expected 16 or 32 queries and 64 or 128 keys")


def _staying(spec: FmhaBwdSpec) -> Iterator[Reason]:
    """Whether registers are left for what stays from one block of keys to the next: by spills, on all chips."""
    if spec.sink in STAYING and len(spec.parts) > 1 and FULL_TILES[0] < max(spec.d, spec.dv) <= FULL_TILES[1]:
        kinds = ", ".join(word.partition("_")[0] for word in spec.parts)
        wide = "d" if spec.d > FULL_TILES[0] else "dv"
        why = f"{kinds} together with more than {FULL_TILES[0]} channels leave persistent=1 too few registers"
        yield Reason(wide, getattr(spec, wide), why, f"expected persistent=0, or more than {FULL_TILES[1]} channels")
    elif spec.sink in STAYING and find_dtype(spec.dtype).bytes == REGISTER_BYTES and spec.d > WIDE_SINGLES[0]:
        why = f"so many channels of {spec.dtype} leave persistent=1 too few registers"
        yield Reason("d", spec.d, why, f"expected persistent=0, or at most {WIDE_SINGLES[0]} channels of Q and K")


def _scheduled(spec: FmhaBwdSpec) -> Iterator[Reason]:
    """Whether the schedule is one of the loop that the kernel has."""
    own = BACKWARD_KEYS if spec.sink == KEPT else BACKWARD
    if spec.schedule in SCHEDULES and spec.schedule not in own:
        what = "keys" if spec.sink == KEPT else "queries"
        yield Reason("schedule", spec.schedule, f"the loop is one over {what}", f"expected {', '.join(own)}")


def _woven(spec: FmhaBwdSpec, target: Target) -> Iterator[Reason]:
    """Whether a step can be woven, if it is to be: from products long enough, of accesses and arithmetic alone."""
    if spec.schedule not in (WOVEN, WOVEN_QUERIES):
        return
    if min(spec.d_tile, spec.dv_tile) < WOVEN_TILE:
        why = f"products of {min(spec.d, spec.dv)} channels have too few matrix instructions to read ahead of"
        yield Reason("schedule", spec.schedule, why, f"expected d and dv above {WOVEN_TILE // 2}, or {DEFAULT}")
    if spec.schedule == WOVEN_QUERIES and spec.read_both_ways(target):
        why = f"Q of {spec.dtype} lies in LDS once on {target.name}"
        yield Reason("schedule", spec.schedule, why, f"expected {WOVEN} or {DEFAULT}")
    names = {word.partition("_")[0] for word in spec.parts}
    if names >= {HstuKeys.name, Dropout.name}:
        why = "draws of dropout and ends of runs together leave too few scalar registers"
        yield Reason("schedule", spec.schedule, why, f"expected dropout=0, or {DEFAULT}")
    if BiasGradient.name in names:
        why = "dS is stored between its arithmetic"
        yield Reason("schedule", spec.schedule, why, f"expected dbias=0, or {DEFAULT}")
    if spec.beside > MOST_BESIDE[spec.schedule] and FULL_TILES[0] < max(spec.d, spec.dv) <= FULL_TILES[1]:
        why = f"what else the kernel does leaves it too few registers for more than {FULL_TILES[0]} channels"
        yield Reason("schedule", spec.schedule, why, f"expected {DEFAULT}")


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _matrix_instructions(spec: FmhaBwdSpec, target: Target) -> Iterator[Reason]:
    """Whether waves and instructions divide the tiles of all products."""
    (queries, keys), (along, across) = spec.block, spec.dq_waves
    if along * across != spec.waves:
        yield Reason("dq_waves", spec.dq_waves, f"there are {spec.waves} waves", "expected as many side by side")
        return
    for field, products in (
        ("mfma", [(keys // spec.waves, queries, spec.d_tile), (keys // spec.waves, queries, spec.dv_tile),
                  (keys // spec.waves, spec.d_tile, queries), (keys // spec.waves, spec.dv_tile, queries)]),
        ("dq_mfma", [(queries // along, spec.d_tile // across, keys)]),
    ):  # fmt: skip
        shape = getattr(spec, field)
        try:
            target.find_mfma(by(shape), spec.dtype)
        except TargetError as error:
            why, _, right = str(error).partition("; ")
            yield Reason(field, shape, why, right)
            continue
        for product in products:
            if any(length == 0 or length % step for length, step in zip(product, shape, strict=True)):
                yield Reason(field, shape, f"a wave's product is {by(product)}", "expected a shape that divides it")
                break


def backward_resources(spec: FmhaBwdSpec, target: Target) -> Resources:
    """Tiles of Q and dO and dS in LDS, behind that of K; accumulators of dK, dV, S and dP, the block of keys three
    times, two operands, what is loaded for the next step. Where queries are kept they are there both ways, and dQ;
    K and V of two steps and Kᵀ, the sum that leaves."""
    queries, keys = spec.block
    size, threads = find_dtype(spec.dtype).bytes, spec.waves * target.wave_size
    copies = 1 if spec.read_both_ways(target) else 2
    channels = spec.d_tile + spec.dv_tile
    random = queries * keys * any(word.startswith("dropout") for word in spec.parts)
    scores = 2 * keys * queries // threads
    wide = max(spec.d_tile, spec.dv_tile)
    loaded = queries * channels * size // threads // 4
    if spec.sink == KEPT:
        tile, rest = keys * spec.d_tile * size, queries * keys * size + random
        apart = copies * tile + rest  # where there is no room for that, copies share bytes
        lds = max(apart if apart <= target.lds_bytes else tile + rest, copies * queries * channels * size)
        sums = queries * spec.d_tile // threads + keys * wide // threads
        kept = 2 * queries * channels * size // target.wave_size // 4
        rows = keys * (2 * channels + spec.d_tile) * size // threads // 4
        return Resources("block", spec.block, threads, lds, sums, sums + scores + kept + rows)
    buffers = parse(spec.schedule_text).buffers_of
    tiles = queries * (spec.d_tile * buffers("q") + spec.dv_tile * buffers("do"))
    lds = (copies * tiles + queries * keys) * size + 2 * queries * 4 * buffers("delta") + random * buffers("random")
    lds = max(lds, keys * spec.d_tile * size)
    sums = keys * channels // threads
    kept = keys * (channels + spec.d_tile) * size // threads // 4
    operand = queries * wide * size // target.wave_size // 4
    return Resources("block", spec.block, threads, lds, sums, sums + scores + kept + 2 * operand + loaded)
