"""What lowering knows of the kernel: its target, its threads, its LDS, and how to make address arithmetic."""

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct, field

from ckmlir.dialect.build import constant_integer, integer_of, producer, value
from ckmlir.dialect.control import end_of
from ckmlir.dialect.distribution import LANE, WAVE, Digit, Distribution
from ckmlir.dialect.distribution_builders import quad_distance
from ckmlir.dialect.divisors import Divisors, constant_of
from ckmlir.dialect.loop import ADVANCES
from ckmlir.lowering.dpp import QUAD
from ckmlir.lowering.index import Emitter, Index
from ckmlir.lowering.kernel_arguments import KernelArguments
from ckmlir.lowering.parts import Rate
from ckmlir.lowering.quads import mark_same_in_quad, split_at_quads
from ckmlir.mlir import ir
from ckmlir.passes.flow import Flow
from ckmlir.passes.pipeline_loops import IN_PIECES
from ckmlir.targets import Target
from ckmlir.targets.cdna import WAVE_SIZE

T = TypeVar("T")


class Lowering(Struct):
    """State of lowering one kernel."""

    function: ir.Operation
    target: Target
    waves: int
    makes_f16: bool
    """Whether the kernel converts anything to f16."""
    joins_halves: bool
    """Whether halves of registers are put together by instructions that LLVM does not look into."""
    emit: Emitter = field(default_factory=Emitter)
    rates: dict[ir.Value, Rate] = field(default_factory=dict)
    known: dict[Hashable, Any] = field(default_factory=dict)
    thread: ir.Value | None = None
    lane: ir.Value | None = None
    wave: ir.Value | None = None
    lds: ir.Value | None = None
    some_zero: ir.Value | None = None
    """0 as LLVM does not know it, from the kernel's beginning."""
    slots: dict[ir.Value, ir.Operation] = field(default_factory=dict)
    """Of numbers that say which slot of an LDS tensor is meant: an allocation that lies as they do."""
    steps: set[ir.Block] = field(default_factory=set)
    """The blocks that are steps of innermost loops."""
    loading_much: set[ir.Block] = field(default_factory=set)
    """Blocks with a tile that takes more loads than offsets may be kept for (`global_access.MOST_KEPT`)."""
    in_pieces: bool = False
    """Whether a loop's schedule takes arithmetic to pieces: what it holds takes most registers."""
    passing: list[ir.Operation] = field(default_factory=list)
    """Assembly that offsets pass through, so that LLVM takes them for others in each turn of a loop."""
    fills_pairs: bool = False
    """Whether numbers of lanes that packed arithmetic takes for both elements fill a pair of registers."""
    has_many_arguments: bool = False
    """Whether scalar registers are short, since arguments fill most of them."""
    is_straight: bool = False
    """Whether every operation runs once: no loops and no branches."""
    multiplies: bool = False
    """Whether it has matrix instructions, and loops or branches."""
    has_spare_scalars: bool = False
    """Whether the scalar unit and its registers have room in loops: these multiply matrices, which hides what it does,
    none is in another, which would keep scalars of its own, and there are few arguments."""

    def __post_init__(self) -> None:
        self.emit.divisor_of = Divisors().of
        self.emit.quad_lane = self.quad_lane
        self.steps = _steps(self.function)
        self.in_pieces = IN_PIECES in self.function.attributes
        self.has_many_arguments = KernelArguments(self.function.regions[0].blocks[0]).are_many
        self.is_straight = len(self.function.regions[0].blocks) == 1
        self.multiplies = not self.is_straight and _multiplies(self.function)
        self.has_spare_scalars = self.multiplies and not self.has_many_arguments and _is_flat(self.function)

    def begin(self, uses_lds: bool) -> None:
        """Create the thread's own indices at the start of the kernel, where they dominate everything."""
        i32 = ir.IntegerType.get_signless(32)
        entry = self.function.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(entry), self.function.location:
            bound = ir.Attribute.parse(f"#llvm.constant_range<i32, 0, {self.waves * WAVE_SIZE}>")
            self.thread = value("rocdl.workitem.id.x", i32, [], {"range": bound})
            self.lane, self.wave = self.thread, None
            if self.waves > 1:
                mask = constant_integer(WAVE_SIZE - 1, i32)
                self.lane = value("arith.andi", i32, [self.thread, mask])
                shift = constant_integer(6, i32)
                # A wave's own number is the same for all its lanes; LLVM does not know and would use vector registers.
                self.wave = value("rocdl.readfirstlane", i32, [value("arith.shrui", i32, [self.thread, shift])])
            if uses_lds:
                self.lds = value(
                    "llvm.mlir.addressof",
                    ir.Type.parse("!llvm.ptr<3>"),
                    [],
                    {"global_name": ir.FlatSymbolRefAttr.get(lds_symbol(self.function))},
                )

    def tensor(self, lds: ir.Value) -> tuple[ir.Operation, Index]:
        """An allocation that lies as an LDS tensor does, and the first byte of the tensor."""
        if lds in self.slots:
            return self.slots[lds], self.emit.index(lds, Rate.STEP)
        alloc = producer(lds)
        assert alloc is not None
        return alloc, self.emit.number(integer_of(alloc, "offset"))

    def lane_index(self) -> Index:
        """This thread's lane."""
        assert self.lane is not None
        return self.emit.index(self.lane, Rate.LANE, WAVE_SIZE)

    def wave_index(self) -> Index:
        """This thread's wave in its workgroup."""
        if self.wave is None:
            return self.emit.number(0)
        return self.emit.index(self.wave, Rate.FIXED, self.waves)

    def begin_block(self) -> None:
        """Forget what was emitted in other blocks: it may not dominate what follows."""
        self.emit.begin_block()
        self.known.clear()

    def leads_to_loop(self, block: ir.Block) -> bool:
        """Whether a steady loop comes next."""
        return bool(self.steps) and bool(self.steps.intersection(end_of(block).successors))

    def known_in_block(self, key: Hashable, find: Callable[[], T]) -> T:
        """What `find` says, asked for the first time in this block and remembered to its end."""
        if key not in self.known:
            self.known[key] = find()
        found: T = self.known[key]
        return found

    def coordinates(self, distribution: Distribution, register: int, *, by_quads: bool = False) -> list[Index]:
        """Where a register of this thread lies in the tile; `by_quads`: with what its quad has in common apart."""
        origin, constants = self._origin(distribution, by_quads), distribution.begins(register)
        return [start + step for start, step in zip(origin, constants, strict=True)]

    def wave_coordinates(self, distribution: Distribution, register: int) -> list[Index]:
        """Where a register of this wave's lane 0 lies in the tile: the same for all lanes."""
        constants = distribution.begins(register)
        return [self._weighted(distribution, dim, (WAVE,)) + step for dim, step in enumerate(constants)]

    def _weighted(
        self, distribution: Distribution, dimension: int, owners: tuple[str, ...], by_quads: bool = False
    ) -> Index:
        """What the digits of these owners add to a coordinate."""
        digits: Iterable[Digit] = (digit for digit in distribution.digits(dimension) if digit.source in owners)
        if by_quads:
            digits = chain.from_iterable(map(split_at_quads, digits))
        return sum((self.digit(digit) * digit.weight for digit in digits), start=self.emit.number(0))

    def _origin(self, distribution: Distribution, by_quads: bool) -> list[Index]:
        """Where register 0 of this thread lies in the tile."""
        return self.known_in_block(
            ("origin", distribution, by_quads),
            lambda: [self._weighted(distribution, dim, (LANE, WAVE), by_quads) for dim in range(distribution.rank)],
        )

    def digit(self, digit: Digit) -> Index:
        """A digit of this thread's lane or wave."""
        whole = self.lane_index() if digit.source == LANE else self.wave_index()
        found = whole // digit.source_weight % digit.length
        if digit.source == LANE and digit.source_weight % QUAD == 0:
            mark_same_in_quad(found.terms)
        return found

    def quad_lane(self) -> Index:
        """This thread's lane in its quad."""
        return self.lane_index() % QUAD

    def quads(self, distribution: Distribution) -> dict[int, int]:
        """The dimensions along which all lanes of a quad have the same elements in fours, and how far from each other
        those lie.
        """
        return self.known_in_block(("quads", distribution), lambda: _quads(distribution))

    def uniform(self, item: ir.Value, *, least: Rate = Rate.FIXED, multiple: int = 1) -> Index:
        """A uniform run-time scalar, a multiple of `multiple`; `least`: the rate that it has at least."""
        number = constant_of(item)
        if number is not None:
            return self.emit.number(number)
        return self.emit.index(item, max(self._rate(item), least), multiple=multiple)

    def of_thread(self, item: ir.Value) -> Index:
        """An i32 that differs between threads."""
        atom = self.emit.atom(item, Rate.LANE)
        atom.moving = self._rate(item) == Rate.STEP
        return Index({(atom,): 1}, self.emit)

    def _rate(self, item: ir.Value) -> Rate:
        """FIXED, or STEP for what depends on an argument that advances with an innermost loop."""
        found = self.rates.get(item)
        if found is None:
            self.rates[item] = Rate.STEP  # what depends on itself goes round a loop
            found = self.rates[item] = self._rate_of(item)
        return found

    def _rate_of(self, item: ir.Value) -> Rate:
        owner = producer(item)
        if owner is None:
            return Rate.STEP if item.owner in self.steps else Rate.FIXED
        return max((self._rate(operand) for operand in owner.operands), default=Rate.FIXED)


def _quads(distribution: Distribution) -> dict[int, int]:
    apart = {dim: quad_distance(distribution, dim) for dim in range(distribution.rank)}
    return {dim: distance for dim, distance in apart.items() if distance is not None}


def _steps(function: ir.Operation) -> set[ir.Block]:
    """The blocks whose arguments advance, as the branches to them say; found before lowering splits blocks."""
    steps: set[ir.Block] = set()
    for block in function.regions[0]:
        branch = end_of(block)
        if ADVANCES in branch.attributes:
            steps.update(branch.successors[number] for number in ir.DenseI32ArrayAttr(branch.attributes[ADVANCES]))
            del branch.attributes[ADVANCES]
    return steps


def _multiplies(function: ir.Operation) -> bool:
    return any(op.operation.name == "ck.mfma" for block in function.regions[0] for op in block.operations)


def _is_flat(function: ir.Operation) -> bool:
    """Whether none of a kernel's loops is in another."""
    flow = Flow(list(function.regions[0].blocks))
    return len(flow.loops) == len(flow.outermost)


def lds_symbol(function: ir.Operation) -> str:
    """The name of the array that is a kernel's LDS; each kernel of a module has its own."""
    return f"lds_{function.attributes['sym_name'].value}"
