"""What a pass is: a frozen dataclass whose fields are its options and whose text is its place in a pipeline.

    @dataclass(frozen=True)
    class AllocateLds(Pass):
        '''Give every LDS tensor a byte offset.'''        # the first line is the help text

        name = "ck-allocate-lds"
        banks: int = 0

        def apply(self, module: ir.Module) -> None: ...

    str(AllocateLds(banks=4)) == "ck-allocate-lds{banks=4}"

The contract of `apply`: the IR is valid before and after it, not necessarily during; a program that cannot be compiled
is refused with `fail`, after which the IR is of no more use. Passes are looked up by name in `ckmlir.passes.registry`,
pipelines are read and run by `ckmlir.passes.pipeline`.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

from ckmlir.diagnostics import Diagnostic, position_of
from ckmlir.errors import CkmlirError, suggest
from ckmlir.mlir import ir, passmanager


class PipelineSyntaxError(CkmlirError, ValueError):
    """Pipeline text that names no pass, or gives a pass an option or value that it does not have."""


class PassFailure(CkmlirError):
    """A pass refuses the program: what is wrong, where, and what else plays a part in it.

    `notes` are (message, location) pairs; a location of None stands for no place in particular.
    """

    def __init__(
        self,
        message: str,
        location: ir.Location | None = None,
        notes: Iterable[tuple[str, ir.Location | None]] = (),
    ) -> None:
        self.diagnostic = Diagnostic(
            "error",
            position_of(location),
            message,
            tuple(Diagnostic("note", position_of(place), text) for text, place in notes),
        )
        super().__init__(str(self.diagnostic))


def fail(op: Any, message: str, notes: Iterable[tuple[str, Any]] = ()) -> NoReturn:
    """Refuse the program because of `op` (an operation or OpView); `notes` are (message, operation or None) pairs.

    Raises PassFailure at the op's source line.
    """
    raise PassFailure(message, op.location, [(text, place and place.location) for text, place in notes])


@dataclass(frozen=True)
class Pass:
    """Base of all passes; the module's docstring shows one."""

    name: ClassVar[str]
    called: ClassVar[str] = ""
    """Of a plug-in: how pipelines call it."""
    of_control: ClassVar[bool] = False
    """Whether it looks at loops and branches alone: modules without any are spared it."""
    keeps_lists: ClassVar[bool] = False
    """Whether lists of operations (`walk.blocks_of`) are right behind it: it adds and removes none, changes the lists
    too, or has them forgotten. The next pass need not list them again, which takes longer than most passes."""

    def apply(self, module: ir.Module) -> None:
        """Change `module` in place. Raises PassFailure where the program cannot be compiled."""
        raise TypeError(f"{type(self).__name__} defines no apply")

    @property
    def is_own(self) -> bool:
        """Whether it is one of this project's."""
        return self.name.startswith("ck-")

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        """The pass as pipeline text, with the options that differ from their defaults."""
        options = [
            f"{field.name}={OPTION_KINDS[kind].write(value)}"
            for field, kind in _options(type(self))
            if (value := getattr(self, field.name)) != field.default
        ]
        return (self.called or self.name) + (f"{{{' '.join(options)}}}" if options else "")


@dataclass(frozen=True)
class UpstreamPass(Pass):
    """A pass or nest of passes that MLIR itself provides, as text of MLIR's pipeline syntax for a module."""

    name: ClassVar[str] = "upstream"
    text: str

    def check(self, context: ir.Context) -> None:
        """Raises PipelineSyntaxError when MLIR does not accept the text."""
        self._manager(context)

    def apply(self, module: ir.Module) -> None:
        self._manager(module.context).run(module.operation)

    def _manager(self, context: ir.Context) -> passmanager.PassManager:
        try:
            manager = passmanager.PassManager.parse(f"builtin.module({self.text})", context)
        except ValueError as error:
            reason = str(error).partition("\n")[0].rpartition("error: ")[2]
            raise PipelineSyntaxError(f"{self.text}: {reason}") from None
        manager.enable_verifier(False)  # verification between passes is the driver's choice
        return manager

    def __str__(self) -> str:
        return self.text


