"""The `ck` dialect object that every type and operation of this package attaches to."""

from typing import TYPE_CHECKING, Any

from ckmlir.mlir import ext, ir, operations_without_classes


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

    @classmethod
    def load(cls) -> None:
        """Load into the current context, of classes of one name the last: an interrupted import is done again.

        The classes say what operations hold and verify it. Who meets an operation sees an `ir.OpView`.
        """
        cls.types = list({one.type_name: one for one in cls.types}.values())
        cls.attributes = list({one.attr_name: one for one in cls.attributes}.values())
        cls.operations = list({one.OPERATION_NAME: one for one in cls.operations}.values())
        with operations_without_classes():
            super().load()
