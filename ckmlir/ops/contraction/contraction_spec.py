"""Which kernels of the contraction family there are: the specification, and what a chip can run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ckmlir.ops.contraction.shuffle import COLUMNS, tile_depth
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sources import SourceSpec
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Reason, Spec, by, not_a_choice, not_powers_of_two
from ckmlir.ops.tensors.expression import check_f64, parse
from ckmlir.ops.tensors.linearity import is_linear
from ckmlir.ops.tensors.tiling import STRIDED, UNIT
from ckmlir.targets import Target, TargetError

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

WALKS = ("grid", "table", "persistent", "stream_k")
"""Which block of which product a workgroup computes: a block of a product for each, numbered along the grid; a block of
the products that a table in memory lists; or those blocks in turns; or an equal share of all steps along K."""
SINKS = ("store", "partial", "atomic", "atomic_shares", "linear", "tree")
"""What becomes of a workgroup's sums: C; or, where workgroups share the sums, partial sums of each in a workspace, or
C to which memory adds them."""
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
REGISTERS_PER_LOAD = 2
"""Beside its data, a global load takes an offset and, if narrow, a register for what is not packed yet."""
MOST_RESIDENT = 2
"""Workgroups of a compute unit that a persistent kernel counts on: more do not hide more, and each has a last turn."""
PRESHUFFLE = "preshuffle"
"""The schedule for B in fragment order."""


@dataclass(frozen=True)
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
        sources: the arrays that A and B are made of, each as `name:dtype:form:align`
            (`ckmlir.ops.contraction.sources`), and `combine` the expressions of both; () where A and B are arrays.
        walk: of `WALKS`.
        sink: of `SINKS`; for "partial" there is no expression, and `out` is the type of the accumulators.
        block: tile (m, n, k) of a workgroup in one step of the K loop.
        waves: waves of a workgroup along (m, n).
        mfma: shape (m, n, k) of the matrix instruction.
        shuffled: columns of a tile of B in fragment order (`ckmlir.ops.contraction.shuffle`), 0 for a plain matrix.
        pad: the letters of m, n, k whose size need not be a multiple of the block.
        slices: parts of the block's rows and columns that the epilogue takes one after the other.
        align: for A, B and C, elements of which both the leading dimension and the length of a row are multiples: the
            widest vector that is aligned and never crosses the end of a row (a power of two, at most 16 bytes).
    """

    operator: str
    dtype: str
    out: str
    layout: str
    products: int
    op: str
    side: tuple[str, ...]
    batch: int
    merged: tuple[str, ...]
    sources: tuple[str, ...]
    combine: tuple[str, ...]
    walk: str
    sink: str
    block: tuple[int, int, int]
    waves: tuple[int, int]
    mfma: tuple[int, int, int]
    epilogue: str
    slices: tuple[int, int]
    schedule: str
    shuffled: int
    pad: str
    align: tuple[int, int, int]

    @property
    def name(self) -> str:
        parts = [
            self.operator, self.dtype, self.out, self.layout.lower(), by(self.block), f"waves{by(self.waves)}",
            f"mfma{by(self.mfma)}", self.epilogue, self.schedule, f"align{by(self.align)}",
        ]  # fmt: skip
        parts += [f"shuffled{self.shuffled}"] * (self.shuffled > 0)
        parts += [f"products{self.products}"] * (self.products > 1)
        parts += [f"batch{self.batch}"] * (self.batch > 0)
        parts += [word.replace(".", "x") for word in self.merged]
        parts += [f"of{digest('_'.join((*self.combine, *self.sources)))}"] * bool(self.sources)
        parts += [self.walk] * (self.walk != "grid") + [self.sink] * (self.sink != "store")
        if self.op:
            parts += [f"op{digest(self.op)}", *(text.replace(":", "") for text in self.side)]
        parts += [f"slices{by(self.slices)}"] * (math.prod(self.slices) > 1)
        return "_".join(parts + ([f"pad_{self.pad}"] if self.pad else []))

    @property
    def stored(self) -> str:
        """What A and the matrices B hold."""
        return stored_type(self.dtype)

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
        return (*self.tensors, *NAMES[: len(self.side)], *self.outputs)

    @property
    def wave_count(self) -> int:
        return math.prod(self.waves)

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


def computing_type(dtype: str) -> str:
    """What an expression of sums of a dtype is computed in."""
    return "f64" if dtype == "f64" else "f32"


