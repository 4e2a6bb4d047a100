"""Which keys a query of HSTU attention attends to: the history of a user, and candidates that do not see each other.

A sequence of n places is a history with, behind it, `targets` candidates. Its first `context` places are known from the
beginning. With u = n - targets, place i attends to the keys from begin to end, and to itself:

| place | end, causal | end otherwise |
|---|---|---|
| i < context | u | n where the window reaches there, else u |
| i < u | i + 1 | i + window + 1, n where that is beyond u |
| a candidate | u | u |

begin is min(i, u) - window, and 0 where that is in the context. Without a window it is 0 and the other end n; so it is
too, with `full` above 0, for the last `full` places of the history and for candidates (whose end stays). To a window
the context is one place. `full` is at most u, and context at most u - full. This is CK Tile's mask, and that of Zhai et
al., "Actions Speak Louder than Words", 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.part import KeyPart
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.attention.schedule_choice import DEFAULT
from ckmlir.ops.comparison import Array
from ckmlir.ops.list_keys import Series
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Flag, Integer, RequestError
from ckmlir.ops.scalars import i32
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Reason

if TYPE_CHECKING:
    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.spans_kernel import Reach
    from ckmlir.ops.attention.loop.work_kernel import Work


@dataclass(frozen=True)
class HstuKeys(KeyPart):
    """The keys of HSTU attention. num_targets (sequences), i32, counts the candidates; without it a sequence is history
    alone. A window of 0 leaves all keys."""

    causal: bool
    context: int
    window: int
    full: int
    targets: tuple[int, ...] | None

    name = "hstu"
    keys = (
        Flag("causal", True, "places attend to none behind them"),
        Integer("context", 0, "first places, to which and from which all of the history is seen"),
        Integer("window", 0, "places that a place sees before itself (not causal: and behind itself); 0: all"),
        Integer("full", 0, "last places of the history that no window limits"),
        Series("targets", None, "candidates at the end of each sequence, which do not see each other"),
    )

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> HstuKeys:
        window, full, targets = (values[name] for name in ("window", "full", "targets"))
        if full and not window:
            raise RequestError(f"full={full}: there is no window that it could take away; leave it out")
        if targets is not None:
            text = ",".join(map(str, targets))
            if len(targets) != problem.b:
                what = f"{len(targets)} numbers for {problem.b} sequences"
                raise RequestError(f"targets={text}: {what}; expected one each")
            for number, (count, length) in enumerate(zip(targets, lengths_of(problem), strict=True)):
                if count > length:
                    what = f"sequence {number} has {length} places"
                    raise RequestError(f"targets={text}: {count} candidates, but {what}; expected at most that")
        context, window, full = (min(one, problem.sq) for one in (values["context"], window, full))
        return cls(values["causal"], context, window, full, targets)

    @property
    def word(self) -> str:
        found = "causal" * self.causal, "window" * bool(self.window), "targets" * (self.targets is not None)
        return "_".join([self.name, *filter(None, found)])

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        return () if self.targets is None else (array_spec("num_targets", (problem.b,), "i32", "in"),)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        return (i32(self.context), *([i32(self.window), i32(self.full)] if self.window else []))

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        return {} if self.targets is None else {"num_targets": np.array(self.targets)}

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        for number in range(problem.b):
            queries, keys = (side.of(arrays, number)[1] for side in (problem.queries, problem.keys))
            if queries != keys:
                what = f"sequence {number} has {queries} queries and {keys} keys"
                raise RequestError(f"array seqstart_k: {what}; expected as many")
            targets = 0 if self.targets is None else int(arrays["num_targets"][number])
            if not 0 <= targets <= queries:
                what = f"sequence {number} has {targets} candidates; expected 0 to {queries}"
                raise RequestError(f"array num_targets: {what}")

    def runs(self, places: Array, length: int, targets: int) -> tuple[Array, Array]:
        """Where the keys of each place begin and end, but for itself."""
        history = length - targets
        full = min(self.full, history)
        context = min(self.context, history - full)
        at, window = np.minimum(places, history), self.window or 1 << 40
        whole = (at >= history - full) & (full > 0)
        begin = np.where(whole | (at - window < context), 0, at - window)
        if self.causal:
            return begin, np.where((places < context) | (places >= history), history, places + 1)
        near = np.where(whole | (at + window >= history), length, at + window + 1)
        first = length if history - max(context - 1, 0) <= window else history
        return begin, np.where(places >= history, history, np.where(places < context, first, near))

    def kept(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        rows, keys = np.asarray(place.rows)[:, None], np.arange(place.keys)[None, :]
        targets = 0 if self.targets is None else int(arrays["num_targets"][place.number])
        begin, end = self.runs(rows, place.keys, targets)
        found: Array = ((begin <= keys) & (keys < end)) | (rows == keys)
        return found

    def pairs(self, length: int, targets: int) -> int:
        """Places that attend to each other."""
        places = np.arange(length)
        begin, end = self.runs(places, length, targets)
        return int((end - begin + ((places < begin) | (places >= end))).sum())

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import i32, ptr

        found: dict[str, Any] = {"num_targets": ptr("i32", alignment=4)} if "targets" in word else {}
        window = {"hstu_window": i32, "hstu_full": i32} if "window" in word else {}
        return {**found, "hstu_context": i32, **window}

    @classmethod
    def unfit(cls, word: str, spec: FmhaFwdSpec) -> Iterator[Reason]:
        yield from super().unfit(word, spec)
        for field, text in spec.loops.items() if "targets" in word.split("_") else ():
            if parse_schedule(text).order == "weave":
                why = "candidates compare each key twice, and what is woven has no scalar registers for all of that"
                yield Reason(field, getattr(spec, field), why, f"expected {DEFAULT}")

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, reach: Reach) -> Reach:
        from ckmlir.ops.attention.loop.hstu_keys_kernel import reached

        return reached(word.split("_")[1:], given, work, form)


def lengths_of(problem: Problem) -> tuple[int, ...]:
    """Places of each sequence, as the request has them."""
    return problem.queries.lengths or problem.queries.slots or (problem.sq,) * problem.b
