"""The arrays of a row operator as a table; what its kernel takes, its launch gives and its views look like follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from ckmlir.ops.spec import Reason
from ckmlir.records import Joined

FLOATS = ("f16", "bf16", "f32")


class RowArray(Struct, frozen=True):
    """An array of a row operator.

    Attributes:
        role: "in" or "out".
        sizes: what its lengths are called, outermost first: ("m", "n") are rows, ("n",) is one for every column,
            ("m",) one for every row.
        strided: its rows may lie further apart than their length; the kernel takes the distance as `<name>_stride`.
    """

    name: str
    dtype: str
    role: str
    sizes: tuple[str, ...] = ("m", "n")
    strided: bool = False


def rows_in(name: str, dtype: str) -> RowArray:
    """Rows that are read, at any distance."""
    return RowArray(name, dtype, "in", strided=True)


def rows_out(name: str, dtype: str, columns: str = "n") -> RowArray:
    """Rows that are written, at any distance."""
    return RowArray(name, dtype, "out", ("m", columns), strided=True)


def channels_in(name: str, dtype: str) -> RowArray:
    """One element for every column."""
    return RowArray(name, dtype, "in", ("n",))


def row_values_in(name: str, dtype: str = "f32") -> RowArray:
    """One element for every row, which is read."""
    return RowArray(name, dtype, "in", ("m",))


def row_values_out(name: str) -> RowArray:
    """One number for every row, f32."""
    return RowArray(name, "f32", "out", ("m",))


class RowOptions(Joined, ABC):
    """What a request and a specification of an operator have in common: the element type and its choices.

    Attributes:
        dtype: of x.
    """

    dtype: str

    @abstractmethod
    def arrays(self) -> tuple[RowArray, ...]:
        """The arrays of the operator with these choices, in the order of the kernel's arguments."""

    def choices(self) -> dict[str, tuple[object, ...]]:
        """What the fields may be, by name."""
        return {"dtype": FLOATS}

    def conflicts(self) -> list[Reason]:
        """What is wrong with the choices together, in the words of the keys."""
        return []


def size_names(arrays: Sequence[RowArray]) -> list[str]:
    """The names of all lengths, each once; the kernel takes them in this order."""
    return list(dict.fromkeys(size for array in arrays for size in array.sizes))


def strided(arrays: Sequence[RowArray]) -> list[str]:
    """The names of the arrays whose row strides the kernel takes, in order."""
    return [array.name for array in arrays if array.strided]
