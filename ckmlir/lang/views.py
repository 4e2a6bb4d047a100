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
from ckmlir.dialect.padding import LeftPad
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.symbols import Size, Symbol
from ckmlir.dialect.transforms import Embed
from ckmlir.dialect.types import TileType
from ckmlir.lang.arithmetic import dtype
from ckmlir.lang.trace import located
from ckmlir.lang.values import Pointer, Scalar, Tile, as_scalar
from ckmlir.mlir import ir

Amount = Scalar | int
"""A length, stride or distance: a number, or a run-time i32."""


class View:
    """A pointer with a descriptor. Every method returns a new view; the run-time values go along.

    Dimensions are counted from 0. A bad dimension or a length that does not fit raises ValueError.
    """

    def __init__(self, pointer: Pointer, descriptor: Descriptor, dynamic: Sequence[Scalar]) -> None:
        self.pointer = pointer
        self.descriptor = descriptor
        self.dynamic = tuple(dynamic)

    def pad(self, *lengths: int) -> "View":
        """Each dimension padded to a multiple of a tile's length: reads beyond the tensor give zero, writes
        are dropped.
        """
        return self._through(lambda below, size: below.right_pad_to_multiple(lengths))

    def pad_left(self, dim: int, amount: Amount) -> "View":
        """`amount` more indices before the first of a dimension, without elements."""
        return self._through(lambda below, size: below.apply(LeftPad(below.lengths[dim], size(amount)), (dim,)))

    def pad_right(self, dim: int, amount: Amount) -> "View":
        """`amount` more indices behind the last of a dimension, without elements."""
        return self._through(lambda below, size: below.right_pad(dim, size(amount)))

    def slice(self, dim: int, begin: Amount, end: Amount) -> "View":
        """Indices `begin` up to, not including, `end` of a dimension; pad it where a window may reach past `end`."""
        return self._through(lambda below, size: below.slice(dim, size(begin), size(end)))

    def offset(self, dim: int, amount: Amount, length: Amount) -> "View":
        """A dimension of `length` that starts at `amount`."""
        return self._through(lambda below, size: below.offset_by(dim, size(amount), size(length)))

    def freeze(self, dim: int, index: Amount) -> "View":
        """A dimension fixed at one index; the view has one dimension less."""
        return self._through(lambda below, size: below.freeze(dim, size(index)))

    def insert(self, position: int, length: Amount) -> "View":
        """A new dimension at `position` along which every element repeats."""
        return self._through(lambda below, size: below.insert(position, size(length)))

    def merge(self, *dims: int) -> "View":
        """One dimension over several, the last of them the fastest, in the place of the first."""
        return self._through(lambda below, size: below.merge(dims))

    def unmerge(self, dim: int, lengths: Sequence[Amount]) -> "View":
        """A dimension taken apart into several of these lengths, the last of them the fastest."""
        return self._through(lambda below, size: below.unmerge(dim, [size(length) for length in lengths]))

    def embed(self, dim: int, lengths: Sequence[Amount], strides: Sequence[Amount]) -> "View":
        """A dimension seen through several at any strides, also overlapping: the windows of a convolution."""
        return self._through(
            lambda below, size: below.apply(Embed(tuple(map(size, lengths)), tuple(map(size, strides))), (dim,))
        )

    def modulo(self, dim: int, length: Amount) -> "View":
        """A dimension of `length` indices that wrap around: a ring buffer."""
        return self._through(lambda below, size: below.modulo(dim, size(length)))

    def permute(self, *order: int) -> "View":
        """The dimensions in another order: new dimension i is the old dimension `order[i]`."""
        return self._through(lambda below, size: below.permute(order))

    def _through(self, transform: Callable[[Descriptor, Callable[[Amount], Size]], Descriptor]) -> "View":
        sizes = _Sizes(self.dynamic)
        return View(self.pointer, transform(self.descriptor, sizes), sizes.dynamic)

    @located
    def window(self, lengths: Sequence[int], origin: Sequence[Amount]) -> "Window":
        """A rectangle of static lengths at an origin given in elements.

        Raises:
            ValueError: not one length and one origin for each dimension of the view.
        """
        rank = self.descriptor.rank
        if len(lengths) != rank or len(origin) != rank:
            raise ValueError(
                f"a view of {rank} dimensions takes as many lengths and origins, not {len(lengths)} and {len(origin)}"
            )
        view = dialect_views.view(
            self.pointer.value, self.descriptor, self.pointer.element, [size.value for size in self.dynamic]
        )
        return Window(
            dialect_views.window(view, lengths, [_i32(start) for start in origin]), self.pointer.element, tuple(lengths)
        )


