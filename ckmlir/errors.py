"""What every error meant for a user has in common, and words that messages share."""

from collections.abc import Iterable
from typing import Any


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
