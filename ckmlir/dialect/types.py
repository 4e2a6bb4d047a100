"""Types of the ck dialect, and the plain Python objects that describe them.

| type | a value is | description |
|---|---|---|
| `!ck.view<element, space, descriptor>` | a pointer with a tensor descriptor | `ViewType` |
| `!ck.window<element, space, descriptor, lengths>` | a view with an origin and static lengths | `WindowType` |
| `!ck.tile<lengths, element, distribution>` | a tensor spread over the registers of a workgroup | `TileType` |
| `!ck.lds<lengths, element>` | a tensor in LDS | `LdsType` |

The descriptor and the distribution are parameters in their own one-line notations (`Descriptor`, `Distribution`), so
that printed IR can be read. A tile whose distribution is still to be inferred carries `"?"`.
"""

import threading
from typing import Any

from msgspec import Struct

from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.dialect import Ck
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.scalars import bits
from ckmlir.mlir import ir

SPACES = {"global": 1, "lds": 3}
UNKNOWN_DISTRIBUTION = "?"


class View(Ck.Type, name="view"):
    element: Any
    space: Any
    descriptor: Any


class Window(Ck.Type, name="window"):
    element: Any
    space: Any
    descriptor: Any
    lengths: Any


class Tile(Ck.Type, name="tile"):
    lengths: Any
    element: Any
    distribution: Any


class Lds(Ck.Type, name="lds"):
    lengths: Any
    element: Any


class ViewType(Struct, frozen=True):
    """A `!ck.view`: element type, address space name and descriptor."""

    element: ir.Type
    space: str
    descriptor: Descriptor

    def mlir(self) -> ir.Type:
        return View.get(self.element, ir.StringAttr.get(self.space), ir.StringAttr.get(str(self.descriptor)))


class WindowType(Struct, frozen=True):
    """A `!ck.window`: a view's parameters and the static lengths of the window, one a dimension of the view."""

    element: ir.Type
    space: str
    descriptor: Descriptor
    lengths: tuple[int, ...]

    def mlir(self) -> ir.Type:
        return Window.get(
            self.element,
            ir.StringAttr.get(self.space),
            ir.StringAttr.get(str(self.descriptor)),
            lengths_attribute(self.lengths),
        )


class TileType(Struct, frozen=True):
    """A `!ck.tile`: static lengths, element type and distribution (None: still to be inferred)."""

    lengths: tuple[int, ...]
    element: ir.Type
    distribution: Distribution | None

    def mlir(self) -> ir.Type:
        """The type. Raises ValueError where the distribution is of other lengths."""
        key = (self.lengths, self.element, self.distribution)
        found = _thread.tiles.get(key)
        if found is None:
            found = _thread.tiles[key] = self._made()
        return found

    def _made(self) -> ir.Type:
        text = UNKNOWN_DISTRIBUTION if self.distribution is None else str(self.distribution)
        if self.distribution is not None and tuple(self.distribution.lengths) != self.lengths:
            raise ValueError(_other_lengths(self.distribution, self.lengths))
        return Tile.get(lengths_attribute(self.lengths), self.element, ir.StringAttr.get(text))

    def agrees(self, other: "TileType") -> bool:
        """Whether two tiles may meet element by element: one distribution, or one not known yet."""
        return self.distribution is None or other.distribution is None or self.distribution == other.distribution

    @property
    def placed(self) -> Distribution:
        """The distribution, where inference has run."""
        if self.distribution is None:
            raise ValueError(
                f"the distribution of a {list(self.lengths)} tile is not known yet; run ck-infer-distributions first"
            )
        return self.distribution


class LdsType(Struct, frozen=True):
    """A `!ck.lds`: a tensor in LDS of static lengths; where its bytes lie is decided by ck-allocate-lds."""

    lengths: tuple[int, ...]
    element: ir.Type

    def mlir(self) -> ir.Type:
        return Lds.get(lengths_attribute(self.lengths), self.element)


TypeDescription = ViewType | WindowType | TileType | LdsType


