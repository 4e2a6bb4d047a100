"""Which schedules attention forward takes where none is named: rules from the model of time
(benchmarks/results/schedules.md)."""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.ops.attention.paged_spec import gathers, page_size
from ckmlir.ops.scalars import ceil_div
from ckmlir.targets import Target

DEFAULT, AHEAD, OUT_OF_PHASE, WOVEN = "qr", "qr_two_ahead", "qr_async_ping_pong", "qr_woven"
WOVEN_COPIES, WOVEN_FAR = "qr_woven_async", "qr_woven_async_far"
WOVEN_BYTES, WOVEN_DEEP, WOVEN_COPIES_DEEP = "qr_woven_bytes", "qr_woven_deep", "qr_woven_async_deep"
LATE = "qr_late"
"""The schedule that fits everywhere, that with two blocks of keys on their way, the one whose groups of waves take
turns, and those that weave the softmax between the matrix instructions. Two of these copy K and V to LDS without
registers; WOVEN_FAR begins earlier, for steps of 64 channels and 64 keys, which end before a copy of the step before is
there. The three for 8-bit types make four weights at a time; the second and the third, which copies too, are for matrix
instructions of DEEP channels, whose operands are 32 bytes. LATE loads what a step takes when the one before has taken
its own, so that registers hold it once."""
COPYING = (WOVEN_COPIES, WOVEN_FAR)
WOVEN_TILES = {WOVEN_COPIES: (128, 256), WOVEN_FAR: (64,), WOVEN: (64, 128)}
"""Channels with which weaving was compared and pays."""
WIDE = 128
"""Channels that leave few registers where K and V go through some."""
WOVEN_WITH = ("alibi", "bias", "sink", "softcap")
"""Parts beside which it was."""
LAZY_WITH = ("softcap", "dropout")
"""Parts beside which weights may follow their sum."""
WOVEN_KEYS, WIDE_KEYS = 128, 1024
"""Keys from which on it is the faster one, its long prologue included; with more channels than WIDE, of which
a wave takes 16 queries, from WIDE_KEYS on."""
WOVEN_WINDOW = {WOVEN: 1024, **dict.fromkeys(COPYING, 512)}
"""The width of a window from which on it is, of which a workgroup's queries attend to a part each."""
WINDOW_OF_CHANNELS = 4
"""Such a width for each channel, of at most WIDE, where copies to LDS weave and waves branch around all of the mask."""
WOVEN_BYTES_KEYS, WOVEN_DEEP_KEYS, DEEP = 512, 1024, 64
"""Keys from which on weaving pays for 8-bit types: with WIDE channels, and with fewer where instructions take DEEP
channels (by half as many .97 and 1.02 of the cycles of `qr` with 128 and 96 channels, 1.04 with 64)."""
LONG_TILE = 64
"""Channels up to which steps of 8-bit types take 128 keys."""
EDGE_TILE, EDGE_KEYS = LONG_TILE, 1024
"""Channels with which 8-bit types have a loop of their own for blocks of keys that a causal mask cuts, in steps of 128
keys; .79 to .94 of the cycles on gfx950 for 512 to 4096 queries. With more channels they do from so many keys on: .85
to .97 (512 keys .94 with 96 channels, 1.04 with 128)."""
SLACK = 8.0
"""Weights up to 256, which is that of FlashAttention-4 (`rescale_threshold`, for types of 16 bits)."""
TURNS_TILE, TURNS_RATE = 128, 2048
"""Channels, and operations in a cycle of a compute unit's matrix cores, with which taking turns pays."""
TOGETHER = "none"
"""The edge of a kernel whose one loop takes the blocks of keys that the mask cuts with the others."""
EDGES = {WOVEN: "qr", **dict.fromkeys(COPYING, "qr_async_trload")}
"""By schedule, that of blocks which a mask cuts, where they have a loop of their own."""

WOVEN_PARTS = {"bias": 40, "dropout": 40, "alibi": 40, "softcap": 24, "softcap_level": 0}
"""Registers that parts take in a woven loop with blocks of 32 queries a wave and 64 keys, where what two iterations of
them compute or load is alive: by spills, and rounded up; by the whole word of a part, else by its first. Weights from
one exponent spare as many as the cap takes."""
WOVEN_PLACES = 24
"""The same of rows in pages of one key beside a mask, where V is turned on its way to LDS."""
WOVEN_MASK = 24
"""The same of a mask there, which takes comparisons that are alive at once, and ends of runs of keys."""


