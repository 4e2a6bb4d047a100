"""The kernel of `ssd_fwd` as tile code: a workgroup takes some channels of a head through all places, block by block.

With S the sums of delta_a along a block, up to each place, a step is, for places i and j of the block,

    P[i, j] = C[i]·B[j] exp(S[i] - S[j]) delta[j], for j up to i        Y = exp(S) (C·Hᵀ) + P·X
    W = delta exp(S[last] - S)                                          H = exp(S[last]) H + (W X)ᵀ·B

Exponents are differences, and negative where delta_a is. H (d, n) stays in the accumulators from step to step, and LDS
has it rounded as an operand of C·Hᵀ. P is the operand of P·X where C·Bᵀ leaves it. What lies behind the last place
loads as zero: it adds nothing, and lets nothing decay.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec import Struct

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    LdsTensor,
    Pointer,
    Scalar,
    Tile,
    View,
    Window,
    cast,
    coordinates,
    exp2,
    i32,
    i64,
    kernel,
    load,
    loop,
    mma,
    permute_axes,
    ptr,
    reciprocal,
    redistribute,
    reduce_sum,
    scan_sum,
    stage,
    store,
    stretch,
    to_lds,
    uniform,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.ops.precision import LOG2_E
from ckmlir.ops.state_space.problem import STEPS
from ckmlir.ops.state_space.ssd_fwd_spec import ROWS, SsdFwdSpec
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

LOWEST = -1e30
"""An exponent whose exponential is zero."""


class Form(Struct, frozen=True):
    """What a workgroup multiplies in a step.

    Attributes:
        scores, earlier, within, update: the products C·Bᵀ, C·Hᵀ, P·X and (W X)ᵀ·B.
    """

    spec: SsdFwdSpec
    scores: Mma
    earlier: Mma
    within: Mma
    update: Mma

    @property
    def c(self) -> Distribution:
        """C (places, n) as an operand."""
        return self.scores.a_over(self.spec.over_places, self.spec.places, self.spec.n_tile)

    @property
    def b(self) -> Distribution:
        """B (places, n) as an operand of C·Bᵀ."""
        return self.scores.b_over(self.spec.over_places, self.spec.places, self.spec.n_tile)

    @property
    def p(self) -> Distribution:
        """Scores and weights (places, places)."""
        return self.scores.c_over(self.spec.over_places, self.spec.places, self.spec.places)

    @property
    def y(self) -> Distribution:
        """Y (places, d)."""
        return self.within.c_over(self.spec.over_places, self.spec.places, self.spec.d_tile)

    @property
    def h(self) -> Distribution:
        """The state (d, n) as it is summed."""
        return self.update.c_over(self.spec.over_state, self.spec.d_tile, self.spec.n_tile)

    @property
    def weighted(self) -> Distribution:
        """W X (d, places) as an operand."""
        return self.update.a_over(self.spec.over_state, self.spec.d_tile, self.spec.places)

    @property
    def b_across(self) -> Distribution:
        """B (n, places) as an operand of the update."""
        return self.update.b_over(self.spec.over_state, self.spec.n_tile, self.spec.places)

    @property
    def steps(self) -> Distribution:
        """Numbers of places: every wave has all of them, neighbours in neighbouring lanes."""
        copies = f"r: {self.spec.waves}@wave {WAVE_SIZE // self.spec.places}@lane, "
        return Distribution.parse(f"{copies}d0: {self.spec.places}@lane".replace(" 1@lane,", ","))


def form_of(spec: SsdFwdSpec, target: Target) -> Form:
    """The products of a kernel. A lane of Y has neighbouring channels of a place, or places of a channel, as memory
    has them."""
    able = [one for one in target.mfmas(spec.dtype) if (one.m, one.n) == (ROWS, ROWS) and not one.scaled]
    shape = able[0].shape

    def product(depth: int, *, transposed: bool) -> Mma:
        return Mma.select(target, shape, spec.dtype, block_k=depth, transposed=transposed)

    scores = product(spec.n_tile, transposed=True)
    within = product(spec.places, transposed=not spec.columns).with_k_chunk(scores.instruction.acc_group)
    earlier = product(spec.n_tile, transposed=not spec.columns)
    return Form(spec, scores, earlier, within, product(spec.places, transposed=True))


class Head(Struct, frozen=True):
    """The arrays of a head: views (places, channels) of what memory has in either order.

    Attributes:
        first: the workgroup's first channel of X and Y.
        number, batch, group: of the head.
    """

    spec: SsdFwdSpec
    given: SimpleNamespace
    first: Scalar
    number: Scalar
    batch: Scalar
    group: Scalar

    @property
    def s(self) -> Scalar:
        found: Scalar = self.given.s
        return found.multiple_of(self.spec.align) if self.spec.columns else found

    @property
    def d(self) -> Scalar:
        spec, found = self.spec, self.given.d
        assert isinstance(found, Scalar)
        return found.multiple_of(spec.d_tile if not spec.pad else 1 if spec.columns else spec.align)

    @property
    def n(self) -> Scalar | int:
        return self.given.n.multiple_of(self.spec.align) if self.spec.pad else self.spec.n_tile

    def places(self, name: str) -> View:
        """An array of heads or groups as (places, channels), not padded."""
        given, columns, align = self.given, self.spec.columns, self.spec.align
        of_state = name in ("b_mat", "c_mat")
        channels = self.n if of_state else self.d
        head = self.group if of_state else self.number
        by_head, by_batch, row = (getattr(given, f"{name}_{what}") for what in ("head", "batch", "row"))
        distance = head.to("i64") * by_head + self.batch.to("i64") * by_batch
        start, row = getattr(given, name).offset(distance.multiple_of(align)).held(), row.multiple_of(align)
        if columns:
            return view(start, (channels, self.s), (row, 1)).permute(1, 0)
        return view(start, (self.s, channels), (row, 1))

    def steps(self, name: str) -> View:
        """A number for each place."""
        given = self.given
        start = getattr(given, name).offset(self.batch.to("i64") * given.steps_batch)
        if self.spec.columns:
            start = start.offset(self.number.to("i64") * given.steps_row.to("i64")).held()
            return view(start, (self.s,), (1,)).pad(self.spec.places)
        return view(start.offset(self.number).held(), (self.s,), (given.steps_row,)).pad(self.spec.places)

    def state(self, pointer: Pointer) -> View:
        """The head's state (d, n) in a packed array."""
        tile, each = (self.spec.d_tile, self.spec.n_tile), self.given.h.to("i64")
        number = self.batch.to("i64") * each + self.number.to("i64")
        size = self.d.to("i64") * (self.n if isinstance(self.n, int) else self.n.to("i64"))
        return view(pointer.offset(number * size).held(), (self.d, self.n), (self.n, 1)).pad(*tile)

    def skip(self, lies: Distribution) -> Tile | Scalar:
        """What X is added to Y times of: a number, or one for each channel."""
        given = self.given
        if self.spec.skip == "head":
            found: Scalar = given.skip.scalar(self.number)
            return found
        start = given.skip.offset(self.number.to("i64") * given.d.to("i64"))
        window = view(start, (self.d,), (1,)).pad(self.spec.d_tile).window((self.spec.d_tile,), (self.first,))
        return stretch(load(window, lies.reduce(0)), 0, self.spec.places, lies)


