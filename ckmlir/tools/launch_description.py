"""Descriptions of a launch of any kernel, in JSON: what `ckmlir check|time|timeline|whatif FILE.hsaco --launch` read.

    {"kernel": "saxpy", "grid": [4], "block": [256], "dynamic_lds": 0, "seed": 0, "order": [4],
     "arguments": {"x": {"shape": [1000], "dtype": "f32", "fill": "random", "access": "read"},
                   "y": {"shape": [1000], "dtype": "f32", "access": "write", "save": "y.npy"},
                   "a": 2.0, "n": {"scalar": 1000, "dtype": "i32"}}}

`arguments` is a list in the kernel's order, or an object by the names in the code object. docs/checking_your_kernels.md
has all fields. Every error names the file and the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from ckmlir.codeobject import CodeObject, CodeObjectError, Kernel
from ckmlir.codeobject.metadata import Argument
from ckmlir.dispatch.reading import fields_of, read_json
from ckmlir.errors import CkmlirError, suggest
from ckmlir.ops.request import show

FILLS = ("zeros", "random", "arange", "undefined")
ACCESSES = ("read", "write", "readwrite")
_ARRAY = {"shape": list, "dtype": str, "fill": str, "file": str, "access": str, "save": str, "offset": int}


class ArrayArgument(Struct, frozen=True):
    """An array whose address is passed.

    Attributes:
        fill: one of FILLS, or the .npy file that has the contents.
        access: one of ACCESSES; a kernel must not write what it only reads.
        save: the .npy file that the contents are written to behind the run.
        offset: elements from the start of the array to where the argument points.
    """

    shape: tuple[int, ...]
    dtype: str
    fill: str | Path
    access: str = "readwrite"
    save: Path | None = None
    offset: int = 0


class ScalarArgument(Struct, frozen=True):
    """A number that is passed by value, in `dtype`; None: whole numbers and numbers with a point in their own size."""

    value: int | float
    dtype: str | None = None


class BytesArgument(Struct, frozen=True):
    """A structure that is passed by value."""

    value: bytes


class LdsArgument(Struct, frozen=True):
    """The address of so many bytes of LDS of their own, for kernels that take several such."""

    bytes: int


class SameArgument(Struct, frozen=True):
    """The address of another argument's array; `offset` in its elements."""

    name: str
    offset: int = 0


Described = ArrayArgument | ScalarArgument | BytesArgument | SameArgument | LdsArgument
Arguments = tuple[tuple[str, Argument, Described], ...]
"""Each of a kernel's own arguments, with the field that errors name, in the kernel's order."""


class LaunchDescription(Struct, frozen=True):
    """A launch.

    Attributes:
        where: what errors call the description: its file.
        kernel: its name; None where the code object has only one.
        grid, block: workgroups, and work-items of a workgroup, along x, y and z.
        arguments: what each of the kernel's own arguments is, with the field that errors name, in the kernel's order.
        order: sizes of the axes along which consecutive workgroups go, fastest first.
    """

    where: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Arguments
    dynamic_lds: int = 0
    seed: int = 0
    order: tuple[int, ...] | None = None

    def told(self, code_object: CodeObject) -> CodeObject:
        """The code object, with these arguments where it has no metadata that names any."""
        if code_object.kernels[self.kernel].metadata.is_stated:
            return code_object
        return code_object.with_arguments(self.kernel, tuple(argument for _, argument, _ in self.arguments))


def read_launch(path: Path, code_object: CodeObject, kernel: str | None = None) -> LaunchDescription:
    """The launch that a file describes, of the kernel called `kernel` or the one that the file names.

    Raises:
        CkmlirError: the file cannot be read, or a field is missing, unknown, or does not fit the kernel.
    """
    where = str(path)
    fields = fields_of(
        read_json(path), where, {"grid": list, "block": list, "arguments": object},
        {"kernel": str, "dynamic_lds": int, "seed": int, "order": list, "others": int},
    )  # fmt: skip
    chosen = _kernel(code_object, kernel or fields.get("kernel"), where)
    grid, order = _extent(fields, "grid", where), fields.get("order")
    if order is not None:
        order = tuple(_sizes(order, f"{where}: order", least=1))
        if math.prod(order) != math.prod(grid):
            raise CkmlirError(
                f"{where}: order={list(order)}: its product is {math.prod(order)}; expected the {math.prod(grid)} "
                "workgroups of the grid"
            )
    for name, most in (("dynamic_lds", 1 << 20), ("seed", 2**32 - 1)):
        if not 0 <= fields.get(name, 0) <= most:
            raise CkmlirError(f"{where}: {name}={fields[name]}: expected 0 to {most}")
    described = _arguments(fields, chosen, where, path.parent)
    placed, dynamic_lds = _places_in_lds(described, chosen, fields.get("dynamic_lds", 0))
    return LaunchDescription(
        where, chosen.name, grid, _extent(fields, "block", where), placed, dynamic_lds, fields.get("seed", 0), order
    )


