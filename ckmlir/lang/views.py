"""Views and windows of global memory, as an operator's author writes them.

A view changes by coordinate transforms (`slice`, `merge`, `embed`, …) while it is only a description: each method
returns a new view with a longer descriptor, and run-time amounts join the view's run-time values. So the IR has one
operation that makes a view, `ck.make_view`, whatever its transforms.
"""

from collections.abc import Callable, Sequence

from ckmlir.dialect import memory
from ckmlir.dialect import views as dialect_views
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.padding import LeftPad, RightPad
from ckmlir.dialect.reach import REACHES
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.dialect.symbols import Size, Symbol
from ckmlir.dialect.transforms import Embed, Offset
from ckmlir.dialect.types import TileType
from ckmlir.lang.arithmetic import dtype
from ckmlir.lang.trace import Traced, TracingError, located
from ckmlir.lang.values import Pointer, Scalar, Tile, as_scalar
from ckmlir.mlir import ir

Amount = Scalar | int
"""A length, stride or distance: a number, or a run-time i32."""
MOST = 1 << 31
"""Sizes are 32-bit integers."""


class View:
    """A pointer with a descriptor. Every method returns a new view; the run-time values go along.

    Dimensions are counted from 0. A bad dimension or a length that does not fit raises ValueError.
    """

    def __init__(self, pointer: Pointer, descriptor: Descriptor, dynamic: Sequence[Scalar]) -> None:
        self.pointer = pointer
        self.descriptor = descriptor
        self.dynamic = tuple(dynamic)

    @located
    def pad(self, *lengths: int) -> "View":
        """Each dimension padded to a multiple of a tile's length: reads beyond the tensor give zero, writes
        are dropped. A window has to begin before the padded end: where a tile is a slice of a block, pad to the block.
        """
        return self._through(lambda below, size: below.right_pad_to_multiple(lengths))

    @located
    def pad_left(self, dim: int, amount: Amount) -> "View":
        """`amount` more indices before the first of a dimension, without elements."""
        length = self._length(dim)
        return self._through(lambda below, size: below.apply(LeftPad(length, size(amount)), (dim,)))

    @located
    def pad_right(self, dim: int, amount: Amount) -> "View":
        """`amount` more indices behind the last of a dimension, without elements."""
        return self._through(lambda below, size: below.right_pad(dim, size(amount)))

    @located
    def slice(self, dim: int, begin: Amount, end: Amount) -> "View":
        """Indices `begin` up to, not including, `end` of a dimension; pad it where a window may reach past `end`."""
        return self._through(lambda below, size: below.slice(dim, size(begin), size(end)))

    @located
    def offset(self, dim: int, amount: Amount, length: Amount) -> "View":
        """A dimension of `length` that starts at `amount`."""
        whole = self._length(dim)
        if isinstance(amount, int) and isinstance(length, int) and isinstance(whole, int) and amount + length > whole:
            raise TracingError(f"{length} indices from {amount} on do not lie within [0, {whole})")
        return self._through(lambda below, size: below.offset_by(dim, size(amount), size(length)))

    @located
    def freeze(self, dim: int, index: Amount) -> "View":
        """A dimension fixed at one index; the view has one dimension less."""
        length = self._length(dim)
        if isinstance(index, int) and isinstance(length, int) and not 0 <= index < length:
            raise TracingError(f"index {index} does not lie within [0, {length})")
        if self.descriptor.rank == 1:
            raise TracingError("a view has at least one dimension; a window of length 1 takes one element")
        return self._through(lambda below, size: below.freeze(dim, size(index)))

    @located
    def insert(self, position: int, length: Amount) -> "View":
        """A new dimension at `position` along which every element repeats."""
        if not 0 <= position <= self.descriptor.rank:
            raise TracingError(f"position {position} is not one of 0 to {self.descriptor.rank}")
        return self._through(lambda below, size: below.insert(position, size(length)))

    @located
    def merge(self, *dims: int) -> "View":
        """One dimension over several, the last of them the fastest, in the place of the first."""
        if not dims:
            raise TracingError("merge takes the dimensions that become one")
        return self._through(lambda below, size: below.merge(dims))

    @located
    def unmerge(self, dim: int, lengths: Sequence[Amount]) -> "View":
        """A dimension taken apart into several of these lengths, the last of them the fastest."""
        return self._through(lambda below, size: below.unmerge(dim, [size(length) for length in lengths]))

    @located
    def embed(self, dim: int, lengths: Sequence[Amount], strides: Sequence[Amount], *, few: int = 0) -> "View":
        """A dimension seen through several at any strides, also overlapping: the windows of a convolution.

        `few`: the dimension is padded left, then right, and seen through positions and places of a window, which has 31
        places at most in all its dimensions (1) or in each (2), 8192 apart at most. Which of them exist is then found
        out once for a position.
        """
        length = self._length(dim)
        if few and not _is_padded(self.descriptor, self.descriptor.tops[dim]):
            raise TracingError(f"dimension {dim}: few places are seen of one that pad_left, then pad_right made")
        if isinstance(length, int) and all(isinstance(one, int) for one in (*lengths, *strides)):
            last = sum((count - 1) * stride for count, stride in zip(lengths, strides) if count > 0 and stride > 0)
            if last >= length > 0:
                raise TracingError(f"the last index of these lengths and strides is {last}, beyond [0, {length})")
        return self._through(
            lambda below, size: below.apply(
                Embed(tuple(map(size, lengths)), tuple(size(stride, signed=True) for stride in strides), int(few)),
                (dim,),
            )
        )

    @located
    def reverse(self, dim: int) -> "View":
        """A dimension from its end to its beginning; pad it where a window may reach past its last index."""
        return self._through(lambda below, size: below.reverse(dim))

    @located
    def modulo(self, dim: int, length: Amount) -> "View":
        """A dimension of `length` indices that wrap around: a ring buffer."""
        if isinstance(length, int) and length < 1:
            raise TracingError(f"indices wrap around at a length of at least 1, not {length}")
        return self._through(lambda below, size: below.modulo(dim, size(length)))

    @located
    def permute(self, *order: int) -> "View":
        """The dimensions in another order: new dimension i is the old dimension `order[i]`."""
        return self._through(lambda below, size: below.permute(order))

    def _length(self, dim: int) -> Size:
        """The length of a dimension; TracingError where there is none."""
        if not 0 <= dim < self.descriptor.rank:
            raise TracingError(f"there is no dimension {dim}; a view of {self.descriptor.rank} counts them from 0")
        return self.descriptor.lengths[dim]

    def _through(self, transform: Callable[[Descriptor, "_Sizes"], Descriptor]) -> "View":
        sizes = _Sizes(self.dynamic)
        return View(self.pointer, transform(self.descriptor, sizes), sizes.dynamic)

    @located
    def window(self, lengths: Sequence[int], origin: Sequence[Amount], *, moves_buffer: bool = False) -> "Window":
        """A rectangle of static lengths at an origin given in elements.

        With `moves_buffer` the buffer of loads begins where a loop moves the window to. Rows behind the view's last one
        then lie beyond the buffer's end, and no lane compares them, for a few scalar instructions a step.

        Raises:
            TracingError: not one length and one origin for each dimension of the view.
        """
        rank = self.descriptor.rank
        if len(lengths) != rank or len(origin) != rank:
            raise TracingError(
                f"a view of {rank} dimensions takes as many lengths and origins, not {len(lengths)} and {len(origin)}"
            )
        if min(lengths) < 1:
            raise TracingError(f"a window has lengths of at least 1, not {list(lengths)}")
        view = dialect_views.view(
            self.pointer.value, self.descriptor, self.pointer.element, [size.value for size in self.dynamic]
        )
        return Window(
            dialect_views.window(view, lengths, [_i32(start) for start in origin], moves_buffer=moves_buffer),
            self.pointer.element,
            tuple(lengths),
        )