class Block(Struct, frozen=True):
    """A block of places, as LDS has it.

    Attributes:
        c: the block's C, an operand; last: the exponent of its decay.
        sums, factors, weights: S, delta and W.
    """

    c: Tile
    b: LdsTensor
    b_across: LdsTensor | None
    x: LdsTensor
    sums: LdsTensor
    factors: LdsTensor
    weights: LdsTensor
    last: Scalar


def build(spec: SsdFwdSpec, target: Target) -> Kernel:
    """Trace the kernel of a specification."""
    form, schedule = form_of(spec, target), Schedule.parse(spec.schedule_text)

    @kernel(spec.name, target=target, waves=spec.waves, arguments=_arguments(spec))
    def ssd_fwd(given: Any) -> None:
        head = _head(spec, given)
        x = head.places("x")
        source, sink = Source(form, head, x), Sink(form, head, x)
        tile = spec.d_tile, spec.n_tile
        start = zeros(tile, "f32", form.h)
        if spec.initial:
            start = load(head.state(given.initial).window(tile, (head.first, 0)), form.h)
        with loop(0, head.s, spec.places, carry=[start], schedule=schedule) as step:
            (h,) = step.carried
            with stage("load"):
                loaded = source.load(step.index)
            with stage("to_lds"):
                block = _held(form, *loaded)
                state = to_lds(cast(h, spec.dtype), "state")
            with stage("earlier"):
                y = _from_state(form, block, state)
            with stage("scores"):
                p = _weights(form, block, step.index)
            with stage("within"):
                y = mma(form.within, p, block.x.read(form.within.b_over(spec.over_places, *_x(spec))), y)
            with stage("out"):
                sink.write(y, step.index)
            with stage("update"):
                h = _updated(form, block, h)
            step.carry(h)
        if spec.final:
            store(step.results[0], head.state(given.state).window(tile, (head.first, 0)))

    return ssd_fwd


