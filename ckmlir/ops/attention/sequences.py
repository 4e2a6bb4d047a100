"""Sequences of different lengths: keys of requests, arrays that agree with each other, and what is wrong with others.

In batch mode every sequence is a batch of the arrays, of which `seqlens_q` or `seqlens_k` may say that only the first
rows count. In group mode sequences follow each other along the arrays' rows: `seqstart_q` and `seqstart_k` (b + 1) say
where each begins. A sequence is as long as its part, or, where `slots_q` or `slots_k` say that parts are longer, as
`seqlen_q` or `seqlen_k` (b) have it. All of these are i32 in device memory: a kernel serves any lengths up to the
longest that the request names.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.comparison import Array
from ckmlir.ops.list_keys import Series
from ckmlir.ops.request import MAXIMUM_SIZE, Choice, RequestError, show

if TYPE_CHECKING:
    from random import Random

STARTS, LENGTHS, PAGES = "start", "length", "pages"
"""Words of a specification: memory holds where sequences begin, and how long they are, or how many pages they have."""


class Rows(Struct, frozen=True):
    """The queries, or the keys, of all sequences.

    Attributes:
        side: "q" or "k".
        longest: of a sequence; in batch mode the arrays' rows.
        lengths: that memory holds; () where it does not.
        slots: rows of each sequence's part of the arrays; () in batch mode.
    """

    side: str
    longest: int
    lengths: tuple[int, ...] = ()
    slots: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """Rows of a batch of the arrays."""
        return sum(self.slots) if self.slots else self.longest

    @property
    def word(self) -> str:
        """What the kernel's code depends on: nothing, or which of both memory holds."""
        return STARTS * bool(self.slots) + LENGTHS * bool(self.lengths)

    def arrays(self) -> tuple[ArraySpec, ...]:
        """The arrays in device memory."""
        starts = (array_spec(f"seqstart_{self.side}", (len(self.slots) + 1,), "i32", "in"),)
        lengths = (array_spec(f"seqlen_{self.side}", (len(self.lengths),), "i32", "in"),)
        return (starts if self.slots else ()) + (lengths if self.lengths else ())

    def values(self) -> dict[str, Array]:
        """Their values as the request has them."""
        starts = {f"seqstart_{self.side}": np.array([0, *itertools.accumulate(self.slots)])} if self.slots else {}
        return {**starts, **({f"seqlen_{self.side}": np.array(self.lengths)} if self.lengths else {})}

    def of(self, arrays: Mapping[str, Array], number: int) -> tuple[int, int]:
        """The first row and the length of a sequence, by the arrays."""
        start, length = 0, self.longest
        if self.slots:
            start, end = (int(one) for one in arrays[f"seqstart_{self.side}"][number : number + 2])
            length = end - start
        if self.lengths:
            length = int(arrays[f"seqlen_{self.side}"][number])
        return start, length

    def check(self, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for arrays that no sequences have."""
        slots = np.full(len(self.lengths), self.longest, np.int64)
        if self.slots:
            starts = arrays[f"seqstart_{self.side}"].astype(np.int64)
            slots = np.diff(starts)
            what = f"array seqstart_{self.side}"
            if starts[0] < 0 or starts[-1] > self.total:
                ends = f"{starts[0]} to {starts[-1]}"
                raise RequestError(f"{what}: it has rows {ends}; expected rows from 0 to {self.total}")
            if (slots < 0).any():
                place = int(np.argmax(slots < 0))
                pair = f"{starts[place + 1]} follows {starts[place]}"
                raise RequestError(f"{what}: {pair}; expected numbers that do not fall")
        lengths = arrays[f"seqlen_{self.side}"].astype(np.int64) if self.lengths else slots
        wrong = (lengths < 0) | (lengths > np.minimum(slots, self.longest))
        if wrong.any():
            place = int(np.argmax(wrong))
            most = min(int(slots[place]), self.longest)
            name = f"seq{'len' if self.lengths else 'start'}_{self.side}"
            what = f"sequence {place} has {lengths[place]} rows"
            raise RequestError(f"array {name}: {what}; expected 0 to {most}")


class SequenceLengths(Series, frozen=True):
    """Lengths of sequences, for some of them small."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """As many as the request has already, lengths up to about a block."""
        given = (request.get(name) for name in ("seqlens_q", "seqlens_k", "slots_q", "slots_k"))
        count = next((len(one) for one in given if isinstance(one, tuple)), random.choice((1, 2, 3)))
        least = request.get(f"seqlens_{self.name[-1]}") if self.name.startswith("slots") else None
        if isinstance(least, tuple):
            return tuple(one + random.choice((0, 0, 1, 8, 30)) for one in least)
        return tuple(random.choice((0, 1, 7, 64, 65, random.randint(0, 200))) for _ in range(count))


KEYS = (
    Choice("mode", "batch", "sequences are batches of the arrays, or follow each other along their rows",
           ("batch", "group")),
    *(SequenceLengths(f"seqlens_{side}", None, f"{what} of each sequence; in group mode needed")
      for side, what in (("q", "queries"), ("k", "keys"))),
    *(SequenceLengths(f"slots_{side}", None, f"group mode: rows that each sequence's {what} take, by default as many")
      for side, what in (("q", "queries"), ("k", "keys"))),
)  # fmt: skip


def read_sequences(values: Mapping[str, Any]) -> tuple[int, Rows, Rows]:
    """The number of sequences, their queries and their keys. `values` has those of `KEYS`, b, sq and sk, of which the
    last three are None where the request leaves them open.

    Raises:
        RequestError: lists that do not agree with each other, with the mode or with b, sq and sk.
    """
    return _grouped(values) if values["mode"] == "group" else _batched(values)


def _batched(values: Mapping[str, Any]) -> tuple[int, Rows, Rows]:
    for side in "qk":
        if values[f"slots_{side}"] is not None:
            given_slots = _text(values[f"slots_{side}"])
            raise RequestError(f"slots_{side}={given_slots}: only mode=group has slots; leave it out")
    given = {side: values[f"seqlens_{side}"] for side in "qk"}
    count = next((len(one) for one in given.values() if one is not None), 1)
    b = count if values["b"] is None else values["b"]
    found: dict[str, Rows] = {}
    for side, longest in (("q", values["sq"]), ("k", values["sk"])):
        lengths = given[side]
        if longest is None:
            longest = max(lengths) if lengths is not None else found["q"].longest if side == "k" else 256
        if lengths is not None:
            _check_count(f"seqlens_{side}", lengths, b)
            if max(lengths) > longest:
                raise RequestError(
                    f"seqlens_{side}={_text(lengths)}: a sequence of {max(lengths)}; expected at most s{side}={longest}"
                )
        found[side] = Rows(side, longest, lengths or ())
    return b, found["q"], found["k"]


def _grouped(values: Mapping[str, Any]) -> tuple[int, Rows, Rows]:
    given = {name: values[name] for name in ("seqlens_q", "seqlens_k")}
    missing = [name for name, lengths in given.items() if lengths is None]
    if missing:
        written = next((f"{name}={_text(lengths)}" for name, lengths in given.items() if lengths), "mode=group")
        raise RequestError(f"{written}: it needs {' and '.join(missing)}, the lengths of the sequences")
    b = len(values["seqlens_q"]) if values["b"] is None else values["b"]
    found = []
    for side in "qk":
        lengths, slots = values[f"seqlens_{side}"], values[f"slots_{side}"]
        _check_count(f"seqlens_{side}", lengths, b)
        if slots is not None:
            _check_count(f"slots_{side}", slots, b)
            for slot, length in zip(slots, lengths, strict=True):
                if slot < length:
                    raise RequestError(f"slots_{side}={_text(slots)}: {slot} rows do not hold a sequence of {length}")
        longest = values[f"s{side}"]
        longest = max(lengths) if longest is None else longest
        if max(lengths) > longest:
            raise RequestError(f"s{side}={longest}: a sequence has {max(lengths)}; leave it out or name at least that")
        if sum(slots or lengths) > MAXIMUM_SIZE:
            raise RequestError(f"seqlens_{side}={_text(lengths)}: more than {MAXIMUM_SIZE} rows together")
        found.append(Rows(side, longest, lengths if slots is not None else (), slots or lengths))
    return b, found[0], found[1]


def _check_count(key: str, lengths: tuple[int, ...], b: int) -> None:
    if len(lengths) != b:
        raise RequestError(f"{key}={_text(lengths)}: {len(lengths)} numbers for {b} sequences; expected one each")


def _text(lengths: tuple[int, ...]) -> str:
    return show(",".join(map(str, lengths)))
