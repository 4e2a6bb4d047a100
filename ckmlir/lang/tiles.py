"""Functions of tiles: creation, element-wise mathematics, reductions, LDS and matrix multiplication."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

from ckmlir.dialect import compute, lds_indexed, memory
from ckmlir.dialect.build import value
from ckmlir.dialect.cut import cut as append_cut
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.dialect.rescale import rescale as append_rescale
from ckmlir.dialect.scalars import bits, is_float
from ckmlir.dialect.types import LdsType, TileType, describe
from ckmlir.given import described
from ckmlir.lang.arithmetic import Number, constant, dtype, emit_compare, emit_float
from ckmlir.lang.operators import Operators
from ckmlir.lang.trace import Traced, TracingError, located
from ckmlir.lang.values import (
    Scalar,
    Stretched,
    Tile,
    as_scalar,
    build_map,
    check_same_shape,
    map_elements,
    operand_value,
)
from ckmlir.lang.views import Window
from ckmlir.mlir import ir


@located
def full(
    lengths: Sequence[int], number: Number | bool | Scalar, name: str, distribution: Distribution | None = None
) -> Tile:
    """A tile of equal elements of a dtype: a number, or a scalar of that type."""
    return Tile(compute.splat(as_scalar(number, dtype(name)).value, lengths, distribution))


@located
def splat_like(like: Tile, number: Number | bool, name: str) -> Tile:
    """A tile of equal elements of a dtype that lies as another one does."""
    return map_elements(lambda _: as_scalar(number, dtype(name)).value, like)


@located
def zeros(lengths: Sequence[int], name: str, distribution: Distribution | None = None) -> Tile:
    """A tile of zeros."""
    return full(lengths, 0, name, distribution)


@located
def coordinates(like: Tile, axis: int) -> Tile:
    """Each element's own coordinate along an axis (i32), for masks."""
    shape = like.type
    return Tile(compute.coordinates(shape.lengths, shape.distribution, axis))


@located
def cast(tile: Tile, name: str, *, bounded: bool = False) -> Tile:
    """Converted to a dtype, rounded to nearest even; integers and 8-bit floats saturate, and a NaN becomes the
    integer 0. A condition that holds is 1, and so is a number that is not 0 where a condition is asked for.

    Integers become f16, bf16 and 8-bit floats by way of f32, so that those of more than 24 bits are rounded twice. f64
    does not become 8-bit floats: cast it to f32 first.

    `bounded` is a promise about f32 elements: each is NaN or of a magnitude below 2^100, and what is below 2^-126 may
    become zero. Chips without conversions to bf16 then take 1.5 instructions an element instead of 7; NaN stays NaN.
    Of what becomes an 8-bit float it also promises that no element is larger than the largest finite one: then it takes
    .5 instead of 4.5.
    """
    element = dtype(name)
    if element == tile.element:
        return tile
    if str(tile.element) == "i1":
        return where(tile, splat_like(tile, 1, name), 0)
    if str(element) == "i1":
        return map_elements(lambda item: emit_compare("!=", item, constant(0, item.type)), tile)
    return Tile(compute.cast(tile.value, element, bounded=bounded))


