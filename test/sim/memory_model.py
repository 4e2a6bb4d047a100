"""What memory instructions do, once more: lane by lane on byte arrays, in plain Python, for the tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PARTS = {  # end of the mnemonic: (bytes, signed, half of the register or "")
    "b8": (1, 0, ""), "b16": (2, 0, ""), "b32": (4, 0, ""), "b64": (8, 0, ""), "b96": (12, 0, ""), "b128": (16, 0, ""),
    "u8": (1, 0, ""), "i8": (1, 1, ""), "u16": (2, 0, ""), "i16": (2, 1, ""),
    "u8_d16": (1, 0, "low"), "i8_d16": (1, 1, "low"), "u16_d16": (2, 0, "low"),
    "u8_d16_hi": (1, 0, "high"), "i8_d16_hi": (1, 1, "high"), "u16_d16_hi": (2, 0, "high"),
    "b8_d16_hi": (1, 0, "high"), "b16_d16_hi": (2, 0, "high"),
    "ubyte": (1, 0, ""), "sbyte": (1, 1, ""), "ushort": (2, 0, ""), "sshort": (2, 1, ""),
    "dword": (4, 0, ""), "dwordx2": (8, 0, ""), "dwordx3": (12, 0, ""), "dwordx4": (16, 0, ""),
    "ubyte_d16": (1, 0, "low"), "sbyte_d16": (1, 1, "low"), "short_d16": (2, 0, "low"),
    "ubyte_d16_hi": (1, 0, "high"), "sbyte_d16_hi": (1, 1, "high"), "short_d16_hi": (2, 0, "high"),
    "byte": (1, 0, ""), "short": (2, 0, ""), "byte_d16_hi": (1, 0, "high"),
}  # fmt: skip


def loaded(memory: Array, place: int, part: tuple[int, int, str], old: list[int]) -> list[int]:
    """The registers of a lane after a load from a place; `old` is what they held."""
    bytes, signed, half = part
    data = memory[place : place + bytes].tobytes()
    if bytes >= 4:
        return [int.from_bytes(data[k : k + 4], "little") for k in range(0, bytes, 4)]
    number = int.from_bytes(data, "little", signed=bool(signed))
    if not half:
        return [number & 0xFFFFFFFF]
    if half == "low":
        return [old[0] & 0xFFFF0000 | number & 0xFFFF]
    return [old[0] & 0xFFFF | (number & 0xFFFF) << 16]


def store(memory: Array, place: int, part: tuple[int, int, str], registers: list[int]) -> None:
    bytes, _, half = part
    data = b"".join((word >> (16 if half == "high" else 0)).to_bytes(4, "little") for word in registers)
    memory[place : place + bytes] = np.frombuffer(data[:bytes], np.uint8)


# -- atomics ---------------------------------------------------------------------------------------------------------


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _float(bits: int, operation: Callable[[Any, Any], Any]) -> Callable[[int, int, int, int], int]:
    dtype, word = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}[bits]

    def run(old: int, data: int, _: int, __: int) -> int:
        x, y = (np.array([number], word).view(dtype)[0] for number in (old, data))
        with np.errstate(all="ignore"):
            return int(np.array([operation(x, y)], dtype).view(word)[0])

    return run


def _pairs(old: int, data: int, one: Callable[[int, int], int]) -> int:
    return sum(one(old >> shift & 0xFFFF, data >> shift & 0xFFFF) << shift for shift in (0, 16))


def _add_half(x: int, y: int) -> int:
    return _float(16, lambda p, q: p + q)(x, y, 0, 0)


def _add_bfloat(x: int, y: int) -> int:
    import ml_dtypes

    p, q = (np.array([n], np.uint16).view(ml_dtypes.bfloat16).astype(np.float32) for n in (x, y))
    return int((p + q).astype(ml_dtypes.bfloat16).view(np.uint16)[0])


def _condition_exchange(old: int, data: int) -> int:
    for shift in (0, 32):
        if data >> shift + 31 & 1:
            old = old & ~(0xFFFFFFFF << shift) | data & 0x7FFFFFFF << shift
    return old


# From old content, data, second data and the number of bits to new content.
OPERATIONS: dict[str, Callable[[int, int, int, int], int]] = {
    "add": lambda o, d, _, n: o + d, "sub": lambda o, d, _, n: o - d, "rsub": lambda o, d, _, n: d - o,
    "inc": lambda o, d, _, n: 0 if o >= d else o + 1, "dec": lambda o, d, _, n: d if o == 0 or o > d else o - 1,
    "smin": lambda o, d, _, n: min(o, d, key=lambda x: _signed(x, n)),
    "smax": lambda o, d, _, n: max(o, d, key=lambda x: _signed(x, n)),
    "umin": lambda o, d, _, n: min(o, d), "umax": lambda o, d, _, n: max(o, d),
    "and": lambda o, d, _, n: o & d, "or": lambda o, d, _, n: o | d, "xor": lambda o, d, _, n: o ^ d,
    "swap": lambda o, d, _, n: d, "mskor": lambda o, d, e, n: o & ~d | e,
    "wrap": lambda o, d, e, n: o - d if o >= d else o + e,
    "cmpswap": lambda o, d, e, n: d if o == e else o,
    "cmpswap_f32": lambda o, d, e, n: d if _as_float(o, 32) == _as_float(e, 32) else o,
    "cmpswap_f64": lambda o, d, e, n: d if _as_float(o, 64) == _as_float(e, 64) else o,
    "add_f32": _float(32, lambda x, y: x + y), "add_f64": _float(64, lambda x, y: x + y),
    "min_f32": _float(32, np.fmin), "max_f32": _float(32, np.fmax),
    "min_f64": _float(64, np.fmin), "max_f64": _float(64, np.fmax),
    "pk_add_f16": lambda o, d, _, n: _pairs(o, d, _add_half),
    "pk_add_bf16": lambda o, d, _, n: _pairs(o, d, _add_bfloat),
    "condxchg32": lambda o, d, _, n: _condition_exchange(o, d),
}  # fmt: skip


def _as_float(number: int, bits: int) -> float:
    unsigned, floating = {32: (np.uint32, np.float32), 64: (np.uint64, np.float64)}[bits]
    return float(np.array([number], unsigned).view(floating)[0])


def atomic_of(mnemonic: str) -> tuple[str, int, int] | None:
    """(operation, bits, data operands) of an atomic's name, LDS or memory."""
    if match := re.match(r"(?:global|flat|buffer|s|s_buffer)_atomic_(\w+?)(_x2)?$", mnemonic):
        name, wide = match.groups()
        bits = 64 if wide or name.endswith("f64") else 32
        return name, bits, 2 if name == "cmpswap" else 1
    match = re.match(r"ds_(\w+?)(_rtn)?_([a-z]+)(\d+)$", mnemonic)
    if not match:
        return None
    name, letter, bits = match[1], match[3], int(match[4])
    name = {"cmpst": "cmpswap", "wrxchg": "swap"}.get(name, name)
    if letter in ("f", "bf"):
        name = f"{name}_{letter}{bits}"
        bits = max(bits, 32)
    if name in ("min", "max"):
        name = {"i": "s", "u": "u"}[letter] + name
    if name not in OPERATIONS:
        return None
    return name, bits, 2 if name.startswith(("cmpswap", "mskor", "wrap")) else 1


def run_atomic(memory: Array, places: list[int | None], name: str, bits: int, data: list[tuple[int, int]]) -> list[int]:
    """Lane after lane (None: the lane does nothing); returns what each found, 0 where it did nothing."""
    found = []
    for place, (first, second) in zip(places, data):
        if place is None:
            found.append(0)
            continue
        old = int.from_bytes(memory[place : place + bits // 8].tobytes(), "little")
        new = OPERATIONS[name](old, first, second, bits) & (1 << bits) - 1
        memory[place : place + bits // 8] = np.frombuffer(new.to_bytes(bits // 8, "little"), np.uint8)
        found.append(old)
    return found
