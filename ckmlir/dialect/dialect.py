"""The `ck` dialect object that every type and operation of this package attaches to."""

from typing import TYPE_CHECKING, Any

from ckmlir.mlir import ext, ir


class Ck(ext.Dialect, name="ck"):  # type: ignore[call-arg]  # the bindings carry no types
    """Tiles, windows and distributions of CK Tile, schedules of their loops, and the fragments that they split into."""

    if TYPE_CHECKING:  # what ext.Dialect adds to its subclasses, for type checkers: the bindings carry no types

        class Operation(ir.OpView):
            def __init_subclass__(cls, *, name: str | None = None, traits: list[Any] | None = None) -> None: ...
            def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        class Type(ir.Type):
            def __init_subclass__(cls, *, name: str | None = None) -> None: ...

        class Attribute(ir.Attribute):
            def __init_subclass__(cls, *, name: str | None = None) -> None: ...
