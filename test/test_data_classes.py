"""Data classes with methods compiled when they are first called behave as those of the standard library do."""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from ckmlir import data_classes

Decorator = Callable[..., Any]


def classes(dataclass: Decorator) -> dict[str, Any]:
    """Classes of all kinds that the package has, by one decorator or the other."""

    @dataclass
    class Plain:
        a: int
        b: list[int] = field(default_factory=list)
        c: str = field(default="c", repr=False)
        count: ClassVar[int] = 3
        d: int = field(init=False, default=4)
        e: dict[str, int] = field(init=False, default_factory=dict, compare=False)

        def __post_init__(self) -> None:
            self.e["a"] = self.a

    @dataclass(frozen=True)
    class Frozen:
        """With a text."""

        a: int
        b: tuple[int, ...] = (1, 2)
        c: float = field(default=1.5, compare=False)
        d: int = field(default=0, hash=False)

    @dataclass(frozen=True)
    class Derived(Frozen):
        b: tuple[int, ...] = (3,)
        z: str = field(kw_only=True)

        def __repr__(self) -> str:
            return "derived"

    @dataclass(frozen=True, kw_only=True)
    class Named:
        a: int
        b: int = 2

    @dataclass(frozen=True, slots=True)
    class Slots:
        count: ClassVar[int] = 3
        a: int
        b: int = 2
        c: list[int] = field(default_factory=list, compare=False)
        d: int = field(init=False, default=7)

    @dataclass(frozen=True, slots=True)
    class MoreSlots(Slots):
        e: int = 5

    @dataclass(eq=False, slots=True)
    class Identity:
        a: int

    @dataclass(frozen=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.a % 10 == other.a % 10

        def __hash__(self) -> int:
            return self.a % 10

    @dataclass(frozen=True)
    class Halves:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Halves)

    @dataclass(frozen=True)
    class Abstract(abc.ABC):
        a: int

        @abc.abstractmethod
        def made(self) -> int: ...

    @dataclass(frozen=True)
    class Concrete(Abstract):
        b: int = 1

        def made(self) -> int:
            return self.a

    @dataclass
    class Empty:
        pass

    @dataclass
    class Node:
        others: list[Any] = field(default_factory=list)

    return {name: value for name, value in locals().items() if isinstance(value, type)}


OURS, THEIRS = classes(data_classes.dataclass), classes(dataclasses.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", (1,), {}), ("Plain", (1, [2]), {"c": "x"}), ("Plain", (), {}), ("Plain", (1, [], "c", 4), {}),
    ("Frozen", (1,), {}), ("Frozen", (1, (5,), 2.5, 9), {}), ("Frozen", (), {"d": 1}), ("Frozen", (1,), {"q": 1}),
    ("Derived", (1,), {"z": "z"}), ("Derived", (1, (2,), 3.5, 4, "z"), {}), ("Derived", (1,), {}),
    ("Named", (), {"a": 1}), ("Named", (1,), {}), ("Slots", (1,), {}), ("Slots", (1, 3, [4]), {}),
    ("MoreSlots", (1,), {"e": 6}), ("Identity", (1,), {}), ("Own", (13,), {}), ("Halves", (1,), {}),
    ("Abstract", (1,), {}), ("Concrete", (1,), {}), ("Empty", (), {}), ("Empty", (1,), {}), ("Node", (), {}),
]  # fmt: skip


def outcome(ask: Callable[[], object]) -> object:
    """What a question gives, or how it fails."""
    try:
        return ask()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "repr": repr, "hash": lambda one: hash(one) * (type(one).__eq__ is not object.__eq__), "asdict": asdict,
    "equal": lambda one: one == copy.copy(one),
    "of another type": lambda one: one == 3, "hash of a copy": lambda one: hash(copy.deepcopy(one)) == hash(one),
    "replaced": lambda one: repr(replace(one, a=8)), "assigned": lambda one: setattr(one, "a", 9),
    "deleted": lambda one: delattr(one, "a"), "another attribute": lambda one: setattr(one, "other", 9),
    "after that": repr, "dictionary": lambda one: sorted(vars(one)),
    "count": lambda one: type(one).count, "d": lambda one: one.d,
}  # fmt: skip