class Window(Traced):
    """A rectangle of a view."""

    def __init__(self, value: ir.Value, element: ir.Type, lengths: tuple[int, ...]) -> None:
        super().__init__(value)
        self.element = element
        self.lengths = lengths

    @located
    def moved(self, *steps: Amount) -> "Window":
        """The window so many elements further on along each dimension, such as by a loop's index.

        A window is not a value that a loop can carry: move it by the index, `window.moved(0, step.index)`.

        Raises:
            TracingError: not one step for each dimension.
        """
        if len(steps) != len(self.lengths):
            raise TracingError(f"a window of {len(self.lengths)} dimensions moves by as many steps, not {len(steps)}")
        moved = dialect_views.move_window(self.value, [_i32(step) for step in steps])
        return Window(moved, self.element, self.lengths)


ALWAYS_ZERO = 1 << 16
"""What divides a run-time amount that is always 0, as far as accesses are concerned."""


class _Sizes:
    """Turns amounts into sizes of a descriptor: a run-time amount becomes the next run-time value of the view."""

    def __init__(self, dynamic: Sequence[Scalar] = ()) -> None:
        self.dynamic = list(dynamic)

    def __call__(self, amount: Amount, *, signed: bool = False) -> Size:
        """Raises TracingError for a number that no 32-bit size is, and a run-time value that is not an i32."""
        if isinstance(amount, int):
            if not (-MOST if signed else 0) <= amount < MOST:
                raise TracingError(f"{amount} is not a length or distance: those are 0 to 2^31 - 1 elements")
            return amount
        if name_of(amount.type) != "i32":
            raise TracingError(f"lengths, strides and distances are i32, not {amount.type}; convert with .to('i32')")
        self.dynamic.append(amount)
        return Symbol(len(self.dynamic) - 1, amount.multiple or ALWAYS_ZERO)