def _arguments(spec: SsdFwdSpec) -> dict[str, Any]:
    floats = ptr(spec.dtype)
    skip = {} if spec.skip == "none" else {"skip": ptr("f32", alignment=4)}
    gate = {"z": floats} if spec.gate else {}
    arguments: dict[str, Any] = {
        "x": floats, **dict.fromkeys(STEPS, ptr("f32", alignment=4)), "b_mat": floats, "c_mat": floats, **skip, **gate,
        **({"initial": ptr("f32")} if spec.initial else {}), "y": floats,
        **({"state": ptr("f32")} if spec.final else {}), **dict.fromkeys(("s", "d", "n", "h", "ratio"), i32),
    }  # fmt: skip
    for name in ("x", "b_mat", "c_mat", *gate, "y"):
        arguments.update({f"{name}_row": i32, f"{name}_head": i64, f"{name}_batch": i64})
    return {**arguments, "steps_row": i32, "steps_batch": i64}


def _head(spec: SsdFwdSpec, given: Any) -> Head:
    """What a workgroup takes: of neighbouring ones blocks of channels, then heads, then batches."""
    blocks = (given.d + (spec.d_tile - 1)) // spec.d_tile
    each = workgroup_id(0) // blocks
    number = each % given.h
    first = (workgroup_id(0) % blocks) * spec.d_tile
    return Head(spec, given, first, number, each // given.h, number // given.ratio)


def _x(spec: SsdFwdSpec) -> tuple[int, int]:
    """Of a block of X as LDS has it: channels and places."""
    return spec.d_tile, spec.places


class Source:
    """What a workgroup loads block by block: views of a head's arrays, whose pointers are found before the loop."""

    def __init__(self, form: Form, head: Head, x: View) -> None:
        spec = form.spec
        self.form, self.first = form, head.first
        b = head.places("b_mat")
        self.c = head.places("c_mat").pad(spec.places, spec.n_tile)
        self.b, self.b_across = b.pad(spec.places, spec.n_tile), b.permute(1, 0).pad(spec.n_tile, spec.places)
        self.x = x.permute(1, 0).pad(*_x(spec))
        self.steps = [head.steps(name) for name in STEPS]

    def load(self, place: Scalar) -> tuple[Tile, Tile, Tile | None, Tile, Tile, Tile]:
        """C, B, B with columns as rows where LDS has that too, X, delta_a and delta."""
        spec = self.form.spec
        rows, across = (spec.places, spec.n_tile), (spec.n_tile, spec.places)
        c = load(self.c.window(rows, (place, 0), moves_buffer=True), self.form.c)
        b = load(self.b.window(rows, (place, 0), moves_buffer=True))
        turned = None if spec.turned else load(self.b_across.window(across, (0, place), moves_buffer=True))
        x = load(self.x.window(_x(spec), (self.first, place), moves_buffer=True))
        of_places = (one.window((spec.places,), (place,), moves_buffer=True) for one in self.steps)
        decay, delta = (load(one, self.form.steps) for one in of_places)
        return c, b, turned, x, decay, delta


class Sink:
    """Where Y goes, and what it meets on its way: X and Z."""

    def __init__(self, form: Form, head: Head, x: View) -> None:
        spec = form.spec
        self.form, self.first, self.tile = form, head.first, (spec.places, spec.d_tile)
        self.x, self.y = (one.pad(*self.tile) for one in (x, head.places("y")))
        self.z = head.places("z").pad(*self.tile) if spec.gate else None
        self.skip = None if spec.skip == "none" else head.skip(form.y)

    def met(self, view: View, place: Scalar) -> Tile:
        """A block of X or Z as Y lies, in f32."""
        return cast(load(self._window(view, place), self.form.y), "f32")

    def write(self, y: Tile, place: Scalar) -> None:
        """Y of a block, with what is added to it and multiplies it."""
        if self.skip is not None:
            y = y + self.met(self.x, place) * self.skip
        if self.z is not None:
            z = self.met(self.z, place)
            y = y * z * reciprocal(exp2(z * -LOG2_E) + 1.0)
        store(cast(y, self.form.spec.dtype), self._window(self.y, place))

    def _window(self, whole: View, place: Scalar) -> Window:
        return whole.window(self.tile, (place, self.first), moves_buffer=True)


def _held(form: Form, c: Tile, b: Tile, b_across: Tile | None, x: Tile, decay: Tile, delta: Tile) -> Block:
    """What was loaded of a block, in LDS, with the sums along it."""
    exponents = decay * LOG2_E
    sums = scan_sum(exponents, 0)
    last = uniform(reduce_sum(stretch(exponents, 0, 1), 1))
    across = None if b_across is None else to_lds(b_across, "b_across")
    weights = to_lds(exp2(last - sums) * delta, "weights")
    sums_held, factors = to_lds(sums, "sums"), to_lds(delta, "factors")
    return Block(c, to_lds(b, "b"), across, to_lds(x, "x"), sums_held, factors, weights, last)


def _from_state(form: Form, block: Block, state: LdsTensor) -> Tile:
    """What places have of Y (places, d) from all before the block."""
    spec = form.spec
    held = state.read(form.earlier.b_over(spec.over_places, spec.d_tile, spec.n_tile))
    y = mma(form.earlier, block.c, held, zeros((spec.places, spec.d_tile), "f32", form.y))
    found: Tile = y * exp2(block.sums.read(form.y.reduce(1)))[:, None]
    return found


def _weights(form: Form, block: Block, place: Scalar) -> Tile:
    """P (places, places) as an operand. Which places there are for each is the same in every block, and found anew:
    sixteen conditions would be kept in registers from step to step."""
    spec, lies = form.spec, form.p
    scores = mma(form.scores, block.c, block.b.read(form.b), zeros((spec.places, spec.places), "f32", lies))
    here, there = (block.sums.read(lies.reduce(axis)) for axis in (1, 0))
    ends = coordinates(here, 0) + (place - place.anew() + 1)
    reached = coordinates(scores, 1) < ends[:, None]
    exponents = where(reached, stretch(here, 1, spec.places, lies) - there[None, :], LOWEST)
    p = scores * exp2(exponents) * block.factors.read(lies.reduce(0))[None, :]
    return redistribute(cast(p, spec.dtype), form.within.a_over(spec.over_places, spec.places, spec.places))


def _updated(form: Form, block: Block, h: Tile) -> Tile:
    """The state behind a block."""
    spec = form.spec
    weighted = cast(block.x.read(form.weighted), "f32") * block.weights.read(form.weighted.reduce(0))[None, :]
    if block.b_across is None:
        b = permute_axes(block.b.read(form.b_across.permute((1, 0))), 1, 0)
    else:
        b = block.b_across.read(form.b_across)
    return mma(form.update, cast(weighted, spec.dtype), b, h * exp2(block.last))