def defect_of(cls: type[Pass]) -> str:
    """What makes a class no pass that could be made from text; "" for nothing."""
    if not isinstance(getattr(cls, "name", None), str) or cls.name.startswith("ck-"):
        return 'expected a class attribute name: ClassVar[str] = "…" that does not begin with ck-'
    if "__dataclass_fields__" not in vars(cls) or not vars(cls)["__dataclass_params__"].frozen:
        return "expected a frozen dataclass: @dataclass(frozen=True)"
    try:
        _options(cls)
    except (TypeError, NameError) as error:
        return str(error)
    return ""


class OptionKind(typing.NamedTuple):
    """How options of one type are read and written, and what to call such a value in a message."""

    read: typing.Callable[[str], Any]
    write: typing.Callable[[Any], str]
    noun: str


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _read_list(item: typing.Callable[[str], Any]) -> typing.Callable[[str], Any]:
    return lambda text: tuple(item(part) for part in text.split(",")) if text else ()


def _write_list(values: Iterable[Any]) -> str:
    return ",".join(str(value) for value in values)


def _write_text(value: str) -> str:
    """`value`, quoted unless it is made of characters that have no meaning in pipeline text."""
    if re.fullmatch(r"[\w.,:;+*/%@#<>=!?|~^&$-]+", value, re.ASCII):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


OPTION_KINDS: dict[Any, OptionKind] = {
    bool: OptionKind(_read_bool, lambda value: str(value).lower(), "true or false"),
    int: OptionKind(lambda text: int(text, 0), str, "an integer"),
    float: OptionKind(float, repr, "a number"),
    str: OptionKind(str, _write_text, "text"),
    tuple[int, ...]: OptionKind(_read_list(int), _write_list, "integers with commas between"),
    tuple[str, ...]: OptionKind(
        _read_list(str), lambda value: _write_text(_write_list(value)), "words with commas between"
    ),
}


_KNOWN_HINTS: dict[type[Pass], dict[str, Any]] = {}
"""Types are evaluated from text, which takes as long as a small pass: once for a class."""


def _hints(cls: type[Pass]) -> dict[str, Any]:
    if cls not in _KNOWN_HINTS:
        _KNOWN_HINTS[cls] = typing.get_type_hints(cls)
    return _KNOWN_HINTS[cls]


_KNOWN_OPTIONS: dict[type[Pass], tuple[tuple[dataclasses.Field[Any], Any], ...]] = {}


def _options(cls: type[Pass]) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    """The option fields of a pass with their kinds, keys of OPTION_KINDS; `T | None` is of kind T.

    Raises TypeError for a field of another type (a defect of the pass).
    """
    if cls not in _KNOWN_OPTIONS:
        hints = _hints(cls)
        _KNOWN_OPTIONS[cls] = tuple(
            (field, _kind(cls, field.name, hints[field.name])) for field in dataclasses.fields(cls)
        )
    return _KNOWN_OPTIONS[cls]


def _kind(cls: type[Pass], name: str, hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(member for member in typing.get_args(hint) if member is not types.NoneType)
    kind = str if typing.get_origin(hint) is Literal else hint
    if kind not in OPTION_KINDS:
        raise TypeError(f"{cls.__name__}.{name}: {hint} is not a type of a pass option")
    return kind


def make_pass(cls: type[Pass], options: dict[str, str]) -> Pass:
    """A pass of class `cls` with `options` given as text.

    Raises PipelineSyntaxError for an option the pass lacks, a value of the wrong kind, or a missing required option.
    """
    fields = {field.name: (field, kind) for field, kind in _options(cls)}
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name not in fields:
            hint = suggest(name, fields) if fields else "it has none"
            raise PipelineSyntaxError(f"{cls.name} has no option {name!r}; {hint}")
        kind = OPTION_KINDS[fields[name][1]]
        try:
            values[name] = kind.read(text)
        except ValueError:
            raise PipelineSyntaxError(f"{cls.name}: option {name}={text} has to be {kind.noun}") from None
        choices = typing.get_args(hints[name]) if typing.get_origin(hints[name]) is Literal else ()
        if choices and values[name] not in choices:
            raise PipelineSyntaxError(f"{cls.name}: option {name}={text} has to be one of {', '.join(choices)}")
    for name, (field, _) in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PipelineSyntaxError(f"{cls.name}: option {name} is missing")
    return cls(**values)