def digest(text: str) -> str:
    """A few letters that stand for a text in a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def invalid_fields(spec: ContractionSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    outputs = COMPUTED[computing_type(spec.dtype)] if spec.op else OUTPUTS.get(spec.dtype, (spec.out,))
    reasons = [
        *not_a_choice(
            spec, dtype=tuple(OUTPUTS), out=outputs, layout=LAYOUTS, epilogue=EPILOGUES, schedule=tuple(SCHEDULES),
            walk=WALKS, sink=SINKS, shuffled=(0, *COLUMNS), products=(1, 2), batch=tuple(range(MOST_DIMENSIONS + 1)),
        ),
        *not_powers_of_two(spec, "block", "waves", "align", "slices"),
        *_pad_letters(spec),
        *_expression(spec),
        *_merged(spec),
        *_walk(spec),
        *_sources(spec),
    ]  # fmt: skip
    reasons = reasons or [*_narrow_floats(spec, target), *_sink(spec, target)]
    # Each group of checks relies on the ones before it.
    reasons = reasons or [*_matrix_instruction(spec, target), *_alignment(spec), *_fragment_order(spec)]
    reasons = reasons or [*_slices(spec)]
    return reasons or excess(_resources(spec, target), target)


def _merged(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether tensors of several dimensions lie in the product as their words say."""
    if not spec.merged:
        return
    words = dict(zip(spec.arrays, spec.merged, strict=False))
    shapes = {name: tuple(len(part) for part in word.split(".")) for name, word in words.items()}
    fits = len(spec.merged) == len(spec.arrays) and all(
        set(word) <= set(f".{UNIT}{STRIDED}") and len(shapes[name]) == 2 and min(shapes[name]) > 0
        and max(shapes[name]) <= MOST_DIMENSIONS and word.count(UNIT) <= 1 for name, word in words.items()
    )  # fmt: skip
    if not fits or any(shapes[name] != shapes["c"] for name in spec.arrays[2:]):
        yield Reason("merged", spec.merged, "not a word for each array", "expected such as ss.s1, rows and columns")
    elif (shapes["a"], shapes["b"]) != ((shapes["c"][0], shapes["b"][1]), (shapes["c"][1], shapes["a"][1])):
        yield Reason("merged", spec.merged, "arrays differ in their dimensions", "expected M.K, N.K and M.N")
    elif spec.shuffled or spec.sink != "store" or spec.products > 1:
        yield Reason("merged", spec.merged, "tensors are whole, plain and two", "expected sink=store and shuffled=0")


