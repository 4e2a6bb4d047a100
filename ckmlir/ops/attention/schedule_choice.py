"""Which schedules attention forward takes where none is named: rules from the model of time
(benchmarks/results/schedules.md)."""

from __future__ import annotations

from collections.abc import Sequence

from ckmlir.ops.attention.paged_spec import gathers, page_size
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
WIDE = 128
"""Channels that leave few registers where K and V go through some."""
WOVEN_WITH = ("alibi", "bias", "sink", "softcap")
"""Parts beside which weaving was compared and pays; dropout too, where there are as many channels as WIDE or a mask
(.61 to .74 of the cycles; with 64 channels and no mask 1.03 on gfx942, beside a bias 1.26)."""
LAZY_WITH = ("softcap", "dropout")
"""Parts beside which weights may follow their sum."""
WOVEN_KEYS = 128
"""Keys from which on it is the faster one, its long prologue included."""
WINDOW_OF_CHANNELS = 2
"""The width of a window for each channel, of at most WIDE, from which on it is where copies to LDS weave (.98 of the
cycles; 1.11 with half as many keys)."""
DEEP = 64
"""Channels of a matrix instruction, from which on weaving pays for 8-bit types with fewer channels than WIDE."""
WOVEN_BYTES_WITH = ("alibi", "sink", "softcap", "outputscale")
"""Parts beside which weaving 8-bit types was compared and pays; a bias of f32 wants other loads (1.03), and dropout
takes as long."""
WOVEN_BYTES_KEYS, WOVEN_DEEP_KEYS = 512, 1024
"""Keys from which on it does; the latter where K and V go through registers, with fewer channels than WIDE."""
EDGE_TILE, EDGE_KEYS = 64, 1024
"""Channels with which 8-bit types have a loop of their own for blocks of keys that a causal mask cuts, in steps of 128
keys; .79 to .94 of the cycles on gfx950 for 512 to 4096 queries. With more channels they do from so many keys on: .85
to .97 (512 keys .94 with 96 channels, 1.04 with 128). Where it weaves, .83 to .96 and .84 to .95."""
SIMDS = 4
"""Of a compute unit."""
SLACK = 8.0
"""Weights up to 256, which is that of FlashAttention-4 (`rescale_threshold`, for types of 16 bits)."""
TURNS_TILE, TURNS_RATE = 128, 2048
"""Channels, and operations in a cycle of a compute unit's matrix cores, with which taking turns pays."""
TOGETHER = "none"
"""The edge of a kernel whose one loop takes the blocks of keys that the mask cuts with the others."""
SINKS_EDGE = {WOVEN_FAR: "qr_async_trload"}
"""By schedule, that of blocks which a window with sink tokens cuts, where they have a loop of their own."""

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


def weaves_beside(parts: Sequence[str], tile: int, mask: str) -> bool:
    """Whether weaving pays beside each of these parts, by their words. `tile`: channels of the larger tile."""
    drawn = tile >= WIDE or mask != "none"
    return {word.partition("_")[0] for word in parts} <= {*WOVEN_WITH, *["dropout"] * drawn}


def woven(tiles: tuple[int, int], reach: int, mask: str, *, long: bool, target: Target) -> list[str]:
    """The schedules that weave 16-bit types, where that pays, the best first. Copies to LDS want as many channels as
    lanes side by side have, and arrive within a step of many channels.

    Args:
        tiles: channels of the tiles of K and V.
        reach: the most keys that a query attends to; `long`: they come in such long blocks that a copy arrives within a
            step of few channels (`row_choice.long_blocks`).
    """
    widest, whole = max(tiles), not any(one & (one - 1) for one in tiles)
    turned = target.has("lds_transpose_read")
    copies = WOVEN_COPIES if long or widest >= WIDE else WOVEN_FAR
    least = WINDOW_OF_CHANNELS * min(widest, WIDE) if turned and mask not in ("none", "causal") else 0
    fits = min(tiles) > 0 and reach >= max(WOVEN_KEYS, least)
    return [*[copies] * (turned and whole), WOVEN] if fits else []


def woven_bytes(tile: int, reach: int, mask: str, parts: Sequence[str], depth: int, *, long: bool) -> list[str]:
    """The schedules that weave 8-bit types, where that pays, the best first. K and V are copied to LDS where matrix
    instructions take DEEP channels, in steps of 128 keys (.69 to .97 of the cycles), or with WIDE channels of 64 (.84);
    elsewhere they go through registers, with as many channels (.66 of the cycles under a causal mask).

    Args:
        tile: channels of the tiles of all operands.
        reach, mask: as `woven` has them.
        depth: channels that a matrix instruction takes.
        long: steps take 128 keys.
    """
    fits = {word.partition("_")[0] for word in parts} <= set(WOVEN_BYTES_WITH) and reach >= WOVEN_BYTES_KEYS
    if not fits or not 0 < tile <= WIDE or mask == "sinks":
        return []
    if depth < DEEP:
        return [WOVEN_BYTES] if tile == WIDE and mask in ("none", "causal") else []
    if tile & (tile - 1):
        return [WOVEN_DEEP] if mask in ("none", "causal") and reach >= WOVEN_DEEP_KEYS else []
    return [WOVEN_COPIES_DEEP] if long or tile == WIDE else []


def slack(schedule: str, tile: int, waves: int) -> float:
    """How far, as exponents to the base 2, scores may rise above those that weights are taken from, before sums over
    earlier keys are rescaled; 0 where they always are. Weights are up to two to this power then, which f16 and bf16
    hold as exactly as those up to one, and waves leave multiplications by one out.

    That pays where arithmetic is woven, for types of 16 bits, as far as there are registers for it: what a wave leaves
    out cannot be spread over matrix instructions, and LLVM keeps both ways' values apart.

    Args:
        tile: the larger of the channels of the tiles.
        waves: of a workgroup, one for a SIMD or two.
    """
    pays = schedule in COPYING or (schedule == WOVEN and (tile < WIDE or waves <= SIMDS))
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


def edge(schedule: str, mask: str, parts: Sequence[str]) -> str:
    """The schedule of a loop of its own for blocks of keys that are cut, where that pays: under a window with sink
    tokens, since masks that cut off one side are branched around (`FmhaFwdSpec.branches`), with few channels (.98 of
    the cycles). Such a loop wants a prologue of its own, 1.06 with 128 channels, and scalar registers beside parts."""
    return SINKS_EDGE.get(schedule, TOGETHER) if mask == "sinks" and not parts else TOGETHER


def edge_of_bytes(schedule: str, tile: int, reach: int, mask: str, depth: int, *, long: bool) -> str:
    """The same for 8-bit types alone: under a causal mask, where the last blocks of keys alone are compared.

    Args:
        tile, reach: as `woven` has them.
        depth: channels that a matrix instruction takes.
        long: steps take 128 keys.
    """
    pays = long if tile == EDGE_TILE else tile > EDGE_TILE and reach >= EDGE_KEYS
    loops = schedule in (DEFAULT, WOVEN_COPIES_DEEP, WOVEN_DEEP) and mask == "causal"
    return DEFAULT if loops and depth >= DEEP and pays else TOGETHER


RISING = "rising"


def order(mask: str) -> str:
    """The order in which blocks of queries are dealt out, see `orders.ORDERS`: the heaviest first."""
    return "falling" if mask == "causal" else RISING


def order_of_keys(mask: str, *, shared: bool) -> str:
    """That of blocks of keys, whose queries a workgroup of attention backward walks over; `shared`: workgroups that
    stay find blocks by what they cost, from the first on."""
    return "across" if mask == "causal" and not shared else RISING