def _kernel(code_object: CodeObject, name: str | None, where: str) -> Kernel:
    try:
        return code_object.kernel(name)
    except CodeObjectError as error:
        raise CkmlirError(f"{where}: kernel: {error}") from None


def _extent(fields: dict[str, Any], name: str, where: str) -> tuple[int, int, int]:
    """One to three sizes, of which the missing ones are 1."""
    given = fields[name]
    if not 1 <= len(given) <= 3:
        raise CkmlirError(f"{where}: {name}={given}: expected one to three sizes, x first")
    x, y, z = (*_sizes(given, f"{where}: {name}", least=1), 1, 1)[:3]
    return x, y, z


def _sizes(given: list[Any], what: str, least: int) -> list[int]:
    for place, one in enumerate(given):
        if not isinstance(one, int) or isinstance(one, bool) or not least <= one < 2**32:
            raise CkmlirError(f"{what}[{place}]={show(one)}: expected a whole number from {least} to {2**32 - 1}")
    return given


def _arguments(
    fields: dict[str, Any], kernel: Kernel, where: str, folder: Path
) -> Arguments:
    given = fields["arguments"]
    if not kernel.metadata.is_stated:
        return _told_arguments(given, where, folder)
    own = kernel.given_arguments
    names = [one.name for one in own]
    listed = ", ".join(one.name or f"{one.size} bytes at {one.offset}" + " (LDS)" * one.is_lds for one in own) or "none"
    if isinstance(given, list):
        if len(given) != len(own):
            raise CkmlirError(f"{where}: arguments: {len(given)} are given; {kernel.name} takes {len(own)}: {listed}")
        pairs = [(f"arguments[{place}]", one) for place, one in enumerate(given)]
    elif isinstance(given, dict):
        for name in given:
            if name not in names:
                raise CkmlirError(
                    f"{where}: arguments.{name}: {kernel.name} takes no such argument; it takes: {listed}"
                )
            if names.count(name) > 1:
                raise CkmlirError(
                    f"{where}: arguments.{name}: {names.count(name)} arguments have this name; give arguments as a list"
                )
        missing = [name for name in names if name not in given]
        if missing and "others" not in fields:
            raise CkmlirError(
                f"{where}: arguments.{missing[0]}: missing; give it, or others=0 for the value of all that are left out"
            )
        pairs = [(f"arguments.{name}", given.get(name, fields.get("others"))) for name in names]
    else:
        raise CkmlirError(f"{where}: arguments={show(given)}: expected a list, or an object by name")
    read = tuple(
        (field, one, _described(value, f"{where}: {field}", folder)) for (field, value), one in zip(pairs, own)
    )
    for field, argument, one in read:
        _check_fits(argument, one, f"{where}: {field}")
    _check_same(read, where)
    return read


