"""Records that join the fields of several bases are made, compared and shown as frozen dataclasses are."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from ckmlir.records import Abstract, Joined, field_defaults, field_names, replace


class Choices(Joined, ABC):
    dtype: str
    kind: ClassVar[str] = "no field"

    @abstractmethod
    def arrays(self) -> int: ...


class Layout(Choices):
    rows: int
    pad: bool = False


class Own(Choices):
    scale: bool

    def arrays(self) -> int:
        return 1


class Both(Own, Layout):
    kind: ClassVar[str] = "both"


@dataclass(frozen=True)
class Plain:
    rows: int


class Row(Struct, frozen=True):
    rows: int


def test_fields_of_all_bases_in_their_order() -> None:
    assert field_names(Both) == ("dtype", "rows", "pad", "scale")
    assert field_defaults(Both) == {"pad": False}
    made = Both("f16", 4, scale=True)
    assert list(vars(made).items()) == [("dtype", "f16"), ("rows", 4), ("pad", False), ("scale", True)]
    assert repr(made) == "Both(dtype='f16', rows=4, pad=False, scale=True)"
    assert made.kind == "both" and Layout.kind == "no field"


def test_equal_where_class_and_fields_are() -> None:
    made = Both(scale=True, rows=4, dtype="f16")
    assert made == Both("f16", 4, False, True) and hash(made) == hash(Both("f16", 4, False, True))
    assert made != Both("f16", 4, True, True) and made != ("f16", 4, False, True)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == copy.copy(made) == made


def test_frozen() -> None:
    made = Both("f16", 4, False, True)
    with pytest.raises(AttributeError, match="rows cannot be set"):
        made.rows = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="rows cannot be deleted"):
        del made.rows
    assert made.rows == 4


@pytest.mark.parametrize("values, named, wrong", [
    ((), {"rows": 4, "scale": True}, "no value of dtype"),
    (("f16",), {"rows": 4}, "no value of scale"),
    (("f16", 4, False, True, 1), {}, "too many values"),
    (("f16", 4), {"scale": True, "width": 1}, "no field width; the fields are dtype, rows, pad, scale"),
    (("f16", 4), {"scale": True, "rows": 4}, "rows is given twice"),
])  # fmt: skip
def test_wrong_values_are_named(values: tuple[Any, ...], named: dict[str, Any], wrong: str) -> None:
    with pytest.raises(TypeError, match=f"Both: {wrong}"):
        Both(*values, **named)


def test_a_record_is_no_dataclass_too() -> None:
    decorated = dataclass(frozen=True)(type("Decorated", (Both,), {}))
    with pytest.raises(TypeError, match="Decorated is a record already; leave @dataclass off"):
        decorated("f16", 4, False, True)


def test_nothing_is_cached_beside_the_fields() -> None:
    """It would count when records are compared."""
    with pytest.raises(TypeError, match="area: a record is its fields"):

        class _(Layout):
            @cached_property
            def area(self) -> int:
                return self.rows


def test_what_is_abstract_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Layout("f16", 4)  # type: ignore[abstract]


class Shape(Struct, frozen=True, metaclass=Abstract):
    @abstractmethod
    def area(self) -> int: ...


class Square(Shape, frozen=True):
    side: int

    def area(self) -> int:
        return self.side**2


def test_structs_with_abstract_methods() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Shape()  # type: ignore[abstract]
    assert isinstance(Square(3), Shape) and issubclass(Square, Shape) and not isinstance(4, Shape)
    assert not isinstance(Both("f16", 4, False, True), Shape)


@pytest.mark.parametrize("record", [Both("f16", 4, False, True), Row(4), Plain(4)])
def test_other_values_of_any_record(record: Any) -> None:
    other = replace(record, rows=5)
    assert type(other) is type(record) and other.rows == 5 and record.rows == 4 and other != record
    assert replace(record) == record and "rows" in (field_names(type(record)) or ())
    with pytest.raises(TypeError):
        replace(record, width=1)


def test_no_record_has_no_fields() -> None:
    assert field_names(int) is None