class Window:
    """A rectangle of a view."""

    def __init__(self, value: ir.Value, element: ir.Type, lengths: tuple[int, ...]) -> None:
        self.value = value
        self.element = element
        self.lengths = lengths

    @located
    def moved(self, *steps: Amount) -> "Window":
        """The window so many elements further on along each dimension, such as by a loop's index.

        A window is no value that a loop can carry: move it by the index, `window.moved(0, step.index)`.

        Raises:
            ValueError: not one step for each dimension.
        """
        if len(steps) != len(self.lengths):
            raise ValueError(f"a window of {len(self.lengths)} dimensions moves by as many steps, not {len(steps)}")
        moved = dialect_views.move_window(self.value, [_i32(step) for step in steps])
        return Window(moved, self.element, self.lengths)


class _Sizes:
    """Turns amounts into sizes of a descriptor: a run-time amount becomes the next run-time value of the view."""

    def __init__(self, dynamic: Sequence[Scalar] = ()) -> None:
        self.dynamic = list(dynamic)

    def __call__(self, amount: Amount) -> Size:
        if isinstance(amount, int):
            return amount
        self.dynamic.append(amount)
        return Symbol(len(self.dynamic) - 1, amount.multiple)


def _i32(amount: Amount) -> ir.Value:
    return as_scalar(amount, ir.IntegerType.get_signless(32)).value


def view(pointer: Pointer, lengths: Sequence[Amount], strides: Sequence[Amount]) -> View:
    """A tensor of run-time or static lengths and strides (in elements) at a pointer.

    What is known of a stride's divisors (`Scalar.multiple_of`) decides how wide its accesses may be.
    """
    size = _Sizes()
    alignment = max(pointer.alignment * 8 // bits(pointer.element), 1)
    descriptor = Descriptor.naive([size(length) for length in lengths], [size(stride) for stride in strides], alignment)
    return View(pointer, descriptor, size.dynamic)


@located
def load(window: Window, distribution: Distribution | None = None) -> Tile:
    """A window's elements; without a distribution, the one that its accesses or its users ask for is inferred."""
    return Tile(memory.load(window.value, TileType(window.lengths, window.element, distribution)))


@located
def store(tile: Tile, window: Window) -> None:
    """Store a tile into a window; elements outside the view are dropped."""
    memory.store(tile.value, window.value)


@located
def gather(window: Window, indices: Tile, axis: int, distribution: Distribution | None = None) -> Tile:
    """A window's elements, with the coordinate along `axis` taken from a tile of i32, one for each entry of the axis.

    Indices are counted from the window's origin there. A negative one, or one beyond the view, gives zeros. What is
    indexed lies within 2 GiB of the window's origin.
    """
    tile = TileType(window.lengths, window.element, distribution)
    return Tile(memory.gather(window.value, indices.value, axis, tile))


@located
def inside(window: Window, distribution: Distribution | None = None) -> Tile:
    """Whether each of a window's elements exists in its view (i1): what a load would not fill up with zero."""
    return Tile(memory.inside(window.value, TileType(window.lengths, dtype("i1"), distribution)))


@located
def offsets(window: Window, distribution: Distribution | None = None) -> Tile:
    """How many elements behind the pointer each of a window's elements lies (i32, below 2^31)."""
    return Tile(memory.offsets(window.value, TileType(window.lengths, dtype("i32"), distribution)))


@located
def scatter(tile: Tile, window: Window, indices: Tile, axis: int) -> None:
    """Store a tile with the coordinate along `axis` taken from a tile of i32, the counterpart of `gather`.

    What has a negative index, or one beyond the view, is dropped. Of entries with one index any may remain.
    """
    memory.scatter(tile.value, window.value, indices.value, axis)


@located
def atomic_add(tile: Tile, window: Window) -> None:
    """Add a tile to a window's memory, each element atomically (device-wide, in no particular order).

    f32, f64, i32; f16 and bf16 in pairs of neighbours. Elements outside the view are dropped. A chip that lacks the
    instruction is a diagnostic (gfx90a has none for bf16).
    """
    memory.atomic_update(tile.value, window.value, "add")


@located
def atomic_max(tile: Tile, window: Window) -> None:
    """Raise a window's memory to a tile's elements where those are larger, each element atomically.

    f32, f64, i32. Elements outside the view are dropped. Whether a NaN of f32 is stored depends on its sign.
    """
    memory.atomic_update(tile.value, window.value, "max")
