"""Why a chip cannot run a kernel of attention forward: checks of its specification, one a function."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.attention.fmha_fwd_spec import (
    BY_INSTRUCTION,
    DTYPES,
    FORWARD_MASKS,
    HEAD_TILES,
    OUTPUTS,
    QUERIES_PER_WAVE,
    SCALED,
    SEQUENCES,
    TAKEN,
    FmhaFwdSpec,
    channel_multiple,
    copying,
    draws,
    shape_for_values,
)
from ckmlir.ops.attention.orders import DEALT, FORWARD_ORDERS, IN_ONE_ROW
from ckmlir.ops.attention.paged_spec import copied_rows
from ckmlir.ops.attention.schedule_choice import (
    DEFAULT,
    TOGETHER,
    WOVEN_BYTES,
    woven_mask,
    woven_places,
    woven_registers,
)
from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.resources import Resources, excess
from ckmlir.ops.schedules import ATTENTION as SCHEDULES
from ckmlir.ops.schedules import EDGE as EDGES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Reason, by, no_such_float, not_a_choice, not_powers_of_two
from ckmlir.targets import Target, TargetError

VALUES = ("", "fp8", "f16", "bf16")
"""Types that V may have where it is not that of Q and K."""
SMALLEST_COPY = 4
"""Bytes of a lane's copy to LDS (CDNA3 ISA, buffer loads with LDS)."""
DRAWN = 32
"""Queries of a wave that dropout draws for."""


def invalid_fields(spec: FmhaFwdSpec, target: Target) -> list[Reason]:
    """Why `target` cannot run this kernel; empty when it can."""
    reasons = [
        *not_a_choice(spec, dtype=SCALED if spec.v_dtype else DTYPES, v_dtype=VALUES, mask=FORWARD_MASKS,
                      schedule=tuple(SCHEDULES), edge=(TOGETHER, *EDGES), order=tuple(FORWARD_ORDERS)),
        *not_powers_of_two(spec, "block", "waves", "along_keys"),
        *_sides(spec),
        *(
            Reason("sequences", spec.sequences, f"'{word}' is not a choice", f"expected {'|'.join(SEQUENCES)}")
            for word in spec.sequences
            if word not in SEQUENCES
        ),
        *(not_powers_of_two(spec, "v_columns") if spec.v_columns else ()),
        *_channels(spec),
        *_values(spec, target),
        *_output(spec, target),
        *_scaled(spec, target),
        *_stored(spec),
    ]
    # Each group of checks relies on the ones before it.
    reasons = reasons or list(_matrix_instruction(spec, target))
    reasons = reasons or [
        *_transposed_copies(spec, target), *_copied_columns(spec), *_drawn(spec), *_pieces(spec), *_led(spec, target),
        *_whole_edge(spec),
        *copied_rows(
            spec.source, spec.block[1], {one: getattr(spec, one) for one in copying(spec, "k", "v")}, copying(spec, "v")
        ),
    ]  # fmt: skip
    return reasons or [reason for field in spec.loops for reason in excess(_resources(spec, field, target), target)]


def _sides(spec: FmhaFwdSpec) -> Iterator[Reason]:
    if spec.along_keys > spec.waves:
        why = f"there are {spec.waves} waves"
        yield Reason("along_keys", spec.along_keys, why, f"expected at most {spec.waves}")
    if spec.order in IN_ONE_ROW and "start" not in spec.sequences[0]:
        why = "blocks of all sequences are in one row where their queries are"
        yield Reason("order", spec.order, why, "expected rising")
    if spec.order == DEALT and not spec.split:
        yield Reason("order", spec.order, "it deals out shares of blocks", "expected split=1")
    if spec.packed and not spec.pad_sq:
        yield Reason("pad_sq", False, "queries of several heads need not end with a block", "expected 1")