def _told_arguments(given: object, where: str, folder: Path) -> Arguments:
    """The arguments of a kernel without metadata: each behind the one before, at a multiple of its size or of 8."""
    if not isinstance(given, list):
        raise CkmlirError(f"{where}: arguments={show(given)}: expected a list; the code object names no arguments")
    read, end = [], 0
    for place, value in enumerate(given):
        field = f"arguments[{place}]"
        one = _described(value, f"{where}: {field}", folder)
        size = _size_of(one, f"{where}: {field}")
        start = -(-end // min(size & -size, 8)) * min(size & -size, 8)
        kind = "global_buffer" if isinstance(one, (ArrayArgument, SameArgument)) else "by_value"
        read.append((field, Argument("", start, size, kind), one))
        end = start + size
    _check_same(tuple(read), where)
    return tuple(read)


def _size_of(described: Described, what: str) -> int:
    """The bytes of an argument that the code object says nothing of."""
    if isinstance(described, (ArrayArgument, SameArgument)):
        return 8
    if isinstance(described, BytesArgument):
        if not described.value:
            raise CkmlirError(f"{what}.bytes: there are none")
        return len(described.value)
    bits = re.search(r"\d+", (described.dtype or "") if isinstance(described, ScalarArgument) else "")
    if bits is None:
        raise CkmlirError(f"{what}: the code object has no metadata; say how large it is: scalar=… with a dtype")
    return int(bits[0]) // 8


def _places_in_lds(arguments: Arguments, kernel: Kernel, dynamic_lds: int) -> tuple[Arguments, int]:
    """The arguments, in which pointers to LDS of their own have their addresses, and the bytes of dynamic LDS."""
    end = kernel.descriptor.group_segment_size
    placed = []
    for field, argument, one in arguments:
        if isinstance(one, LdsArgument):
            align = argument.alignment or 16
            start = -(-end // align) * align
            end, one = start + one.bytes, ScalarArgument(start)
        placed.append((field, argument, one))
    return tuple(placed), max(dynamic_lds, end - kernel.descriptor.group_segment_size)


def _check_same(read: Arguments, where: str) -> None:
    """Arguments whose arrays are those of others name such."""
    for field, _, one in read:
        if isinstance(one, SameArgument):
            arrays = [other.name or place for place, other, what in read if isinstance(what, ArrayArgument)]
            if one.name not in arrays:
                raise CkmlirError(
                    f"{where}: {field}.same_as={show(one.name)}: no such array; {suggest(one.name, arrays)}"
                )


def _described(value: object, what: str, folder: Path) -> Described:
    """What one argument is."""
    if isinstance(value, bool):
        return ScalarArgument(int(value))
    if isinstance(value, (int, float)):
        return ScalarArgument(value)
    if not isinstance(value, dict):
        raise CkmlirError(f"{what}={show(value)}: expected a number or an object")
    kinds = [name for name in _KINDS if name in value]
    if len(kinds) != 1:
        raise CkmlirError(f"{what}: expected exactly one of the fields {', '.join(_KINDS)}; got {kinds or 'none'}")
    return _KINDS[kinds[0]](value, what, folder)


def _scalar(value: dict[str, Any], what: str, folder: Path) -> ScalarArgument:
    fields = fields_of(value, what, {"scalar": float, "dtype": str})
    return ScalarArgument(fields["scalar"], fields["dtype"])


def _same(value: dict[str, Any], what: str, folder: Path) -> SameArgument:
    fields = fields_of(value, what, {"same_as": str}, {"offset": int})
    return SameArgument(fields["same_as"], fields.get("offset", 0))


def _null(value: dict[str, Any], what: str, folder: Path) -> ScalarArgument:
    if fields_of(value, what, {"null": bool})["null"] is not True:
        raise CkmlirError(f"{what}.null=false: expected true, for an address of 0")
    return ScalarArgument(0, "i64")


def _lds(value: dict[str, Any], what: str, folder: Path) -> LdsArgument:
    bytes_ = fields_of(value, what, {"lds": int})["lds"]
    if not 0 <= bytes_ <= 1 << 20:
        raise CkmlirError(f"{what}.lds={bytes_}: expected 0 to {1 << 20} bytes")
    return LdsArgument(bytes_)


def _bytes(value: dict[str, Any], what: str, folder: Path) -> BytesArgument:
    text = fields_of(value, what, {"bytes": str})["bytes"]
    try:
        return BytesArgument(bytes.fromhex(text))
    except ValueError:
        raise CkmlirError(f"{what}.bytes={show(text)}: expected pairs of hexadecimal digits") from None


def _array(value: dict[str, Any], what: str, folder: Path) -> ArrayArgument:
    fields = fields_of(value, what, {"shape": list, "dtype": str}, _ARRAY)
    access = fields.get("access", "readwrite")
    if access not in ACCESSES:
        raise CkmlirError(f"{what}.access={show(access)}: expected {'|'.join(ACCESSES)}")
    fill: str | Path = fields.get("fill", "undefined" if access == "write" else "zeros")
    if "file" in fields:
        if "fill" in fields:
            raise CkmlirError(f"{what}: fill and file exclude each other")
        fill = folder / fields["file"]
    elif fill not in FILLS:
        raise CkmlirError(f"{what}.fill={show(fill)}: expected {'|'.join(FILLS)}, or file=x.npy instead")
    shape = tuple(_sizes(fields["shape"], f"{what}.shape", least=0))
    offset = fields.get("offset", 0)
    if not 0 <= offset <= math.prod(shape):
        raise CkmlirError(f"{what}.offset={offset}: expected 0 to the {math.prod(shape)} elements of the array")
    save = folder / fields["save"] if "save" in fields else None
    return ArrayArgument(shape, fields["dtype"], fill, access, save, offset)


_KINDS: dict[str, Callable[[dict[str, Any], str, Path], Described]] = {
    "shape": _array, "scalar": _scalar, "bytes": _bytes, "same_as": _same, "null": _null, "lds": _lds,
}  # fmt: skip
"""Exactly one of these fields says what an argument is; `shape` is that of an array."""


def _check_fits(argument: Argument, described: Described, what: str) -> None:
    """Arrays need an argument of 8 bytes, structures have the argument's size, pointers to LDS are told how much."""
    if argument.is_lds != isinstance(described, LdsArgument):
        expected = 'a pointer to LDS; expected {"lds": bytes}' if argument.is_lds else "not a pointer to LDS"
        raise CkmlirError(f"{what}: this argument is {expected}")
    if isinstance(described, (ArrayArgument, SameArgument)) and argument.size != 8:
        raise CkmlirError(f"{what}: an array's address takes 8 bytes; this argument has {argument.size}")
    if isinstance(described, BytesArgument) and len(described.value) != argument.size:
        raise CkmlirError(f"{what}.bytes: {len(described.value)} bytes are given; this argument has {argument.size}")