@located
def where(condition: Tile | Stretched | Scalar, yes: Any, no: Any) -> Tile:
    """Element-wise choice; `yes` and `no` may be tiles, also stretched ones, scalars or numbers, at least one of them a
    tile. The condition is a comparison of tiles, or of scalars for all elements alike."""
    shape = next((item for item in (yes, no) if isinstance(item, Tile)), None)
    if shape is None:
        raise TracingError("where needs a tile as one of its two values")
    found = condition.type if isinstance(condition, Scalar) else condition.element
    if str(found) != "i1":
        raise TracingError(f"where takes a condition, such as a < b, not {described(condition)} of {found}")
    check_same_shape([item for item in (shape, condition, yes, no) if isinstance(item, Tile)])
    for item in (yes, no):
        if isinstance(item, Operators) and (own := _element(item)) != shape.element:
            raise TracingError(f"where meets {shape.element} and {own}; cast one to the other's type")

    def select(test: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        return value("arith.select", left.type, [test, left, right])

    inputs = [operand_value(item, shape, shape.element) for item in (condition, yes, no)]
    known = condition if isinstance(condition, Tile) and condition.type.distribution is not None else shape
    return Tile(
        build_map(select, inputs, TileType(shape.lengths, shape.element, known.type.distribution), shape.element)
    )


def _element(item: Any) -> ir.Type:
    return item.type if isinstance(item, Scalar) else item.element


Element = TypeVar("Element", Tile, Scalar)


def _unary(name: str, operation: str, *, exact: bool) -> Callable[[Element], Element]:
    def apply(element: ir.Value) -> ir.Value:
        return emit_float(name, operation, element, exact=exact)

    def function(tile: Element) -> Element:
        found: Element = tile._apply(apply)
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{operation}` on every element of a tile, or on a scalar{'' if exact else ', f32 only'}."
    return located(function)


exp2 = _unary("exp2", "math.exp2", exact=False)
log2 = _unary("log2", "math.log2", exact=False)
sqrt = _unary("sqrt", "math.sqrt", exact=False)
rsqrt = _unary("rsqrt", "math.rsqrt", exact=False)
truncate = _unary("truncate", "math.trunc", exact=True)
floor = _unary("floor", "math.floor", exact=True)
ceil = _unary("ceil", "math.ceil", exact=True)
round_even = _unary("round_even", "math.roundeven", exact=True)


@located
def bitcast(tile: Element, name: str) -> Element:
    """The same bits as another dtype of the same width: f32 as i32, i32 as f32; of a tile's elements, or of a scalar.

    Raises:
        TracingError: the dtypes differ in width.
    """
    element, own = dtype(name), _element(tile)
    if bits(element) != bits(own):
        raise TracingError(f"{own} has {bits(own)} bits, {name} has {bits(element)}")
    found: Element = tile._apply(lambda item: value("arith.bitcast", element, [item]))
    return found


@located
def absolute(tile: Element) -> Element:
    """`abs` of every element of a tile, or of a scalar."""
    found: Element = abs(tile)
    return found


@located
def maximum(left: Any, right: Any) -> Any:
    """The larger of two elements, or of two scalars; a number beats NaN."""
    return _either("maximum", left, right)


@located
def minimum(left: Any, right: Any) -> Any:
    """The smaller of two elements, or of two scalars; a number beats NaN."""
    return _either("minimum", left, right)


def _either(symbol: str, left: Any, right: Any) -> Any:
    if isinstance(left, Operators):
        return left._binary(symbol, right)
    if isinstance(right, Operators):
        return right._binary(symbol, left, swapped=True)
    raise TracingError(f"{symbol} of {described(left)} and {described(right)}: one has to be a tile or a scalar")


@located
def uniform(tile: Tile) -> Scalar:
    """The only element of a tile (i1, i32, i64 or f32) as a scalar: for conditions, bounds and origins.

    Every lane of the workgroup holds such an element equally; it is read from the first.

    Raises:
        TracingError: the tile has more elements. A reduction leaves one; `slice_tile` takes one out; elements
            of another type.
    """
    if prod(tile.lengths) != 1:
        raise TracingError(f"uniform takes a tile of one element, not {list(tile.lengths)}: reduce it or slice one out")
    if str(tile.element) not in compute.UNIFORM:
        raise TracingError(f"scalars are {', '.join(compute.UNIFORM)}; the tile holds {tile.element}: cast it")
    return Scalar(compute.uniform(tile.value))


class LdsTensor(Traced):
    """A tile's contents in LDS."""

    @located
    def read(self, distribution: Distribution) -> Tile:
        """The tensor as a tile with the distribution asked for."""
        described = self._described
        return Tile(memory.from_lds(self.value, TileType(described.lengths, described.element, distribution)))

    @located
    def gather(self, indices: Tile, axis: int = 0, distribution: Distribution | None = None) -> Tile:
        """The tensor with the coordinate along `axis` taken from a tile of i32; zero where that lies outside.

        The tile has as many entries along the axis as there are indices.
        """
        described = self._described
        lengths = (*described.lengths[:axis], *indices.lengths, *described.lengths[axis + 1 :])
        tile = TileType(lengths, described.element, distribution)
        return Tile(lds_indexed.lds_gather(self.value, indices.value, axis, tile))

    @located
    def scatter(self, tile: Tile, indices: Tile, axis: int = 0) -> None:
        """Put entries of a tile where indices say along `axis`; of entries with one index any may remain.

        Entries whose index lies outside are dropped. The tensor is changed in place, as the program comes by; one that
        was made before a loop keeps what an iteration leaves for the next.
        """
        lds_indexed.lds_update(tile.value, self.value, indices.value, axis, "store")

    @located
    def scatter_add(self, tile: Tile, indices: Tile, axis: int = 0) -> None:
        """`scatter` that adds, i32 or f32; entries with one index are all added, f32 in no particular order."""
        lds_indexed.lds_update(tile.value, self.value, indices.value, axis, "add")

    @located
    def scatter_max(self, tile: Tile, indices: Tile, axis: int = 0) -> None:
        """`scatter` that keeps what is larger, i32 or f32; of entries with one index the largest counts."""
        lds_indexed.lds_update(tile.value, self.value, indices.value, axis, "max")

    @located
    def fetch_add(self, tile: Tile, indices: Tile, axis: int = 0) -> Tile:
        """`scatter_add` that gives what the tensor held before, of every entry its own; zero for those dropped.

        Of entries with one index each learns of those before it, in no particular order.
        """
        return Tile(lds_indexed.lds_fetch(tile.value, self.value, indices.value, axis, "add"))

    @located
    def fetch_max(self, tile: Tile, indices: Tile, axis: int = 0) -> Tile:
        """`scatter_max` that gives what the tensor held before, as `fetch_add` does."""
        return Tile(lds_indexed.lds_fetch(tile.value, self.value, indices.value, axis, "max"))

    @property
    def _described(self) -> LdsType:
        described = describe(self.value.type)
        assert isinstance(described, LdsType)
        return described


@located
def to_lds(tile: Tile, name: str = "") -> LdsTensor:
    """Put a tile into LDS; its layout there is chosen free of bank conflicts by the compiler.

    `name` is what schedules and reports call the tensor. A schedule may have a loaded tile that is given a name go to
    LDS without passing through registers, or to its reader without passing through LDS.
    """
    return LdsTensor(memory.to_lds(tile.value, name))


@located
def copy_to_lds(window: Window, indices: Tile | None = None, axis: int = 0) -> LdsTensor:
    """Copy a window to LDS without passing through registers; what is outside the view becomes zero.

    Rows must be contiguous in memory, in aligned pieces of 4 bytes (gfx950: 16 bytes where possible), and a row must be
    a power of two of them, or a multiple of 64. Readers wait for the copy by themselves; a schedule may run it ahead.

    With indices, a tile of i32, entry i along the axis is what lies at `indices[i]`, as in `gather`; rows do not lie
    along it, and that the view ends within 2 GiB is promised where it is not known (`reach="near"`).
    """
    if indices is None:
        return LdsTensor(memory.copy_to_lds(window.value))
    return LdsTensor(memory.copy_to_lds(window.value, "", indices.value, axis))


@located
def mma(
    instruction: Mma, a: Tile, b: Tile, c: Tile, scales: tuple[Tile, Tile] | None = None, index: Tile | None = None
) -> Tile:
    """a (m, k) · b (n, k)ᵀ + c (m, n) by a matrix instruction.

    With `scales`, e8m0 tiles (m, k / 32) and (n, k / 32), every 32 elements along K of a and b are multiplied by them
    first, where the instruction can do so (`dialect.mma_scales.scales_over` says how the tiles lie). With `index`, an
    i8 tile (m, k / 8), a is (m, k / 2): the two of every four elements along K that it names, by a sparse instruction
    (`dialect.mma_index`).
    """
    beside = [one.value for one in scales or ()], [index.value] if index is not None else []
    return Tile(compute.mma(instruction, a.value, b.value, c.value, *beside))


@located
def rescale(tile: Tile, factors: Tile) -> Tile:
    """Rows (f32) times a factor each. Waves whose factors are all 1 branch around the multiplications, so that they
    cost next to nothing where most of the time nothing changes.

    Raises:
        TracingError: the tile has not two dimensions, there are not as many factors as rows, or elements are not f32.
    """
    shape, own = tile.type, factors.type
    if len(shape.lengths) != 2 or own.lengths != shape.lengths[:1]:
        raise TracingError(
            f"rescale takes a tile of rows and a factor for each, not {list(shape.lengths)} and {list(own.lengths)}"
        )
    for one in (shape, own):
        if str(one.element) != "f32":
            raise TracingError(f"rescale takes f32, not {one.element}: cast it")
    return Tile(append_rescale(tile.value, factors.value))


@located
def cut(tile: Tile, bounds: Tile, other: float, *, front: bool = False) -> Tile:
    """Rows of a floating-point type with a bound (i32) each, in columns of the tile: what lies at it and behind becomes
    `other`; with `front` what lies before it. Waves in which nothing is cut branch around the selections, so that they
    cost next to nothing where that is rare.

    Raises:
        TracingError: the tile has not two dimensions, there are not as many bounds as rows, or types are others.
    """
    shape, own = tile.type, bounds.type
    if len(shape.lengths) != 2 or own.lengths != shape.lengths[:1]:
        raise TracingError(
            f"cut takes a tile of rows and a bound for each, not {list(shape.lengths)} and {list(own.lengths)}"
        )
    if not is_float(shape.element) or str(own.element) != "i32":
        what = f"{shape.element} and {own.element}"
        raise TracingError(f"cut takes a floating-point type and bounds in i32, not {what}: cast them")
    return Tile(append_cut(tile.value, bounds.value, other, front=front))


@located
def redistribute(tile: Tile, distribution: Distribution) -> Tile:
    """The same tensor under another distribution."""
    return Tile(compute.redistribute(tile.value, distribution))


@located
def slice_tile(tile: Tile, axis: int, start: int, length: int) -> Tile:
    """Elements [start, start + length) of an axis; the bounds must fall between whole register blocks of the tile."""
    shape = tile.type
    lengths = (*shape.lengths[:axis], length, *shape.lengths[axis + 1 :])
    part = None if shape.distribution is None else shape.distribution.slice(axis, start, length)[0]
    return Tile(compute.slice_tile(tile.value, axis, start, TileType(lengths, shape.element, part)))


@located
def insert_tile(whole: Tile, part: Tile, axis: int, start: int) -> Tile:
    """`whole` with elements from `start` on along an axis replaced by `part`, the counterpart of `slice_tile`."""
    return Tile(compute.insert(part.value, whole.value, axis, start))
