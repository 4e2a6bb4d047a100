"""Why a chip cannot run a kernel of the contraction family: checks of its specification, one a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from ckmlir.ops.contraction.block_validity import (
    alignment,
    fragment_order,
    gathered_sums,
    lds,
    matrix_instruction,
    phases,
    registers,
    slices,
)
from ckmlir.ops.contraction.contraction_spec import (
    ATOMIC_OUTPUTS,
    COMPUTED,
    EPILOGUES,
    LAYOUTS,
    MOST_DIMENSIONS,
    OUTPUTS,
    PACKED_OUTPUTS,
    ROWS,
    SCALARS,
    SINKS,
    WALKS,
    ContractionSpec,
    accumulator_type,
    computing_type,
)
from ckmlir.ops.contraction.kept_scales import LENGTHS
from ckmlir.ops.contraction.scaling import NAMES as SCALES
from ckmlir.ops.contraction.scaling import ScaleSpec
from ckmlir.ops.contraction.shuffle import COLUMNS
from ckmlir.ops.contraction.side import NAMES, SideSpec
from ckmlir.ops.contraction.sources import GROUPS, TILES, SourceSpec
from ckmlir.ops.contraction.sparsity import ORDERS, PIECE, PIECES
from ckmlir.ops.dtypes import PACKED_INTEGERS, find_dtype
from ckmlir.ops.request import RequestError
from ckmlir.ops.schedules import GEMM as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Reason, no_such_float, not_a_choice, not_positive, not_powers_of_two
from ckmlir.ops.tensors.expression import check_f64, parse
from ckmlir.ops.tensors.linearity import is_linear
from ckmlir.ops.tensors.tiling import STRIDED, UNIT
from ckmlir.targets import Target

SQUARED = ("f16", "bf16", "f32")
"""Types of A's whose rows' squares are added beside the sums."""
CLASS_SINKS = ("store", "partial", "atomic")
"""Where places of images are in classes."""
SCALED_WALKS = ("grid", "table", "persistent", "experts")
"""Walks whose products may have scales."""

TYPES = {**OUTPUTS, **PACKED_OUTPUTS}
TAKEN: dict[str, Collection[object]] = {
    "dtype": tuple(TYPES), "b_dtype": ("", *TYPES, *PACKED_INTEGERS), "layout": LAYOUTS, "epilogue": EPILOGUES,
    "schedule": SCHEDULES, "walk": WALKS, "sink": SINKS, "shuffled": (0, *COLUMNS), "products": (1, 2),
    "batch": tuple(range(MOST_DIMENSIONS + 1)), "index_order": ORDERS,
}  # fmt: skip
"""What fields may be, whatever the others are."""

Check = Callable[[ContractionSpec, Target], Iterable[Reason]]


def invalid_fields(spec: ContractionSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    for group in CHECKS:
        reasons = [reason for check in group for reason in check(spec, target)]
        if reasons:
            return reasons
    return []


def _choices(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    outputs = COMPUTED[computing_type(spec.dtype)] if spec.op else TYPES.get(spec.dtype, (spec.out,))
    yield from not_a_choice(spec, taken=("", spec.dtype, "f16"), out=outputs, **TAKEN)


def _described(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether scales are such, which many checks read."""
    for text in spec.scaling:
        try:
            ScaleSpec.parse(text)
        except ValueError:
            yield Reason("scaling", text, "it describes no scales", "expected such as a:1:128:k:f32:1")