def _output(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    yield from no_such_float("out", spec.out, target)
    able = ("f32",) if spec.split else OUTPUTS.get(spec.dtype, (spec.out,))
    if spec.out not in able:
        what = "parts of O" if spec.split else f"O of {spec.dtype} attention"
        yield Reason("out", spec.out, f"{what} cannot have this type", f"expected {' or '.join(able)}")
    if spec.split and not spec.lse:
        yield Reason("lse", spec.lse, "parts of O are nothing without their LSE", "expected 1")


def _values(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    yield from no_such_float("v_dtype", spec.v_dtype, target)


def _scaled(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    """Scales of 32 elements are matrix instructions', with 32 rows."""
    if not spec.scaled_by_instruction:
        return
    able = [one for one in target.mfmas(spec.dtype) if one.scaled and one.m == QUERIES_PER_WAVE[0]]
    if not able:
        why = f"{target.name} has no matrix instructions that scale blocks of {spec.dtype}"
        yield Reason("scales", "mx", why, "they start with gfx950")
    elif spec.mfma not in [(one.m, one.n, one.k) for one in able]:
        yield Reason("mfma", spec.mfma, "it scales no blocks of 32 keys", f"expected {able[0].shape}")


def _stored(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Packed elements are others in LDS than in memory."""
    if not spec.stored:
        return
    if TAKEN.get(spec.stored) != spec.dtype or spec.v_dtype:
        yield Reason("stored", spec.stored, f"it does not become {spec.dtype}", f"expected {', '.join(TAKEN)} with fp8")
    elif not spec.scaled_by_instruction:
        yield Reason("stored", spec.stored, "elements have scales of 32", f"expected {BY_INSTRUCTION} among the parts")
    for field in copying(spec, "k", "v"):
        why = f"elements of {spec.stored} become {spec.dtype} between memory and LDS, which copies do not do"
        yield Reason(field, getattr(spec, field), why, f"expected {DEFAULT}")


def _channels(spec: FmhaFwdSpec) -> Iterator[Reason]:
    if spec.dtype not in OUTPUTS or spec.v_dtype not in VALUES:
        return  # which is said already
    for field, dtype in (("d", spec.stored or spec.dtype), ("dv", spec.stored or spec.values)):
        channels, multiple = getattr(spec, field), channel_multiple(dtype)
        if channels < 1 or channels % multiple or channels > HEAD_TILES[-1]:
            right = f"expected a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
            yield Reason(field, channels, "no tile holds so many channels in whole vectors", right)


def _matrix_instruction(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    try:
        target.find_mfma(by(spec.mfma), spec.dtype)
    except TargetError as error:
        why, _, right = str(error).partition("; ")
        if target.mfmas(spec.dtype):
            yield Reason("mfma", spec.mfma, why, right)
        else:
            yield Reason("dtype", spec.stored or spec.dtype, why, "expected a dtype that the chip multiplies")
        return
    try:
        _, _, deep = shape_for_values(spec.mfma, spec.dtype, spec.values, target)
    except TargetError as error:
        yield Reason("mfma", spec.mfma, str(error), "expected a shape that both products have")
        return
    m, n, k = spec.mfma
    if spec.block[0] % (spec.along_queries * m):
        why = f"{spec.along_queries} waves of {m} queries do not divide {spec.block[0]}"
        yield Reason("block", spec.block, why, f"expected a multiple of {spec.along_queries * m} queries")
    if spec.block[1] % (n * spec.along_keys) or spec.block[1] % deep:
        why = f"matrix instructions of all waves take {n * spec.along_keys} keys of K and {deep} of V at a time"
        yield Reason("block", spec.block, why, f"expected a multiple of {max(n * spec.along_keys, deep)} keys")
    for field, tile, step in (("d", spec.d_tile, k), ("dv", spec.dv_tile, n * spec.along_keys)):
        if tile % step:
            why = f"{step} does not divide the {tile} channels of {field}"
            yield Reason("mfma", spec.mfma, why, "expected a smaller shape")


def _transposed_copies(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    """A copy leaves V in LDS as it lies in memory; keys, along which lanes hold vectors, are neighbours in columns
    only."""
    right = "expected qr_async, which copies K only"
    for field in copying(spec, "v") if not spec.v_columns else ():
        value = getattr(spec, field)
        if not target.transposed_elements(8 * find_dtype(spec.values).bytes):
            has = f"no reads of LDS that transpose {spec.values}"
            why = f"V goes to LDS as it lies in memory, and {target.name} has {has}"
            yield Reason(field, value, why, right)


def _copied_columns(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Copies of a lane are of 4 bytes at least."""
    if spec.v_columns and spec.v_columns * find_dtype(spec.values).bytes < SMALLEST_COPY:
        for field in copying(spec, "v"):
            why = "V goes to LDS without registers, and its columns are not vectors of 4 bytes"
            right = "expected qr_async, which copies K only, or even lengths"
            yield Reason(field, getattr(spec, field), why, right)


def _drawn(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Dropout draws for blocks of 32 x 32, of which a wave has one row."""
    if not draws(spec.parts):
        return
    if spec.mfma[0] != DRAWN:
        yield Reason("mfma", spec.mfma, "dropout draws for the elements of 32 queries and 32 keys", "expected 32x32")
    elif spec.block[0] != DRAWN * spec.waves:
        right = f"expected {DRAWN * spec.waves} queries"
        yield Reason("block", spec.block, "dropout draws for a block of 32 queries a wave", right)


def _pieces(spec: FmhaFwdSpec) -> Iterator[Reason]:
    """Pieces of arithmetic become whole registers, so that what is woven stays in its place."""
    size = find_dtype(spec.values).bytes
    for field, text in spec.loops.items():
        elements = parse_schedule(text).elements
        if elements * size % 4:
            why = f"it makes weights {elements} at a time, which fill no register in {spec.values}"
            yield Reason(field, getattr(spec, field), why, f"expected {WOVEN_BYTES} or {DEFAULT}")


def _led(spec: FmhaFwdSpec, target: Target) -> Iterator[Reason]:
    """Reads of a woven step stand before products of the same step; those of K, where it goes through registers, before
    as many of P·V at most, under which it is written to LDS."""
    m, n, k = spec.mfma
    _, _, deep = shape_for_values(spec.mfma, spec.dtype, spec.values, target)
    queries, keys = spec.block
    rows = queries // (spec.along_queries * m)
    scores, values = rows * keys * spec.d_tile // (n * k), rows * keys * spec.dv_tile // (n * deep)
    for field, text in spec.loops.items():
        schedule = parse_schedule(text)
        through = schedule.path_of("k") == "through"
        most, there = (values, "P·V has") if through else (scores + values - 1, "a step has one more than")
        if schedule.order == "weave" and schedule.lead > most:
            why = f"it reads {schedule.lead} matrix instructions ahead, and {there} {most}"
            yield Reason(field, getattr(spec, field), why, f"expected {DEFAULT}")


def _whole_edge(spec: FmhaFwdSpec) -> Iterator[Reason]:
    if spec.edge != TOGETHER and not spec.cuts:
        yield Reason("edge", spec.edge, "without a mask no block of keys is cut where all are whole", "expected none")


PADDING = 128
"""A part of V, at most, that rows are longer by in LDS where V is read across them, against bank conflicts."""


def _exchanged(spec: FmhaFwdSpec) -> int:
    """Bytes of LDS that waves side by side along keys take to exchange P, and the rows' maxima and sums (f32)."""
    queries, keys = spec.block
    several = queries * keys * find_dtype(spec.values).bytes + 2 * queries * spec.along_keys * 4
    return several if spec.along_keys > 1 else 0


def _resources(spec: FmhaFwdSpec, field: str, target: Target) -> Resources:
    """What the loop with the schedule of a field takes: rotating buffers of K and V in LDS; accumulators of S and O, P,
    Q, loads of K and V in flight, and an operand."""
    queries, keys = spec.block
    size, v_size = (find_dtype(one).bytes for one in (spec.dtype, spec.values))
    threads = spec.waves * target.wave_size
    schedule = parse_schedule(spec.loops[field])
    name, value = ("block", spec.block) if field == "schedule" else (field, spec.edge)
    shared = {"k": keys * spec.d_tile * size, "v": keys * spec.dv_tile * v_size}
    moving = sum(
        held * max(schedule.ahead_of(f"load_{tensor}") - schedule.ahead_of(f"{tensor}_lds"), 1)
        for tensor, held in shared.items()
        if schedule.path_of(tensor) == "through"
    )
    output, scores = (queries * columns // threads for columns in (spec.dv_tile, keys))
    tiles = (queries * (keys * v_size + spec.d_tile * size) * spec.along_keys + moving) // threads // 4
    lds = _exchanged(spec) + sum(schedule.buffers_of(tensor) * held for tensor, held in shared.items())
    if spec.v_columns:
        lds += schedule.buffers_of("v") * shared["v"] // PADDING
    if schedule.order == "weave":
        # Of K and V as far as reads lead, scores of two blocks of keys, what is loaded beside what is written to LDS.
        operand = 2 * schedule.lead * spec.mfma[1] * spec.mfma[2] * size // target.wave_size // 4
        need = output + 2 * scores + tiles + moving // threads // 4 + operand + woven_registers(spec.parts)
        if not target.has("lds_transpose_read"):
            need += woven_places(spec.mask, spec.source, keys)
            need += woven_mask(spec.dtype, spec.mask, spec.parts, ragged=spec.pad_sk)
        return Resources(name, value, threads, lds, output, need, pinned=True)
    # Every wave reads all of K, then V, or its share.
    row = max(spec.d_tile * size, spec.dv_tile * v_size)
    operand = keys * row // target.wave_size // 4 // spec.along_keys
    need = output + scores + tiles + operand
    if schedule.elements and schedule.ahead_of("qk"):  # the softmax of one step is alive beside scores of the next
        need += woven_registers(spec.parts)
    return Resources(name, value, threads, lds, output, need, pinned=schedule.elements > 0)