def _walk(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether a walk other than the grid's finds what it has to: single products of plain matrices."""
    if spec.walk != "grid" and (spec.batch or spec.merged or spec.shuffled):
        yield Reason("walk", spec.walk, "it takes plain matrices without a batch", "expected grid")


def _sources(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether arrays that are combined are such, and go through registers."""
    if not spec.sources:
        return
    try:
        names = [SourceSpec.parse(text).name for text in spec.sources]
        for op, operand in zip(spec.combine, "ab", strict=True):
            parse(op, tuple(name for name in names if name[0] == operand))
    except (ValueError, RequestError) as error:
        yield Reason("sources", spec.sources, f"{error} is no array", "expected such as a0:f16:along_k:8")
        return
    if spec.walk != "grid" or spec.batch or spec.merged or spec.shuffled or spec.products > 1:
        yield Reason("sources", spec.sources, "they make one plain product", "expected no batch and no table")
    schedule = SCHEDULES.get(spec.schedule)
    if schedule and any(parse_schedule(schedule).path_of(tensor) != "through" for tensor in "ab"):
        why = "arrays are combined in registers, and this schedule goes past them"
        yield Reason("schedule", spec.schedule, why, "expected another, such as compv3 or compv4")


def _narrow_floats(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """8-bit floats beside the products; for those the matrix instruction says whether the chip has them."""
    beside = [("side", SideSpec.parse(text).dtype) for text in spec.side]
    beside += [("sources", SourceSpec.parse(text).dtype) for text in spec.sources]
    for field, dtype in (("out", spec.out), *beside):
        if dtype in ("fp8", "bf8") and target.fp8 is None:
            yield Reason(field, dtype, f"{target.name} has no 8-bit floating point", "it starts with gfx942")


def _expression(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether the expression is one, and has what it names."""
    try:
        sides = [SideSpec.parse(text) for text in spec.side]
    except ValueError as error:
        yield Reason("side", spec.side, f"{error} is no D tensor", "expected dtype:kind:align, such as f16:full:8")
        return
    if not spec.op:
        if sides or (spec.products > 1 and spec.sink != "partial"):
            yield Reason("op", spec.op, "several products or D tensors need an expression", "expected one")
        return
    try:
        found = parse(spec.op, (*spec.accumulators, *NAMES[: len(sides)], *SCALARS))
        if computing_type(spec.dtype) == "f64":
            check_f64(found)
    except RequestError as error:
        yield Reason("op", spec.op, str(error), "expected another expression")


def _sink(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether partial sums can be written or added as they are."""
    if spec.sink == "partial" and (spec.op or spec.out != accumulator_type(spec.dtype)):
        yield Reason("sink", spec.sink, "partial sums stay as they are", "expected no expression, and the sums' type")
    if spec.sink not in ("atomic", "atomic_shares"):
        return
    instead = "expected reduction=workspace"
    if spec.op and not is_linear(parse(spec.op, (*spec.accumulators, *NAMES, *SCALARS)), spec.accumulators):
        why = f"op={spec.op} of partial sums does not add up to op of their sum"
        yield Reason("reduction", spec.sink, why, f"{instead}, or a product of the sums and something else")
    features = ATOMIC_OUTPUTS.get(spec.out)
    if features is None:
        yield Reason("reduction", spec.sink, f"memory does not add {spec.out}", f"{instead}, or out=f32")
    elif features and not any(target.has(feature) for feature in features):
        yield Reason("reduction", spec.sink, target.lacks(features[-1]), f"{instead}, or out=f32")
    elif find_dtype(spec.out).bytes == 2 and spec.align[2] < 2:
        why = f"memory adds {spec.out} in pairs, and n, ldc or a stride of C is odd"
        yield Reason("reduction", spec.sink, why, f"{instead}, or out=f32")


def _pad_letters(spec: ContractionSpec) -> Iterator[Reason]:
    if spec.pad != "".join(letter for letter in "mnk" if letter in spec.pad):
        yield Reason("pad", spec.pad, "not some of m, n and k in this order", "expected e.g. mk, or nothing")


def _matrix_instruction(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    try:
        target.find_mfma(by(spec.mfma), spec.dtype)
    except TargetError as error:
        no_dtype = not target.mfmas(spec.dtype)
        field, value = ("dtype", spec.dtype) if no_dtype else ("mfma", spec.mfma)
        message = str(error)
        why, _, right = message.partition("; ")
        yield Reason(field, value, why, right or "expected a dtype that the chip multiplies")
        return
    for axis, letter in enumerate("mn"):
        step = spec.waves[axis] * spec.mfma[axis]
        if spec.block[axis] % step:
            why = f"{spec.waves[axis]} waves of {spec.mfma[axis]} along {letter} do not divide {spec.block[axis]}"
            yield Reason("block", spec.block, why, f"expected a multiple of {step} along {letter}")
    if spec.block[2] % spec.mfma[2]:
        why = f"the matrix instruction takes {spec.mfma[2]} along k at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {spec.mfma[2]} along k")


def _slices(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether slices of the block are made of whole matrix instructions of all waves."""
    for axis, (letter, parts) in enumerate(zip("mn", spec.slices, strict=True)):
        step = spec.waves[axis] * spec.mfma[axis]
        if spec.block[axis] % (parts * step):
            why = f"{parts} parts of {spec.block[axis]} along {letter} are not made of the {step} of all waves"
            yield Reason("slices", spec.slices, why, f"expected up to {spec.block[axis] // step} there")


def _alignment(spec: ContractionSpec) -> Iterator[Reason]:
    for place, dtype in enumerate((spec.stored, spec.stored, spec.out)):
        widest = 16 // find_dtype(dtype).bytes
        if spec.align[place] > widest:
            why = f"a vector of {'ABC'[place]} is wider than 16 bytes"
            yield Reason("align", spec.align, why, f"expected at most {widest} elements there")
    schedule, size = parse_schedule(spec.schedule_text), find_dtype(spec.stored).bytes
    for place, tensor in enumerate("ab"):
        if schedule.path_of(tensor) == "direct" and spec.align[place] * size < NARROWEST_COPY:
            why = (
                f"rows of {'AB'[place]} are aligned to {spec.align[place] * size} bytes, copies to LDS take 4 at least"
            )
            yield Reason("schedule", spec.schedule, why, "expected rows of a multiple of 4 bytes, or another schedule")


def _fragment_order(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether B in memory, the matrix instruction and the schedule agree about the order of fragments."""
    if spec.products > 1 and (spec.shuffled or parse_schedule(spec.schedule_text).path_of("b") == "straight"):
        why = "two products take their matrices through LDS"
        yield Reason("schedule", spec.schedule, why, "expected another schedule, and plain matrices")
    if not spec.shuffled:
        if spec.schedule == PRESHUFFLE:
            right = f"expected {spec.mfma[1]}, or schedule=straight"
            yield Reason("shuffled", 0, f"schedule={PRESHUFFLE} takes B in fragment order", right)
        return
    if spec.layout[1] != "C":
        yield Reason("layout", spec.layout, "shuffled B is made of rows along k", "expected RCR or CCR")
    if parse_schedule(spec.schedule_text).path_of("b") != "straight":
        why = "fragments of B go straight to registers, and this schedule takes B through LDS"
        yield Reason("schedule", spec.schedule, why, f"expected {PRESHUFFLE} or straight")
    if spec.shuffled != spec.mfma[1]:
        why = f"tiles of B have {spec.shuffled} columns and the matrix instruction {spec.mfma[1]}"
        yield Reason("shuffled", spec.shuffled, why, f"expected {spec.mfma[1]}")
    depth = tile_depth(spec.shuffled, find_dtype(spec.stored).bytes)
    if spec.block[2] % depth:
        why = f"tiles of B are {depth} elements deep along k"
        yield Reason("block", spec.block, why, f"expected a multiple of {depth} along k")


def workgroups_a_unit(spec: ContractionSpec, target: Target) -> int:
    """How many workgroups a compute unit holds at a time, as far as is known before the kernel is compiled: as LDS and
    the registers of its tiles allow.
    """
    need = _resources(spec, target)
    waves_a_simd = -(-spec.wave_count // target.simds)
    registers = target.registers.vector_total // max(need.registers * 5 // 4, 1) // waves_a_simd
    return max(min(target.lds_bytes // max(need.lds, 1), registers, MOST_RESIDENT), 1)


def _resources(spec: ContractionSpec, target: Target) -> Resources:
    """What the block needs: rotating buffers of A and B in LDS, or C on its way out; accumulators, operands, loads."""
    m, n, k = spec.block
    size = find_dtype(spec.stored).bytes
    threads = spec.wave_count * target.wave_size
    schedule = parse_schedule(spec.schedule_text)
    # Two steps of operands when a schedule spreads the reads of LDS over the step, else those of the whole block.
    vector = max(spec.mfma[2], tile_depth(spec.mfma[1], size))  # a lane reads 16 bytes
    depth = min(k, 2 * vector) if schedule.order != "source" else k
    loop = loads = 0
    moving = operands = 0.0
    for tensor, place in (("a", 0), *[("b", 1)] * spec.products):
        rows, path = (m, n)[place], schedule.path_of(tensor)
        own = rows // spec.waves[place] * size / target.wave_size / 4  # registers of a wave's part, one deep along k
        share = rows * k * size // threads  # bytes of a work-item on the way to LDS
        if path != "straight":
            loop += schedule.buffers_of(tensor) * rows * k * size
            operands += own * depth * (1 + schedule.ahead_of("from_lds"))
        sets = max(1, schedule.ahead_of("load") - schedule.ahead_of("to_lds"))
        if path == "through":
            for width, align in _loaded(spec, tensor, size):
                moving += sets * share // size * width // 4
                loads += share // size * width // min(16, align * width)
        elif path == "straight":
            moving += schedule.ahead_of("load") * own * k
    accumulators = spec.products * m * n // threads * find_dtype(accumulator_type(spec.dtype)).bytes // 4
    computing = find_dtype(computing_type(spec.dtype)).bytes
    arranged = computing * spec.products if spec.op else find_dtype(spec.out).bytes
    shuffle = m * n * arranged // math.prod(spec.slices) if spec.epilogue == "cshuffle" else 0
    registers = accumulators + int(moving + operands) + REGISTERS_PER_LOAD * loads
    pinned = schedule.fences == "memory"
    return Resources("block", spec.block, threads, max(loop, shuffle), accumulators, registers, pinned)


def _loaded(spec: ContractionSpec, operand: str, size: int) -> list[tuple[int, int]]:
    """Bytes of an element and alignment of each array that a loop loads for A or a matrix B."""
    sources = [SourceSpec.parse(text) for text in spec.sources if text[0] == operand]
    found = [(find_dtype(one.dtype).bytes, one.align) for one in sources if one.is_matrix]
    return found or [(size, spec.align["ab".index(operand)])]