def lengths_attribute(lengths: tuple[int, ...]) -> ir.Attribute:
    """Lengths as `[128, 64]`."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, length) for length in lengths])


def _lengths(attribute: ir.Attribute) -> tuple[int, ...]:
    if not isinstance(attribute, ir.ArrayAttr):
        raise ValueError(f"lengths are written [128, 64], not {attribute}")
    values = []
    for item in attribute:
        if not isinstance(item, ir.IntegerAttr):
            raise ValueError(f"lengths are integers, not {item}")
        values.append(int(item.value))
    if not values or min(values) < 1:
        raise ValueError(f"lengths must be positive, not {attribute}")
    return tuple(values)


def _element(attribute: ir.Attribute) -> ir.Type:
    if not isinstance(attribute, ir.TypeAttr):
        raise ValueError(f"the element must be a type, not {attribute}")
    bits(attribute.value)  # ValueError for what is not an element type
    return attribute.value


def _stored(attribute: ir.Attribute) -> ir.Type:
    """An element type that memory can hold."""
    element = _element(attribute)
    if bits(element) % 8:
        raise ValueError(f"memory holds elements of whole bytes, not {element}")
    return element


def _text(attribute: ir.Attribute, what: str) -> str:
    if not isinstance(attribute, ir.StringAttr):
        raise ValueError(f"the {what} must be a string, not {attribute}")
    return str(attribute.value)


def _space(attribute: ir.Attribute) -> str:
    name = _text(attribute, "address space")
    if name not in SPACES:
        raise ValueError(f"unknown address space '{name}'; it is one of {', '.join(SPACES)}")
    return name


def _other_lengths(distribution: Distribution, lengths: tuple[int, ...]) -> str:
    return f"the distribution covers {list(distribution.lengths)}, the tile has {list(lengths)}"


def _describe(type_: ir.Type) -> TypeDescription:
    parameters = [parameter.maybe_downcast() for parameter in type_.params]
    if isinstance(type_, Tile):
        text = _text(parameters[2], "distribution")
        distribution = None if text == UNKNOWN_DISTRIBUTION else Distribution.parse(text)
        tile = TileType(_lengths(parameters[0]), _element(parameters[1]), distribution)
        if distribution is not None and tuple(distribution.lengths) != tile.lengths:
            raise ValueError(_other_lengths(distribution, tile.lengths))
        return tile
    if isinstance(type_, Lds):
        return LdsType(_lengths(parameters[0]), _stored(parameters[1]))
    element, space = _stored(parameters[0]), _space(parameters[1])
    descriptor = Descriptor.parse(_text(parameters[2], "descriptor"))
    if isinstance(type_, View):
        return ViewType(element, space, descriptor)
    window = WindowType(element, space, descriptor, _lengths(parameters[3]))
    if len(window.lengths) != len(descriptor.lengths):
        raise ValueError(f"a window of {len(window.lengths)} dimensions over a view of {len(descriptor.lengths)}")
    return window


class _Thread(threading.local):
    """A thread's own, so that it ends with the thread's context: types keep their contexts alive."""

    def __init__(self) -> None:
        self.descriptions: dict[Any, TypeDescription] = {}
        self.tiles: dict[Any, ir.Type] = {}
        """By what they are made of: an element type belongs to a context, and so does the key."""


_thread = _Thread()


def describe(type_: ir.Type) -> TypeDescription:
    """The description of a ck type (cached: parsing notations is the dear part).

    Raises:
        ValueError: a parameter is malformed; the text says which and what would be right.
    """
    descriptions = _thread.descriptions
    found = descriptions.get(type_)
    if found is None:
        found = descriptions[type_] = _describe(type_.maybe_downcast())
    return found


def tile_of(value: ir.Value) -> TileType:
    """The description of a tile value; TypeError for anything else."""
    type_ = value.type
    description = _thread.descriptions.get(type_)
    if description is None and is_ck(type_):
        description = describe(type_)
    if not isinstance(description, TileType):
        raise TypeError(f"expected a tile, got {type_}")
    return description


def is_ck(type_: ir.Type) -> bool:
    """Whether the type belongs to this dialect."""
    return isinstance(type_, (Tile, Lds, Window, View)) or isinstance(type_.maybe_downcast(), (Tile, Lds, Window, View))


def is_lds(type_: ir.Type) -> bool:
    """Whether the type is a `!ck.lds`."""
    return isinstance(type_, Lds) or isinstance(type_.maybe_downcast(), Lds)


def is_tile(type_: ir.Type) -> bool:
    """Whether the type is a `!ck.tile`."""
    return isinstance(type_, Tile) or isinstance(type_.maybe_downcast(), Tile)
