"""How rows lie over a workgroup: the part of a specification that all row operators have.

A lane takes vectors of up to 16 bytes. A short row takes as many lanes as it has vectors and a wave several rows; up to
1024 elements a row belongs to one wave, up to 8192 to the four waves of a workgroup, and always stays in registers.
Longer rows pass through registers in steps of 2048, once for everything that has to be known of the whole row; steps of
4096 take twice the registers, and some choices then spill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import show
from ckmlir.ops.rows.arrays import RowArray, RowOptions
from ckmlir.ops.scalars import gcd
from ckmlir.ops.spec import Algorithm, Reason, Spec, no_such_float, not_a_choice, not_powers_of_two
from ckmlir.records import field_names
from ckmlir.targets import Target
from ckmlir.targets.cdna import ACCESS_BYTES, WAVE_SIZE

WAVES = 4
MAXIMUM_ONE_WAVE = 1024
MAXIMUM_WHOLE = 8192
STREAMED_LENGTH = 2048
REACH = 2**31
"""Bytes that lanes address from the beginning of a workgroup's rows."""
MAXIMUM_ELEMENTS = 32
"""Elements that a work-item may hold of each array of a row: x and two arrays of channels in f32 then take 96 of its
registers."""


class RowSpec(RowOptions, Spec):
    """How rows lie over a workgroup. An operator's specification joins its own choices to this.

    Attributes:
        kernel: the beginning of the kernel's name.
        rows: rows of a workgroup.
        length: elements of a row that a workgroup holds at a time, a power of two.
        row_waves: waves that share a row.
        streamed: a row is longer than `length` and passes through registers.
        vector: consecutive elements that a work-item loads at once.
        align: elements of which n and every row stride are multiples (a power of two, at most 16 bytes of the dtype).
        base: bytes of which the address of every array is a multiple (or its element size, where that is more).
        pad_m: the number of rows need not be a multiple of `rows`.
        pad_n: the length of a row need not be a multiple of `length`.
    """

    kernel: ClassVar[str]

    rows: Algorithm[int]
    length: Algorithm[int]
    row_waves: Algorithm[int]
    streamed: Algorithm[bool]
    vector: Algorithm[int]
    align: Algorithm[int]
    base: Algorithm[int]
    pad_m: Algorithm[bool]
    pad_n: Algorithm[bool]

    @property
    def name(self) -> str:
        pad = "m" * self.pad_m + "n" * self.pad_n
        layout = [
            f"rows{self.rows}", f"length{self.length}", f"row_waves{self.row_waves}", f"vector{self.vector}",
            f"align{self.align}", f"base{self.base}", *["streamed"] * self.streamed, *[f"pad_{pad}"] * bool(pad),
        ]  # fmt: skip
        return "_".join([self.kernel, self.dtype, *self._choices(), *layout])

    def _choices(self) -> list[str]:
        """The operator's own fields as parts of the name: flags that are set, and what is not "none"."""
        own = [name for name in vars(self) if name not in _LAYOUT_FIELDS]
        values = {name: getattr(self, name) for name in own if getattr(self, name) not in (False, "none")}
        return [name if value is True else f"{name}_{value}" for name, value in values.items()]

    @property
    def wave_count(self) -> int:
        """Waves of a workgroup: four, or those that share its only row."""
        return max(WAVES, self.row_waves)

    def base_of(self, array: RowArray) -> int:
        """Bytes of which an array's address is a multiple."""
        return max(self.base, find_dtype(array.dtype).bytes)

    def align_of(self, size: str) -> int:
        """Elements of which the length called `size` and the strides of rows of that length are multiples."""
        return self.align if size == "n" else 1

    @property
    def row_lanes(self) -> int:
        """Lanes of each of its waves that share a row."""
        return max(1, min(WAVE_SIZE, self.length // (self.vector * self.row_waves)))

    @property
    def elements(self) -> int:
        """Elements of a row that a work-item holds."""
        return self.length // (self.row_lanes * self.row_waves)


_LAYOUT_FIELDS = frozenset(field_names(RowSpec) or ())


def choose_layout(
    m: int,
    n: int,
    dtype: str,
    strides: Sequence[int],
    base: int,
    *,
    row_bytes: int = 0,
    whole: bool = False,
    elements: int = MAXIMUM_ELEMENTS,
) -> dict[str, Any]:
    """The fields of a RowSpec for m rows of n elements and arrays that begin at multiples of `base` bytes.

    Args:
        strides: of the rows of n elements.
        row_bytes: the largest distance between neighbouring rows of any array. Where the rows of a workgroup would span
            more than 2 GiB, which the 32-bit offsets of its lanes reach, it takes a single row.
        whole: rows have to fit into registers, whatever their length.
        elements: of a row that a work-item may hold, where more waves than four make them fewer. Longer rows than are
            whole elsewhere, which no kernel holds, have four.
    """
    size = find_dtype(dtype).bytes
    # A multiple of 1 for rows without elements: as a multiple of more they would fill their blocks, and be read.
    align = gcd(ACCESS_BYTES // size, max(1, base // size), n or 1, *strides)
    streamed = n > MAXIMUM_WHOLE and not whole
    # At least 2: padding to a multiple of 1 is none, and rows without elements need one.
    length = STREAMED_LENGTH if streamed else max(align, 2, 1 << max(n - 1, 0).bit_length())
    row_waves = 1 if length <= MAXIMUM_ONE_WAVE else max(WAVES, min(length, MAXIMUM_WHOLE) // (WAVE_SIZE * elements))
    lanes = min(WAVE_SIZE, length // (align * row_waves))
    rows = max(WAVES // row_waves, 1) * (WAVE_SIZE // lanes)
    if rows * row_bytes > REACH:
        rows, row_waves, length = 1, max(row_waves, WAVES), max(length, WAVES * WAVE_SIZE * align)
    return {
        "rows": rows, "length": length, "row_waves": row_waves, "streamed": streamed, "vector": align, "align": align,
        "base": base, "pad_m": m % rows != 0, "pad_n": n == 0 or n % length != 0,
    }  # fmt: skip


def uncovered_rows(
    spec: RowSpec, m: int, n: int, strides: Sequence[int], base: int, row_bytes: int
) -> Iterator[Reason]:
    """Why a kernel does not do m rows of n elements; the arguments are those of `choose_layout`."""
    if base % spec.base:
        yield Reason("base", spec.base, f"addresses are multiples of {base} bytes", f"expected at most {base}")
    if n % spec.align or any(stride % spec.align for stride in strides):
        why = f"not all of n={n} and the rows' distances {show(tuple(strides))} are multiples of it"
        yield Reason("align", spec.align, why, "expected a number that divides them")
    if m % spec.rows and not spec.pad_m:
        yield Reason("pad_m", spec.pad_m, f"m={m} is not a multiple of a workgroup's {spec.rows} rows", "expected 1")
    if (n == 0 or n % spec.length) and not spec.pad_n:
        yield Reason("pad_n", spec.pad_n, f"n={n} is not a multiple of the {spec.length} that are held", "expected 1")
    if n > spec.length and not spec.streamed:
        yield Reason("length", spec.length, f"rows of {n} are not held at a time", f"expected at least {n}")
    if n <= MAXIMUM_WHOLE and spec.streamed:
        yield Reason("streamed", spec.streamed, f"rows of {n} are held at a time", "expected 0")
    if spec.rows > 1 and spec.rows * row_bytes > REACH:
        yield Reason("rows", spec.rows, "the rows of a workgroup would span more than 2 GiB", "expected 1")


def invalid_layout(spec: RowSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run a kernel with this layout and these choices; empty when it can."""
    reasons = [
        *not_a_choice(spec, **spec.choices()),
        *not_powers_of_two(spec, "rows", "length", "row_waves", "vector", "align", "base"),
    ]
    return reasons or spec.conflicts() or [*_eight_bit_floats(spec, target), *_shape(spec, target)]


def _eight_bit_floats(spec: RowSpec, target: Target) -> Iterator[Reason]:
    for dtype in dict.fromkeys(array.dtype for array in spec.arrays()):
        yield from no_such_float("out", dtype, target, "expected i8, or a chip from gfx942 on")


def _shape(spec: RowSpec, target: Target) -> Iterator[Reason]:
    widest = ACCESS_BYTES // find_dtype(spec.dtype).bytes
    if spec.align > widest:
        yield Reason("align", spec.align, "wider than 16 bytes", f"expected at most {widest} for {spec.dtype}")
    if spec.vector > spec.align:
        yield Reason("vector", spec.vector, f"rows are only aligned to {spec.align}", f"expected at most {spec.align}")
    if spec.wave_count * WAVE_SIZE > target.workgroup_size:
        most = target.workgroup_size // WAVE_SIZE
        yield Reason("row_waves", spec.row_waves, "the workgroup is too large", f"expected at most {most}")
    least = spec.row_waves * spec.vector * (WAVE_SIZE if spec.row_waves > 1 else 1)
    if spec.length % least:
        why = f"{spec.row_waves} wave(s) with vectors of {spec.vector} span {least}"
        yield Reason("length", spec.length, why, f"expected a multiple of {least}")
        return
    step = spec.wave_count // spec.row_waves * (WAVE_SIZE // spec.row_lanes)
    if spec.rows % step:
        why = f"does not fill the {spec.wave_count} waves of a workgroup"
        yield Reason("rows", spec.rows, why, f"expected a multiple of {step}")
    held = spec.elements * max(1, spec.rows // step)
    if held > MAXIMUM_ELEMENTS:
        why = f"a work-item would hold {held} elements"
        yield Reason("length", spec.length, why, f"expected at most {MAXIMUM_ELEMENTS} a work-item")