def _numbers(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    yield from not_positive(spec, "block", "mfma", "slices")
    yield from not_powers_of_two(spec, "waves", "align", "along_k")


def _along_k(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether waves may share a step's K: their sums are plain ones."""
    if spec.along_k == 1:
        return
    if spec.scaled_sums or spec.sparse or spec.beside or spec.windows or spec.behind:
        why = "sums of parts of K have scales of groups, or other sums beside them"
        yield Reason("along_k", spec.along_k, why, "expected 1")


def _pad_letters(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    if spec.pad != "".join(letter for letter in "mnk" if letter in spec.pad):
        yield Reason("pad", spec.pad, "not some of m, n and k in this order", "expected e.g. mk, or nothing")


def _merged(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether tensors of several dimensions lie in the product as their words say."""
    if not spec.merged:
        return
    if spec.sources:
        yield Reason("merged", spec.merged, "A and B are made of other arrays", "expected () or no sources")
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


def _windows(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether windows are described, and meet plain matrices."""
    if not spec.windows:
        return
    from ckmlir.ops.contraction.windows import parse_windows

    try:
        parse_windows(spec.windows)
    except ValueError as error:
        yield Reason("windows", spec.windows, f"{error} describes none", "expected such as forward:2:padded:8")
        return
    walk = "classes" if spec.windows.startswith("data:") else "grid"
    if spec.walk != walk or spec.merged or spec.sources or spec.shuffled or spec.products > 1:
        yield Reason("windows", spec.windows, "the other matrix is plain", f"expected one product, and walk={walk}")
    elif walk == "classes" and spec.sink not in CLASS_SINKS:
        yield Reason("sink", spec.sink, "workgroups have whole sums of classes, or parts", f"expected {CLASS_SINKS}")


def _walk(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether a walk other than the grid's finds what it has to: single products of plain matrices; of experts' what
    tells the rows, which go through registers.
    """
    if spec.walk == "experts":
        yield from _experts(spec)
    elif spec.rows:
        yield Reason("rows", spec.rows, "rows follow each other in this walk", "expected none, or walk=experts")
    elif spec.walk not in ("grid", "classes") and (spec.batch or spec.merged):
        yield Reason("walk", spec.walk, "it takes matrices without a batch", "expected grid")


def _experts(spec: ContractionSpec) -> Iterator[Reason]:
    """Whether the walk of experts finds rows of what it takes, and has somewhere to put results."""
    if spec.batch or spec.merged or spec.sources or spec.layout[0] != "R":
        yield Reason("walk", spec.walk, "it takes one matrix A of rows and matrices B", "expected layout=RCR or RRR")
    if spec.sink not in ("store", "atomic") or "m" in spec.pad:
        yield Reason("sink", spec.sink, "whole blocks are stored or added", "expected store or atomic, without pad=m")
    able = ("a", *({SCALES["a"]} & {*spec.scales}), *NAMES[: len(spec.side)], "c")
    for text in spec.rows:
        name, _, word = text.partition(":")
        if name not in able or word not in ROWS:
            yield Reason("rows", spec.rows, f"{text} is not an array with its rows", "expected such as a:token")
            return


def _sources(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether arrays that are combined are such, and go through registers."""
    if not spec.sources:
        return
    try:
        names = [SourceSpec.parse(text).name for text in spec.sources]
        for op, operand in zip(spec.combine, "ab", strict=True):
            parse(op, tuple(name for name in names if name[0] == operand))
    except (ValueError, RequestError) as error:
        yield Reason("sources", spec.sources, f"{error} is not an array", "expected such as a0:f16:along_k:8")
        return
    if spec.walk != "grid" or spec.batch or spec.merged or spec.products > 1:
        yield Reason("sources", spec.sources, "they make one plain product", "expected no batch and no table")
    tiles = [TILES.get(SourceSpec.parse(text).form, 0) for text in spec.sources]
    if max(tiles) != spec.shuffled:
        yield Reason("shuffled", spec.shuffled, "B is made of matrices in another order", f"expected {max(tiles)}")
    yield from _elements(spec, 2, {GROUPS.get(SourceSpec.parse(text).form, 0) for text in spec.sources})
    schedule = SCHEDULES.get(spec.schedule)
    through = "a" if spec.shuffled else "ab"
    if schedule and any(parse_schedule(schedule).path_of(tensor) != "through" for tensor in through):
        why = "arrays are combined in registers, and this schedule goes past them"
        yield Reason("schedule", spec.schedule, why, "expected another, such as compv3 or compv4")


def _elements(spec: ContractionSpec, axis: int, groups: Collection[int]) -> Iterator[Reason]:
    """Whether the block takes whole groups of scales of elements along an axis, or is whole parts of them; 0: of all.
    """
    length, along = spec.block[axis], ("m", "n", "K")[axis]
    for group in sorted({*groups} - {0}):
        if group % length and length % group:
            why = f"steps of {length} along {along} take a group of {group} in part"
            yield Reason("block", spec.block, why, f"expected a divisor of {group}, or a multiple, along {along}")


def _scaling(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether steps of the loop and matrix instructions are of whole groups."""
    if not spec.scaling:
        if spec.kept:
            yield Reason("kept", spec.kept, "the kernel takes no scales", "expected 0")
        return
    scales = [ScaleSpec.parse(text) for text in spec.scaling]
    whole = spec.sink == "store" or spec.walk == "experts"  # there each part that memory adds is a result
    if spec.walk not in SCALED_WALKS or not whole or spec.merged or spec.sources:
        yield Reason("scaling", spec.scaling, "scales are of whole products of matrices", "expected split_k=1")
    able = spec.keepable and not spec.scaled_by_instruction and spec.sink == "store"
    if spec.kept and (not able or spec.kept not in LENGTHS):
        yield Reason("kept", spec.kept, "LDS keeps no such scales for so much of K", "expected 0")
    of_elements = [one for one in scales if one.of_elements]
    yield from _elements(spec, 2, {one.group for one in of_elements})
    if of_elements and (not spec.taken or spec.held[1].bits != 4):
        yield Reason("scaling", spec.scaling, "scales of elements are of 4 bits that become another type",
                     "expected b_dtype=fp4, i4 or u4, and taken")  # fmt: skip
    for group in sorted({one.group for one in scales if one.group and not one.of_elements}):
        if group > spec.block[2]:
            why = f"steps of {spec.block[2]} along K are less than a group of scales"
            yield Reason("block", spec.block, why, f"expected {group} or more along K")
        elif spec.block[2] % group:
            why = f"steps of {spec.block[2]} along K are not whole groups of scales"
            yield Reason("block", spec.block, why, f"expected a multiple of {group} along K")
        elif group % spec.mfma[2] and not spec.scaled_by_instruction:
            why = f"a group of scales is {group} elements along K"
            yield Reason("mfma", spec.mfma, why, "expected an instruction of so many along K, or a part of them")


def _sparse(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether a sparse A is rows of a whole plain product."""
    if not spec.sparse:
        return
    if spec.sparse not in (1, 2, 4, 8, 16):
        yield Reason("sparse", spec.sparse, "not bytes that divide rows of the index", "expected 1|2|4|8|16")
    if spec.index_order == PIECES and spec.sparse != PIECE:
        why = f"pieces of the index are {PIECE} bytes"
        yield Reason("sparse", spec.sparse, why, f"expected {PIECE}")
    if spec.layout[0] != "R":
        yield Reason("layout", spec.layout, "a sparse A has the elements of rows", "expected RCR or RRR")
    plain = not (spec.batch or spec.merged or spec.sources or spec.scaling or spec.windows)
    if spec.walk != "grid" or spec.products > 1 or not plain:
        yield Reason("sparse", spec.sparse, "a sparse A is of one plain product", "expected no batch and no table")


def _beside(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether the rows whose squares are added are those of a plain matrix of floats, and C is the sums."""
    if not spec.beside:
        return
    if spec.beside < 0:
        yield Reason("beside", spec.beside, "no number of columns", "expected 0 or more")
    plain = not (spec.batch or spec.merged or spec.sources or spec.scaling or spec.windows or spec.sparse)
    bare = not (spec.shuffled or spec.taken or spec.b_dtype or spec.op) and spec.products == 1
    if not (plain and bare and spec.walk == "grid" and spec.dtype in SQUARED):
        yield Reason("beside", spec.beside, "squares are of the rows of one plain product of floats", "expected 0")


def _chain(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether a second product takes whole blocks of C of experts, and memory adds what comes of it."""
    if not any(spec.chain):
        for field, beside in (("chain_scaling", spec.chain_scaling), ("chain_side", spec.chain_side)):
            if beside:
                yield Reason(field, beside, "C is stored, and multiplied by no matrix behind", "expected nothing")
        return
    step, (_, across) = spec.waves[1] * spec.mfma[1], spec.waves
    if spec.walk != "experts" or spec.sink != "atomic" or spec.out != "f32" or not spec.op:
        yield Reason("chain", spec.chain, "memory adds up sums of experts in f32", "expected walk=experts, sink=atomic")
    if spec.epilogue != "direct" or spec.slices != (1, 1):
        yield Reason("epilogue", spec.epilogue, "what is between two products is a whole block", "expected direct")
    if spec.shuffled or spec.scaled_sums or spec.held[0].is_integer or spec.held[0].bytes < 2:
        yield Reason("dtype", spec.dtype, "both products take plain rows of floats", "expected f16, bf16 or f32")
    try:
        scales, sides = map(ScaleSpec.parse, spec.chain_scaling), map(SideSpec.parse, spec.chain_side)
        of_elements, kinds = [one.of_elements for one in scales], [one.kind for one in sides]
    except ValueError as error:
        yield Reason("chain", spec.chain, f"{error} is not an array beside a matrix", "expected such as f32:row:4")
        return
    if not all(of_elements) or len(of_elements) != bool(spec.scaling) or kinds not in ([], ["row"]):
        why = "the matrix behind is held as those before, with a row that is added at most"
        yield Reason("chain_scaling", spec.chain_scaling, why, "expected scales of elements of all, or of none")
    yield from _elements(spec, 1, {ScaleSpec.parse(text).group for text in spec.chain_scaling})
    if spec.chain[0] % step or spec.chain[0] <= 0:
        why = f"{across} waves of {spec.mfma[1]} columns do not divide a step of {spec.chain[0]}"
        yield Reason("chain", spec.chain, why, f"expected a multiple of {step}")
    if spec.block[1] % spec.mfma[2]:
        why = f"the matrix instruction takes {spec.mfma[2]} of what is between at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {spec.mfma[2]} along n")


def _narrow_floats(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """8-bit floats beside the products; for those the matrix instruction says whether the chip has them."""
    beside = [("side", SideSpec.parse(text).dtype) for text in spec.side]
    beside += [(f"{one.name[0]}_types", one.dtype) for one in map(SourceSpec.parse, spec.sources)]
    for field, dtype in (("out", spec.out), *beside):
        yield from no_such_float(field, dtype, target)


def _expression(spec: ContractionSpec, target: Target) -> Iterator[Reason]:
    """Whether the expression is one, and has what it names."""
    try:
        sides = [SideSpec.parse(text) for text in spec.side]
    except ValueError as error:
        yield Reason("side", spec.side, f"{error} is not a D tensor", "expected dtype:kind:align, such as f16:full:8")
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
    instead = f"expected reduction={'linear' if spec.walk == 'stream_k' else 'workspace'}"
    shared = spec.walk != "experts"  # there each part is a result
    if shared and spec.op and not is_linear(parse(spec.op, (*spec.accumulators, *NAMES, *SCALARS)), spec.accumulators):
        why = f"op={spec.op} of partial sums does not add up to op of their sum"
        yield Reason("reduction", "atomic", why, f"{instead}, or a product of the sums and something else")
    features = ATOMIC_OUTPUTS.get(spec.out)
    if features is None:
        yield Reason("reduction", "atomic", f"memory does not add {spec.out}", f"{instead}, or out=f32")
    elif features and not any(target.has(feature) for feature in features):
        yield Reason("reduction", "atomic", target.lacks(features[-1]), f"{instead}, or out=f32")
    elif find_dtype(spec.out).bytes == 2 and spec.align[2] < 2:
        why = f"memory adds {spec.out} in pairs, but rows have an odd length or start an odd number of elements apart"
        yield Reason("reduction", "atomic", why, f"{instead}, or out=f32")


CHECKS: tuple[tuple[Check, ...], ...] = (
    (_choices, _described, _numbers, _pad_letters),
    (_expression, _merged, _walk, _windows, _sources, _scaling, _sparse, _beside, _chain, _along_k),
    (_narrow_floats, _sink),
    (matrix_instruction, alignment, fragment_order),
    (slices, phases),
    (lds, registers, gathered_sums),
)
"""All of them; each group relies on the ones before it."""