def _i32(amount: Amount) -> ir.Value:
    return as_scalar(amount, ir.IntegerType.get_signless(32)).value


@located
def view(pointer: Pointer, lengths: Sequence[Amount], strides: Sequence[Amount]) -> View:
    """A tensor of run-time or static lengths and strides (in elements) at a pointer.

    What is known to divide a stride or length (`Scalar.multiple`) decides how wide its accesses may be.
    """
    if not lengths or len(lengths) != len(strides):
        raise TracingError(
            f"a view has a length and a stride for each dimension, not {len(lengths)} and {len(strides)}"
        )
    size = _Sizes()
    alignment = max(pointer.alignment * 8 // bits(pointer.element), 1)
    descriptor = Descriptor.naive([size(length) for length in lengths], [size(stride) for stride in strides], alignment)
    return View(pointer, descriptor, size.dynamic)


def _is_padded(descriptor: Descriptor, dimension: int) -> bool:
    """Whether a dimension has been padded left, then right; behind that it may begin later."""
    made = {step.uppers[0]: step for step in descriptor.steps if len(step.uppers) == 1}
    right = made.get(dimension)
    if right and isinstance(right.transform, Offset):
        right = made.get(right.lowers[0])
    left = made.get(right.lowers[0]) if right and isinstance(right.transform, RightPad) else None
    return left is not None and isinstance(left.transform, LeftPad)


@located
def load(window: Window, distribution: Distribution | None = None, *, invariant: bool = False) -> Tile:
    """A window's elements; without a distribution, the one that its accesses or its users ask for is inferred.

    `invariant` promises that the kernel does not change them, as is promised of what `Pointer.scalar` reads. Where
    arrays are found by pointers in memory, nothing else says that waves that read the same have the same.
    """
    tile = TileType(window.lengths, window.element, distribution)
    return Tile(memory.load(window.value, tile, invariant=invariant))


@located
def store(tile: Tile, window: Window) -> None:
    """Store a tile into a window; elements outside the view are dropped."""
    memory.store(tile.value, window.value)


@located
def gather(
    window: Window, indices: Tile, axis: int, distribution: Distribution | None = None, reach: str | None = None
) -> Tile:
    """A window's elements, with the coordinate along `axis` taken from a tile of i32, one for each entry of the axis.

    Indices are counted from the window's origin there. A negative one, or one beyond the view, gives zeros.

    `reach` says how far what is indexed may lie behind the view's pointer. "near": within 2 GiB, with offsets of 32
    bits into a buffer. "far": anywhere, with an address of 64 bits and a branch for each access. Without it the
    compiler takes "near" for a view whose lengths and strides are known to be that small, else "far". "near" for any
    other view is a promise, which a checked run tests (checker `promise`). "close" is "near", and promises that what
    an index comes to lies in the view, or behind it and within 4 GiB of its pointer; then no lane compares its index.

    Raises:
        TracingError: another reach.
    """
    tile = TileType(window.lengths, window.element, distribution)
    return Tile(memory.gather(window.value, indices.value, axis, tile, _reach(reach)))


def _reach(reach: str | None) -> str | None:
    if reach not in (None, *REACHES):
        quoted = ", ".join(f'"{one}"' for one in REACHES)
        raise TracingError(f'reach "{reach}": expected {quoted} or nothing')
    return reach


@located
def inside(window: Window, distribution: Distribution | None = None) -> Tile:
    """Whether each of a window's elements exists in its view (i1): what a load would not fill up with zero."""
    return Tile(memory.inside(window.value, TileType(window.lengths, dtype("i1"), distribution)))


@located
def offsets(window: Window, distribution: Distribution | None = None) -> Tile:
    """How many elements behind the pointer each of a window's elements lies (i32, below 2^31)."""
    return Tile(memory.offsets(window.value, TileType(window.lengths, dtype("i32"), distribution)))


@located
def scatter(tile: Tile, window: Window, indices: Tile, axis: int, reach: str | None = None) -> None:
    """Store a tile with the coordinate along `axis` taken from a tile of i32, the counterpart of `gather`.

    What has a negative index, or one beyond the view, is dropped. Of entries with one index any may remain. `reach` is
    that of `gather`.

    Raises:
        TracingError: another reach.
    """
    memory.scatter(tile.value, window.value, indices.value, axis, _reach(reach))


@located
def scatter_add(tile: Tile, window: Window, indices: Tile, axis: int) -> None:
    """`atomic_add` with the coordinate along `axis` taken from a tile of i32; entries with one index are all added.

    What has a negative index, or one beyond the view, is dropped.
    """
    memory.atomic_scatter(tile.value, window.value, indices.value, axis, "add")


@located
def scatter_max(tile: Tile, window: Window, indices: Tile, axis: int) -> None:
    """`atomic_max` with the coordinate along `axis` taken from a tile of i32; of entries with one index the largest
    counts. What has a negative index, or one beyond the view, is dropped.
    """
    memory.atomic_scatter(tile.value, window.value, indices.value, axis, "max")


@located
def atomic_add(tile: Tile, window: Window) -> None:
    """Add a tile to a window's memory, each element atomically (device-wide, in no particular order).

    f32, f64, i32; f16 and bf16 in pairs of neighbours. Elements outside the view are dropped. A chip that lacks the
    instruction is a diagnostic (gfx90a has none for bf16).
    """
    memory.atomic_update(tile.value, window.value, "add")


@located
def fetch_add(tile: Tile, window: Window, indices: Tile | None = None, axis: int = 0) -> Tile:
    """`atomic_add`, or with indices `scatter_add`, that gives what memory held before: of every element its own.

    Elements that are dropped give zero. What other threads add comes before or after; of entries with one index each
    learns of those before it, in no particular order: so a counter deals out places or pieces of work.

    Raises:
        TracingError: the kernel's threads hold elements several times; only one of them could learn what was there.
    """
    return _fetched(tile, window, indices, axis, "add")


@located
def fetch_max(tile: Tile, window: Window, indices: Tile | None = None, axis: int = 0) -> Tile:
    """`atomic_max`, or with indices `scatter_max`, that gives what memory held before, as `fetch_add` does."""
    return _fetched(tile, window, indices, axis, "max")


def _fetched(tile: Tile, window: Window, indices: Tile | None, axis: int, kind: str) -> Tile:
    if indices is None:
        return Tile(memory.fetch_update(tile.value, window.value, kind))
    return Tile(memory.fetch_scatter(tile.value, window.value, indices.value, axis, kind))


@located
def atomic_max(tile: Tile, window: Window) -> None:
    """Raise a window's memory to a tile's elements where those are larger, each element atomically.

    f32, f64, i32. Elements outside the view are dropped. Whether a NaN of f32 is stored depends on its sign.
    """
    memory.atomic_update(tile.value, window.value, "max")
