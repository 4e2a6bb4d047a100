"""LLVM's spelling of ds_swizzle_b32's offset, which says how lanes are exchanged.

The patterns are those of DS_SWIZZLE_B32 in AMD's CDNA3 ISA document, named as LLVM prints them.
"""

_ROTATE, _FFT = 0xC000, 0xE000
_QUAD_PERMUTE, _QUAD_PERMUTE_MASK = 0x8000, 0xFF00


def swizzle_text(offset: int) -> str:
    """The pattern that an offset stands for, or its number where it stands for none."""
    if offset >= _FFT:
        return f"swizzle(FFT,{offset & 0x1F})"
    if offset >= _ROTATE:
        return f"swizzle(ROTATE,{offset >> 10 & 1},{offset >> 5 & 0x1F})"
    if offset & _QUAD_PERMUTE_MASK == _QUAD_PERMUTE:
        return f"swizzle(QUAD_PERM,{','.join(str(offset >> shift & 3) for shift in (0, 2, 4, 6))})"
    if offset & 0x8000:
        return str(offset)
    return _bit_mask_text(offset & 0x1F, offset >> 5 & 0x1F, offset >> 10 & 0x1F)


def _bit_mask_text(kept: int, forced: int, flipped: int) -> str:
    """The pattern of lane = (lane & kept | forced) ^ flipped within 32 lanes."""
    if kept == 0x1F and not forced and flipped:
        if flipped & (flipped - 1) == 0:
            return f"swizzle(SWAP,{flipped})"
        if flipped & (flipped + 1) == 0:
            return f"swizzle(REVERSE,{flipped + 1})"
    group = 0x20 - kept
    if group > 1 and group & (group - 1) == 0 and forced < group and not flipped:
        return f"swizzle(BROADCAST,{group},{forced})"
    bits = "".join(_bit_text(kept >> bit & 1, forced >> bit & 1, flipped >> bit & 1) for bit in (4, 3, 2, 1, 0))
    return f'swizzle(BITMASK_PERM,"{bits}")'


def _bit_text(kept: int, forced: int, flipped: int) -> str:
    """What becomes of one bit of the lane number: 0, 1, p (preserved) or i (inverted)."""
    from_zero, from_one = forced ^ flipped, (kept | forced) ^ flipped
    if from_zero == from_one:
        return str(from_zero)
    return "i" if from_zero else "p"