def woven_registers(parts: Sequence[str]) -> int:
    """Registers that a woven loop needs for parts, by their words."""
    return sum(WOVEN_PARTS.get(word, WOVEN_PARTS.get(word.partition("_")[0], 0)) for word in parts)


def woven_places(mask: str, source: str, keys: int) -> int:
    """Registers that a woven loop needs for places of rows in pages smaller than a block of `keys`, on chips that turn
    V on its way to LDS: with blocks of 256 queries bf16 spilled four beside a window where a page is one key."""
    alone = page_size(source) == 1 and "vectors" not in source.split("_") and gathers(source, keys)
    return WOVEN_PLACES * (alone and mask != "none")


def woven_mask(dtype: str, mask: str, parts: Sequence[str], *, ragged: bool) -> int:
    """Registers that a woven loop needs for a mask, on the same chips; `ragged`: keys may end within a block. With
    blocks of 256 queries and 128 channels f16 spilled 2 to 4 beside windows, and 2 beside a causal mask; sink tokens 2
    to 7 scalar ones in both types. Beside a logit with weights from one exponent ragged keys spilled one in f16."""
    cut = mask == "window" or (mask == "causal" and ragged)
    joined = ragged and {"softcap_level", "sink"} <= set(parts)
    return WOVEN_MASK * (mask == "sinks" or ((cut or joined) and dtype == "f16"))


def weaves_beside(parts: Sequence[str], mask: str, source: str, keys: int) -> bool:
    """Whether weaving was compared beside each of these parts and the source, by their words, and leaves registers for
    them: not where blocks of keys that a mask cuts have a loop of their own (ALiBi spilled eleven scalar ones), nor
    where blocks of `keys` are rows of a list (a soft cap spilled three), or lie at addresses of 64 bits (twelve)."""
    left = mask != "sinks" and not gathers(source, keys)
    fits = not parts or (left and all(word.partition("_")[0] in WOVEN_WITH for word in parts))
    return fits and "far" not in source.split("_")


def woven(tile: int, reach: int, mask: str, *, whole: bool, long: bool, plain: int, target: Target) -> list[str]:
    """The schedules that weave, where that pays, the best first: for 16-bit types, and more of the plain workgroups
    than compute units, as theirs are twice as large. Without copies to LDS that transpose, 128 channels leave a mask
    too few registers, but for a causal one over whole blocks of keys; and as long as each workgroup has a compute unit
    of its own, the last blocks of queries take as long as without that mask, smaller ones of others not.

    Args:
        tile: channels of the tiles of all operands.
        reach: the most keys that a query attends to; `whole`: keys come in whole blocks, for certain; `long`: in such
            long ones that a copy arrives within a step of few channels (`row_choice.long_blocks`).
        plain: workgroups of half as many queries.
    """
    several = whole and ceil_div(plain, 2) > target.compute_units
    fitting = tile < WIDE or mask == "none" or (mask == "causal" and several)
    able = [*COPYING * target.has("lds_transpose_read"), *[WOVEN] * fitting]
    fast = [name for name in able if tile in WOVEN_TILES[name] or (name == WOVEN_COPIES and long)]
    return [name for name in fast if reach >= _least_reach(name, tile, mask)]


def _least_reach(name: str, tile: int, mask: str) -> int:
    """Keys that a query has to attend to at most for the schedule to pay."""
    if mask in ("none", "causal"):
        return WOVEN_KEYS if tile <= WIDE else WIDE_KEYS
    return WINDOW_OF_CHANNELS * min(tile, WIDE) if name in COPYING and mask == "window" else WOVEN_WINDOW[name]


def woven_bytes(tile: int, reach: int, mask: str, depth: int, *, whole: bool) -> list[str]:
    """The schedule that weaves 8-bit types, where that pays: where no mask makes workgroups of twice the height wait
    for the longer half, and with matrix instructions of fewer than DEEP channels with the larger tile alone, since
    exponentials of smaller ones take as long as before. K and V are copied to LDS where keys come in whole blocks, or
    steps take 128 keys.

    Args:
        tile, reach, whole: as `woven` has them.
        depth: channels that a matrix instruction takes.
    """
    if not 0 < tile <= WIDE or mask != "none" or reach < (WOVEN_BYTES_KEYS if tile == WIDE else WOVEN_DEEP_KEYS):
        return []
    if depth < DEEP:
        return [WOVEN_BYTES] if tile == WIDE else []
    copied = tile <= LONG_TILE or (tile == WIDE and whole)
    return [WOVEN_COPIES_DEEP if copied else WOVEN_DEEP]


