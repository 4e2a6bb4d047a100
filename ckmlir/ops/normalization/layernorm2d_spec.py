"""Which layernorm2d kernels there are: the specification, how it is chosen, and what a chip can run.

Rows of up to 8192 elements stay in registers (one pass); longer ones are read twice. Up to 1024 elements a row belongs
to one wave and a workgroup takes four rows; beyond, a row belongs to the four waves of a workgroup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.spec import Reason, Spec, not_a_choice, not_powers_of_two
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

WAVES = 4
FLOATS = ("f16", "bf16", "f32")
ADD = ("none", "add", "store")

MINIMUM_LENGTH = 64
MAXIMUM_ONE_WAVE = 1024
MAXIMUM_ONE_PASS = 8192
TWO_PASS_LENGTH = 4096
MAXIMUM_ELEMENTS = 32
"""Elements of a row that a work-item may hold: x, gamma and beta in f32 then take 96 of its registers."""


@dataclass(frozen=True)
class Layernorm2dSpec(Spec):
    """What a layernorm2d kernel's code depends on.

    Attributes:
        add: none, add (a residual is added) or store (the sum is also stored).
        save_stats: mean and inverse deviation are outputs.
        rows: rows of a workgroup.
        length: elements of a row that a workgroup holds at a time, a power of two.
        row_waves: waves that share a row.
        passes: 1 where a row fits into `length`, 2 where it is read twice in steps of `length`.
        vector: consecutive elements that a work-item loads at once.
        align: elements of which n and every row stride are multiples (a power of two, at most 16 bytes).
        pad_m: the number of rows need not be a multiple of `rows`.
        pad_n: the length of a row need not be a multiple of `length`.
    """

    dtype: str
    add: str
    save_stats: bool
    rows: int
    length: int
    row_waves: int
    passes: int
    vector: int
    align: int
    pad_m: bool
    pad_n: bool

    @property
    def name(self) -> str:
        parts = [
            "layernorm2d", self.dtype, f"rows{self.rows}", f"length{self.length}", f"row_waves{self.row_waves}",
            f"passes{self.passes}", f"vector{self.vector}", f"align{self.align}",
        ]  # fmt: skip
        pad = "m" * self.pad_m + "n" * self.pad_n
        flags = [f"add_{self.add}"] * (self.add != "none") + ["stats"] * self.save_stats + [f"pad_{pad}"] * bool(pad)
        return "_".join(parts + flags)

    @property
    def wave_count(self) -> int:
        """Waves of a workgroup: four, or those that share its only row."""
        return max(WAVES, self.row_waves)

    @property
    def elements(self) -> int:
        """Elements of a row that a work-item holds."""
        return self.length // (WAVE_SIZE * self.row_waves)


def choose_spec(m: int, n: int, dtype: str, add: str, save_stats: bool, align: int) -> Layernorm2dSpec:
    """The kernel for m rows of n elements; `align` elements divide n and all row strides."""
    passes = 1 if n <= MAXIMUM_ONE_PASS else 2
    length = max(MINIMUM_LENGTH, 1 << (n - 1).bit_length()) if passes == 1 else TWO_PASS_LENGTH
    row_waves = 1 if length <= MAXIMUM_ONE_WAVE else WAVES
    rows = WAVES // row_waves
    return Layernorm2dSpec(
        dtype=dtype,
        add=add,
        save_stats=save_stats,
        rows=rows,
        length=length,
        row_waves=row_waves,
        passes=passes,
        vector=min(align, length // (WAVE_SIZE * row_waves)),
        align=align,
        pad_m=m % rows != 0,
        pad_n=n % length != 0,
    )


def invalid_fields(spec: Layernorm2dSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(spec, dtype=FLOATS, add=ADD, passes=(1, 2)),
        *not_powers_of_two(spec, "rows", "length", "row_waves", "vector", "align"),
    ]
    return reasons or list(_shape(spec, target))


def _shape(spec: Layernorm2dSpec, target: Target) -> Iterator[Reason]:
    widest = 16 // find_dtype(spec.dtype).bytes
    if spec.align > widest:
        yield Reason("align", spec.align, "wider than 16 bytes", f"expected at most {widest} for {spec.dtype}")
    if spec.vector > spec.align:
        yield Reason("vector", spec.vector, f"rows are only aligned to {spec.align}", f"expected at most {spec.align}")
    if spec.wave_count * WAVE_SIZE > target.workgroup_size:
        most = target.workgroup_size // WAVE_SIZE
        yield Reason("row_waves", spec.row_waves, "the workgroup is too large", f"expected at most {most}")
    if spec.rows * spec.row_waves % spec.wave_count:
        right = f"expected a multiple of {spec.wave_count // spec.row_waves}"
        yield Reason("rows", spec.rows, f"does not fill the {spec.wave_count} waves of a workgroup", right)
    least = WAVE_SIZE * spec.row_waves * spec.vector
    if spec.length % least:
        why = f"{spec.row_waves} waves with vectors of {spec.vector} span {least}"
        yield Reason("length", spec.length, why, f"expected a multiple of {least}")
    held = spec.elements * max(1, spec.rows * spec.row_waves // spec.wave_count)
    if held > MAXIMUM_ELEMENTS:
        why = f"a work-item would hold {held} elements"
        yield Reason("length", spec.length, why, f"expected at most {MAXIMUM_ELEMENTS} a work-item")
