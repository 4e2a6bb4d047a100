"""Tensor descriptors: from the index of an element to its offset in memory, in elements.

A descriptor is an `Adaptor` with one bottom dimension, the offset, and an alignment of the pointer it will be used
with. Its printed form is one line that parses back to an equal descriptor, in the order of construction, from memory
up:

    d0 d1 = embed(offset, lengths=[?0, 8], strides=[?1%8, 1]); d2 = right_pad(d0, length=?0, multiple=64); view(d2, d1)

`?i` is the i-th run-time value of the view, `?i%n` one that is a multiple of n, `offset` the bottom dimension, and
`view` names the dimensions that the user sees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ckmlir.dialect.adaptor import Adaptor
from ckmlir.dialect.progression import Progression
from ckmlir.dialect.symbols import Size, Symbol, combine, divisor, parse_size, product, resolve, round_up
from ckmlir.dialect.transform_base import Transform
from ckmlir.dialect.transform_graph import Step
from ckmlir.dialect.transforms import TRANSFORMS, Embed, Offset, Unmerge
from ckmlir.records import hints_of


class Descriptor(Adaptor, frozen=True, dict=True):
    """An adaptor down to one offset in elements, over a pointer aligned to `alignment` elements."""

    alignment: int = 1

    @staticmethod
    def naive(lengths: Sequence[Size], strides: Sequence[Size], alignment: int = 1, offset: Size = 0) -> Descriptor:
        """Dimensions of `lengths` at `strides` (elements), the first element at `offset`.

        A run-time stride that is a `Symbol` with a multiple says how far rows keep the pointer's alignment.
        """
        embed = Embed(tuple(lengths), tuple(strides))
        return _start(alignment, offset, embed.lower_extent).apply(embed, (0,))

    @staticmethod
    def packed(lengths: Sequence[Size], alignment: int = 1, offset: Size = 0) -> Descriptor:
        """Dimensions of `lengths` without gaps, the last the fastest."""
        return _start(alignment, offset, product(lengths)).apply(Unmerge(tuple(lengths)), (0,))

    @staticmethod
    def aligned(lengths: Sequence[Size], align: int, alignment: int | None = None) -> Descriptor:
        """Like `packed`, with rows (the last dimension) that start at multiples of `align` elements."""
        if align < 1:
            raise ValueError(f"rows cannot be aligned to {align} elements")
        pitch: Size = round_up(lengths[-1], align)
        strides: list[Size] = [1]
        for length in reversed(lengths[1:]):
            strides.append(pitch if len(strides) == 1 else combine(strides[-1], "*", length))
        return Descriptor.naive(lengths, strides[::-1], align if alignment is None else alignment)

    def offset(self, index: Sequence[Any], symbols: Sequence[Any] = ()) -> Any:
        """The element offset of `index` from the pointer."""
        return self.lower(index, symbols)[0]

    @cached_property
    def extent(self) -> Size:
        """One more than the largest offset of a valid element, as a size."""
        for step in self.steps:
            if 0 in step.lowers:
                return step.transform.lower_extent
        raise ValueError("the descriptor has no transform over its offset")

    def element_space(self, symbols: Sequence[Any] = ()) -> Any:
        """Elements that the pointer must hold: one more than the largest offset of a valid element; 0 without one."""
        first = next(step.transform for step in self.steps if 0 in step.lowers)
        lengths = [resolve(length, symbols) for length in first.upper_lengths]
        if any(isinstance(length, int) and length == 0 for length in lengths):
            return 0
        return resolve(self.extent, symbols)

    def vector_length(self, dim: int, maximum: int) -> int:
        """The widest vector along top dimension `dim` that any access may use: a power of two, at most `maximum`.

        A vector of n elements that starts at an index divisible by n then has n consecutive offsets, the first
        divisible by n over a pointer aligned to n elements, and is valid as a whole or not at all. It also never
        passes the end of the dimension.

        Raises:
            ValueError: no such dimension, or `maximum` is not positive.
        """
        if not 0 <= dim < self.rank or maximum < 1:
            raise ValueError(f"a vector of at most {maximum} along dimension {dim} of {self.rank}")
        key = (dim, maximum)
        if key not in self._vector_lengths:
            count = 1 << (maximum.bit_length() - 1)
            while count > 1 and not self._holds_vector(dim, count):
                count //= 2
            self._vector_lengths[key] = count
        return self._vector_lengths[key]

    @cached_property
    def _vector_lengths(self) -> dict[tuple[int, int], int]:
        return {}

    def _holds_vector(self, dim: int, count: int) -> bool:
        if divisor(self.lengths[dim]) % count or self.alignment % count:
            return False
        index = [Progression(count, 1, count) if i == dim else Progression(1, 0, count) for i in range(self.rank)]
        symbols = self._any_symbols(count)
        offset = self.offset(index, symbols)
        if not isinstance(offset, Progression) or offset.step != 1 or offset.multiple % count:
            return False
        return bool(self.valid(index, symbols))

    def begins_contiguous(self, dim: int) -> bool:
        """Whether the first two elements along top dimension `dim` are known to be neighbours in memory."""
        index = [Progression(0 if i == dim else 1, int(i == dim), 2) for i in range(self.rank)]
        offset = self.offset(index, self._any_symbols(2))
        return isinstance(offset, Progression) and offset.step == 1

    def _any_symbols(self, count: int) -> list[Any]:
        """Run-time values of which no more is known than what divides them, along vectors of so many elements."""
        known = self.symbol_multiples
        return [
            _AnyTable(known.get(i, 1), count) if i in self.tables else Progression(known.get(i, 1), 0, count)
            for i in range(self.symbol_count)
        ]

    def __str__(self) -> str:
        return f"{'; '.join([*map(_step_text, self.steps), _view_text(self)])}"

    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> Descriptor:
        """The descriptor that `str` wrote as `text`; names of dimensions may be any words.

        Raises:
            ValueError: malformed text, an unknown transform or dimension; the message quotes the statement.
        """
        return _parse(text)


class _AnyTable(Struct, frozen=True):
    """A table of unknown entries that are multiples of `multiple`."""

    multiple: int
    count: int

    def __getitem__(self, index: Any) -> Progression:
        fixed = isinstance(index, int) or index.fixed
        return Progression(self.multiple, 0 if fixed else None, self.count)


def _start(alignment: int, offset: Size, length: Size) -> Descriptor:
    if alignment < 1:
        raise ValueError(f"a pointer cannot be aligned to {alignment} elements")
    start = Descriptor((None,), (), (0,), alignment)
    return start if offset == 0 else start.transform([Offset(length, offset)], [[0]], [[0]])


# -- text


def _name(dim: int) -> str:
    return f"d{dim - 1}" if dim else "offset"


def _field_text(value: Any) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


@lru_cache(maxsize=4096)
def _step_text(step: Step) -> str:
    arguments = [_name(dim) for dim in step.lowers]
    values = asdict(step.transform)
    defaults = step.transform.__struct_defaults__
    required = len(values) - len(defaults)
    for place, (name, value) in enumerate(values.items()):
        if place < required or value != defaults[place - required]:
            arguments.append(f"{name}={_field_text(value)}")
    uppers = " ".join(map(_name, step.uppers))
    return f"{uppers}{' ' if uppers else ''}= {step.transform.name}({', '.join(arguments)})"


def _view_text(descriptor: Descriptor) -> str:
    view = f"view({', '.join(map(_name, descriptor.tops))})"
    return view if descriptor.alignment == 1 else f"{view} align {descriptor.alignment}"


_STATEMENT = re.compile(r"(?P<uppers>[\w\s]*)=\s*(?P<name>\w+)\s*\((?P<arguments>.*)\)")
_VIEW = re.compile(r"view\s*\((?P<dims>[\w\s,]*)\)(?:\s*align\s+(?P<align>\d+))?")


def _parse(text: str) -> Descriptor:
    *statements, last = (part.strip() for part in text.split(";"))
    dims: dict[str, int] = {"offset": 0}
    steps: list[Step] = []
    lengths: list[Size | None] = [None]
    used: set[int] = set()
    for statement in statements:
        try:
            step = _parse_step(statement, dims, lengths)
        except ValueError as problem:
            raise ValueError(f"descriptor: in '{statement}': {problem}") from None
        again = used.intersection(step.lowers)
        if again:
            raise ValueError(f"descriptor: in '{statement}': a dimension may be used once only")
        used.update(step.lowers)
        steps.append(step)
    view = _VIEW.fullmatch(last)
    if view is None:
        raise ValueError(f"descriptor: '{last}': the last statement must be 'view(d0, d1, …)', optionally 'align n'")
    tops = tuple(_dimension(name.strip(), dims) for name in view["dims"].split(",") if name.strip())
    visible = set(range(len(lengths))) - used
    if set(tops) != visible or len(tops) != len(visible):
        names = sorted(name for name, dim in dims.items() if dim in visible)
        raise ValueError(f"descriptor: '{last}': the view must name each of {', '.join(names)} exactly once")
    return Descriptor((None,), tuple(steps), tops, int(view["align"] or 1))


def _dimension(name: str, dims: dict[str, int]) -> int:
    if name not in dims:
        raise ValueError(f"descriptor: there is no dimension '{name}'; there are {', '.join(dims)}")
    return dims[name]


def _parse_step(statement: str, dims: dict[str, int], lengths: list[Size | None]) -> Step:
    match = _STATEMENT.fullmatch(statement)
    if match is None:
        raise ValueError("a statement is 'd1 d2 = transform(d0, field=value, …)'")
    kind = TRANSFORMS.get(match["name"])
    if kind is None:
        raise ValueError(f"there is no transform '{match['name']}'; there are {', '.join(TRANSFORMS)}")
    lowers: list[int] = []
    values: dict[str, Any] = {}
    for argument in _split_arguments(match["arguments"]):
        key, equals, value = argument.partition("=")
        if equals:
            values[key.strip()] = _parse_field(value.strip())
        else:
            lowers.append(_dimension(key.strip(), dims))
    transform = _make(kind, values)
    names = match["uppers"].split()
    if len(lowers) != transform.lower_count or len(names) != transform.upper_count:
        raise ValueError(f"{kind.name} makes {transform.upper_count} dimensions of {transform.lower_count}")
    uppers = tuple(range(len(lengths), len(lengths) + len(names)))
    for name, dim in zip(names, uppers, strict=True):
        if name in dims:
            raise ValueError(f"dimension '{name}' exists already")
        dims[name] = dim
    lengths.extend(transform.upper_lengths)
    return Step(transform, tuple(lowers), uppers)


_EXPECTED: dict[str, tuple[Any, str]] = {  # by the annotation of a transform's field
    "Size": (Size, "a single length"),
    "int": (int, "a number"),
    "Symbol": (Symbol, "a run-time value such as ?0"),
    "tuple": (tuple, "a list such as [4, ?0]"),
}


def _make(kind: type[Transform], values: dict[str, Any]) -> Transform:
    known, hints = kind.__struct_fields__, hints_of(kind)
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{kind.name} has no field '{name}'; it has {', '.join(known)}")
        expected = _EXPECTED.get(hints[name].partition("[")[0])
        if expected is not None and not isinstance(value, expected[0]):
            raise ValueError(f"field '{name}' of {kind.name} is {expected[1]}, not {_field_text(value)}")
    required = known[: len(known) - len(kind.__struct_defaults__)]
    missing = [name for name in required if name not in values]
    if missing:
        raise ValueError(f"{kind.name} needs {', '.join(missing)}")
    return kind(**values)


def _split_arguments(text: str) -> list[str]:
    """The arguments of a call: split at commas outside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def _parse_field(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return tuple(parse_size(item) for item in text[1:-1].split(",") if item.strip())
    return parse_size(text)