def slack(schedule: str, tile: int) -> float:
    """How far, as exponents to the base 2, scores may rise above those that weights are taken from, before sums over
    earlier keys are rescaled; 0 where they always are. Weights are up to two to this power then, which f16 and bf16
    hold as exactly as those up to one, and waves leave multiplications by one out.

    That pays where arithmetic is woven, for types of 16 bits, as far as there are registers for it: what a wave leaves
    out cannot be spread over matrix instructions, and LLVM keeps both ways' values apart.

    Args:
        tile: the larger of the channels of the tiles.
    """
    pays = schedule in COPYING or (schedule == WOVEN and tile < WIDE)
    return SLACK if pays else 0.0


def lazy(parts: Sequence[str], tile: int, mask: str, *, weaves: bool, listed: bool, target: Target) -> bool:
    """Whether weights of scores that are bounded for it are taken from an exponent that follows their sum
    (`weights_kernel.Lazy`), where that pays: a wave waits for that sum before the first of them is rounded, which takes
    longer than the largest score where arithmetic is woven, and 1.12 of the cycles with 256 channels on gfx942.
    On chips that turn V while they read LDS it takes registers that two waves of a SIMD need beside rows by a list
    (1.29), and 1.08 beside narrow windows.

    Args:
        parts: words; a logit is bounded by nothing, and skipped blocks are found by the largest score.
        tile: channels of the tiles of all operands.
        listed: blocks of keys are rows of a list.
    """
    fits = tile <= WIDE and not weaves and {word.partition("_")[0] for word in parts} <= set(LAZY_WITH)
    narrow = listed or mask in ("window", "sinks")
    return fits and not (narrow and target.has("lds_transpose_read"))


def ahead(tile: int, target: Target) -> list[str]:
    """The schedule that loads two blocks of keys ahead, where that pays: for 16-bit operands that fill so many
    registers that a SIMD holds one wave anyway. Parts do not leave that many (dropout spilled up to 102, a soft cap 4),
    nor do columns of V. 8-bit types, and chips that turn V while they read LDS, need fewer, and two waves are better.

    Args:
        tile: channels of the tiles of all operands.
    """
    return [AHEAD] if tile == WIDE and not target.has("lds_transpose_read") else []


def turns(tile: int, rate: float) -> list[str]:
    """The schedule whose two groups of waves take turns, where that pays: while one multiplies, the softmax of the
    other is hidden, as long as multiplying takes longer.

    Args:
        tile: channels of the tiles of all operands.
        rate: operations in a cycle of a compute unit's matrix cores.
    """
    return [OUT_OF_PHASE] if tile == TURNS_TILE and rate <= TURNS_RATE else []


def edge(schedule: str, tile: int, mask: str) -> str:
    """The schedule of a loop of its own for blocks of keys that are cut, where that pays: under a window with sink
    tokens, since masks that cut off one side are branched around (`FmhaFwdSpec.branches`), or where arithmetic is not
    woven, they hide; and as far as there are registers for another loop."""
    fits = mask == "sinks" and (schedule in COPYING or tile < WIDE)
    return EDGES[schedule] if schedule in EDGES and fits else TOGETHER


def edge_of_bytes(schedule: str, tile: int, reach: int, mask: str, depth: int, *, long: bool) -> str:
    """The same for 8-bit types alone: under a causal mask, where the last blocks of keys alone are compared.

    Args:
        tile, reach: as `woven` has them.
        depth: channels that a matrix instruction takes.
        long: steps take 128 keys.
    """
    pays = long if tile == EDGE_TILE else tile > EDGE_TILE and reach >= EDGE_KEYS
    return DEFAULT if schedule == DEFAULT and mask == "causal" and depth >= DEEP and pays else TOGETHER


RISING = "rising"


def order(mask: str) -> str:
    """The order in which blocks of queries are dealt out, see `orders.ORDERS`: the heaviest first."""
    return "falling" if mask == "causal" else RISING


def order_of_keys(mask: str, *, shared: bool) -> str:
    """That of blocks of keys, whose queries a workgroup of attention backward walks over; `shared`: workgroups that
    stay find blocks by what they cost, from the first on."""
    return "across" if mask == "causal" and not shared else RISING
