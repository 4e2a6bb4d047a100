"""What every error meant for a user has in common, words that messages share, and who refuses what annotations do not
ask for.

Functions that users call are decorated with `as_annotated`, and records that they make call `check_fields`. Whether
values are of the types that annotations name shows without reading these; for others `ckmlir.given` reads them, which
is most of what a first call would take otherwise.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class CkmlirError(Exception):
    """An error about something the user wrote or has to provide.

    Its text names what was written, what is wrong with it and what would be right. The command line tools print it as
    one line and exit with status 2; anything that is not a CkmlirError is a defect of ckmlir.
    """


def suggest(name: object, choices: Iterable[str]) -> str:
    """The end of a message about an unknown `name`: the nearest choice, or all of them when none is near. Where only
    the first word is one that nothing has, those that end alike are equally near.

    >>> suggest("gfx924", ["gfx90a", "gfx942"])
    'did you mean gfx942?'
    >>> suggest("b_strides", ["a_strides", "gate_strides", "up_strides", "block"])
    'did you mean one of a_strides, gate_strides, up_strides?'
    """
    import difflib  # most processes meet no unknown name

    known = sorted(choices)
    lowered = {choice.lower(): choice for choice in known}
    near = difflib.get_close_matches(str(name).lower(), lowered, n=1)
    if near:
        first, _, ending = str(name).lower().partition("_")
        alike = {choice.partition("_")[0]: own for choice, own in lowered.items() if choice.partition("_")[2] == ending}
        if ending and lowered[near[0]] in alike.values() and not difflib.get_close_matches(first, alike):
            return f"did you mean {'one of ' * (len(alike) > 1)}{', '.join(alike.values())}?"
        return f"did you mean {lowered[near[0]]}?"
    return f"known: {', '.join(known)}" if known else "none is known"


def counted(number: float, what: str) -> str:
    """So many of something: `what` is the word for one, whose plural ends in s.

    >>> counted(1, "kernel"), counted(0, "kernel")
    ('1 kernel', '0 kernels')
    """
    return f"{number if isinstance(number, int) else f'{number:g}'} {what}{'s' * (number != 1)}"


def absent(error: ModuleNotFoundError) -> str:
    """What is said of a package that is not installed. Raises the error where it is a module of ours."""
    package = (error.name or "ckmlir").partition(".")[0]
    if package == "ckmlir":
        raise error
    return f"{package} is not installed; `pip install {package}` provides it"


def as_json(value: object) -> str:
    """What a file or a caller gave, for messages, as JSON writes it: text in quotes, nothing as null; shortened."""
    import json  # most commands meet no such error

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def from_json(text: str | bytes) -> Any:
    """What a text of JSON says.

    Raises ValueError for any other text, for one nested deeper than can be read, and for an object that gives a key
    twice, of which JSON itself would keep the last.
    """
    import json

    try:
        return json.loads(text, object_pairs_hook=_with_each_key_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object gives the key {as_json(twice)} twice")
    return found


def as_annotated(error: type[CkmlirError]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function refuse with this error what its annotations do not ask for; too many arguments, and names that
    it has not, are Python's to refuse."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        annotations = dict(function.__annotations__)
        defaults = function.__defaults__ or ()
        by_default = {**dict(zip(names[len(names) - len(defaults) :], defaults)), **(function.__kwdefaults__ or {})}
        slow: list[Any] = []

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = {**dict(zip(names, args)), **kwargs}
            if len(args) <= len(names) and _fit(annotations, given, by_default):
                return function(*args, **kwargs)
            if not slow:
                from ckmlir.given import Parameters

                slow.append(Parameters(function))
            try:
                taken, named = slow[0].taken(args, kwargs)
            except TypeError as problem:
                raise error(str(problem)) from None
            return function(*taken, **named)

        return call

    return decorated


def check_fields(record: Any, error: type[CkmlirError]) -> None:
    """Raise this error for a field of a record that does not hold what its annotation asks for."""
    annotations: dict[str, Any] = {}
    for base in reversed(type(record).__mro__):
        annotations |= vars(base).get("__annotations__", {})
    fields = {name: getattr(record, name) for name, text in annotations.items() if not str(text).startswith("ClassVar")}
    if not _fit(annotations, fields):
        from ckmlir.given import check_record

        check_record(record, error)


def _fit(annotations: Mapping[str, Any], given: Mapping[str, Any], by_default: Mapping[str, Any] | None = None) -> bool:
    """Whether values are plainly what annotations ask for: of a type that is named, or what stands there by default."""
    known = by_default or {}
    return all(
        (name in known and value is known[name]) or _named(annotations.get(name), value)
        for name, value in given.items()
    )


def _named(annotation: Any, value: Any) -> bool:
    """Whether an annotation names the type of a value; of our classes, one that it is derived from."""
    if annotation in (None, Any, "Any", "object"):
        return True
    if not isinstance(annotation, str):
        return type(value) is annotation
    plain = "[" not in annotation
    if not plain and " | " in annotation:
        return False
    kinds = annotation.split(" | ") if plain else [annotation.partition("[")[0]]
    own = type(value)
    if value is None:
        return "None" in kinds
    if own is dict and annotation in _KEYS:
        return all(type(key) is str for key in value)
    if own.__module__ == "builtins":
        return plain and own.__name__ in kinds
    return any(one.__module__.startswith("ckmlir.") and one.__name__ in kinds for one in own.__mro__)


_KEYS = ("Mapping[str, object]", "Mapping[str, Any]")
"""Annotations of what `**keys` would be."""