@pytest.mark.parametrize("name, arguments, named", CALLS)
def test_objects(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    def answers(cls: Any) -> dict[str, str]:
        made = outcome(lambda: cls(*arguments, **named))
        asked = {} if isinstance(made, tuple) else QUESTIONS
        return {what: str(outcome(partial(ask, made))) for what, ask in asked.items()} or {"made": str(made)}

    ours, theirs = answers(OURS[name]), answers(THEIRS[name])
    if "super(type, obj)" in theirs.get("another attribute", ""):  # of a frozen class with slots, up to Python 3.13
        theirs["another attribute"] = ours["another attribute"]
        assert "FrozenInstanceError" in ours["another attribute"]
    assert ours == theirs


@pytest.mark.parametrize("name", OURS)
def test_classes(name: str) -> None:
    """Fields, parameters, signatures and everything else that a class has."""
    ours, theirs = OURS[name], THEIRS[name]
    assert [str(one) for one in fields(ours)] == [str(one) for one in fields(theirs)]
    assert str(ours.__dataclass_params__) == str(theirs.__dataclass_params__)
    assert ours.__match_args__ == theirs.__match_args__ and dataclasses.is_dataclass(ours)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert set(dir(ours)) ^ set(dir(theirs)) <= {"__replace__", "__weakref__"}
    assert ours.__qualname__ == theirs.__qualname__ and ours.__module__ == theirs.__module__


def test_objects_that_hold_themselves() -> None:
    node = OURS["Node"]()
    node.others.append(node)
    assert repr(node) == f"{OURS['Node'].__qualname__}(others=[...])"


@data_classes.dataclass(frozen=True, slots=True)
class Pickled:
    a: int
    b: int = 2


@data_classes.dataclass(frozen=True)
class WithDictionary:
    a: int


def test_frozen_objects_are_pickled() -> None:
    for one in (Pickled(3), WithDictionary(4)):
        assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one)


class Wider(WithDictionary):
    """No data class of its own."""

    other: int


def test_what_derives_from_a_frozen_class_has_attributes_of_its_own() -> None:
    one = Wider(1)
    one.other = 3
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2  # type: ignore[misc]


def test_both_kinds_derive_from_each_other() -> None:
    names = {"__annotations__": {"k": "int"}, "k": 4}
    ours = data_classes.dataclass(frozen=True)(type("Both", (THEIRS["Frozen"],), names))
    theirs = dataclasses.dataclass(frozen=True)(type("Both", (OURS["Frozen"],), names))
    assert repr(ours(1)) == repr(theirs(1)) == "Both(a=1, b=(1, 2), c=1.5, d=0, k=4)"


@pytest.mark.parametrize("base, frozen", [(base, frozen) for base in ("Frozen", "Plain") for frozen in (True, False)])
def test_frozen_and_others_are_not_mixed(base: str, frozen: bool) -> None:
    ours, theirs = data_classes.dataclass, dataclasses.dataclass
    for made, dataclass in ((OURS, ours), (THEIRS, ours), (OURS, theirs)):
        cls = type("Mixed", (made[base],), {})
        if frozen == (base == "Frozen"):
            dataclass(frozen=frozen)(cls)
        else:
            with pytest.raises(TypeError):
                dataclass(frozen=frozen)(cls)


def test_mutable_defaults_are_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):
        data_classes.dataclass(type("Mutable", (), {"__annotations__": {"a": "list[int]"}, "a": []}))


def test_nothing_is_compiled_before_it_is_called() -> None:
    asked = """
import sys
texts = []
from ckmlir.data_classes import dataclass
sys.addaudithook(lambda event, values: event == "compile" and texts.append(values))
@dataclass(frozen=True)
class One:
    a: int
before = len(texts)
One(1); one = One(2)
made = len(texts)
repr(one); one.a; hash(one); hash(One(3))
print(before, made, len(texts))
"""
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "1", "2"]
