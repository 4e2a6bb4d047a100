"""Dropout: weights are set to zero at random, the others multiplied by 1 / (1 - p), behind the sum over keys.

Random numbers are Philox 4x32's with seven rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011),
as CK Tile draws them: one draw gives a byte for each of 16 elements, those that a lane holds of a block of 32 queries
and 32 keys; a weight is kept where its byte is at most floor((1 - p) · 255). The counter is the offset plus 64 times
the head's number plus the lane, then the block's row and column; the key is the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.part import WeightPart, kept_keys
from ckmlir.ops.attention.philox import random_bytes
from ckmlir.ops.attention.problem import Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.request import Choice, Flag, Integer, Real, RequestError
from ckmlir.ops.scalars import f32, i32

if TYPE_CHECKING:
    from ckmlir.ops.attention.loop.loop_kernel import Form, Weights
    from ckmlir.ops.attention.loop.work_kernel import Work

LARGEST = 1 - 2.0**-16


@dataclass(frozen=True)
class Dropout(WeightPart):
    """Attributes:
    p: the probability of zero.
    seed, offset: by value; with `memory` two arrays of two i32 each have them, the lower half first.
    stored: the bytes are written to `randval`, (b, h, queries, keys) or, in group mode, (1, h, all queries, most keys).
    """

    p: float
    seed: int
    offset: int
    memory: bool
    stored: bool

    name = "dropout"
    levels = True
    keys = (
        Real("dropout", 0.0, "probability with which a weight is dropped, below 1", 0),
        Integer("seed", None, "of the random numbers, by default 1", maximum=2**64 - 1),
        Integer("offset", None, "of the random numbers, by default 0", maximum=2**63 - 1),
        Choice("seeds", "value", "seed and offset are in the request or in arrays of device memory",
               ("value", "memory")),
        Flag("randval", False, "also write the random bytes"),
    )  # fmt: skip

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Dropout | None:
        p, memory = values["dropout"], values["seeds"] == "memory"
        for key in ("seed", "offset"):
            if values[key] is not None and memory:
                raise RequestError(f"{key}={values[key]}: seeds=memory takes it from array drop_{key}; leave it out")
        if p > LARGEST:
            raise RequestError(f"dropout={p}: expected a probability from 0 to {LARGEST:g}")
        if not p and not values["randval"]:
            given = {"seed": values["seed"], "offset": values["offset"], "seeds": "memory" if memory else None}
            for key, value in given.items():
                if value is not None:
                    raise RequestError(f"{key}={value}: nothing is dropped, and no bytes are asked for; leave it out")
            return None
        seed = 1 if values["seed"] is None else values["seed"]
        return cls(p, seed, values["offset"] or 0, memory, values["randval"])

    @property
    def word(self) -> str:
        return "dropout" + "_memory" * self.memory + "_stored" * self.stored

    @property
    def threshold(self) -> int:
        """The largest byte that keeps a weight."""
        return int((1 - self.p) * 255)

    @property
    def largest_factor(self) -> float:
        return 1 / (1 - self.p)

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        found = [array_spec(f"drop_{name}", (2,), "i32", "in") for name in ("seed", "offset") if self.memory]
        if self.stored:
            shape = (problem.array_batches, problem.h, problem.rows("q"), problem.sk)
            found.append(array_spec("randval", shape, "i8", "out"))
        return tuple(found)

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        halves = np.array([self.seed, self.offset], np.uint64).view(np.int32)  # the lower one first
        by_value = () if self.memory else tuple(halves)
        sizes = (i32(problem.rows("q")), i32(problem.sk)) if self.stored else ()
        return (*by_value, i32(problem.h), i32(self.threshold), f32(1 / (1 - self.p)), *sizes)

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        found: Array = generator.integers(0, 2**31, array.shape) if array.name == "drop_seed" else np.array([77, 0])
        return found

    def drawn(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        """The random bytes of a place (rows, keys)."""

        def number(name: str, value: int) -> int:
            if not self.memory:
                return value
            return int(arrays[f"drop_{name}"].astype("<i4").view("<u8")[0])

        seed, offset = number("seed", self.seed), number("offset", self.offset)
        return random_bytes(seed, offset + 64 * (place.number * problem.h + place.head), place.rows, place.keys)

    def factors(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        kept = self.drawn(problem, place, arrays) <= self.threshold
        return np.where(kept, 1 / (1 - self.p), 0.0)

    def outputs(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"randval": self._over_places(problem, arrays)[0]} if self.stored else {}

    def written(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Bytes of keys that no mask hides; of others there may be some."""
        return {"randval": self._over_places(problem, arrays)[1]} if self.stored else {}

    def _over_places(self, problem: Problem, arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        (array,) = (one for one in self.arrays(problem) if one.name == "randval")
        found, written = np.zeros(array.shape, np.int8), np.zeros(array.shape, np.bool_)
        for place in problem.places(arrays):
            at = place.batch, place.head, place.memory_rows, slice(0, place.keys)
            found[at] = self.drawn(problem, place, arrays).astype(np.uint8).view(np.int8)
            written[at] = kept_keys(problem, place, arrays)
        return found, written

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import f32, i32, ptr

        _, *choices = word.split("_")
        seeds = ("drop_seed", "drop_offset")
        found: dict[str, Any] = {name: ptr("i32") for name in seeds if "memory" in choices}
        if "stored" in choices:
            found["randval"] = ptr("i8")
        if "memory" not in choices:
            found |= {f"{name}_{half}": i32 for name in seeds for half in ("low", "high")}
        found |= {"drop_heads": i32, "drop_threshold": i32, "drop_factor": f32}
        return found | dict.fromkeys(("drop_rows", "drop_row") if "stored" in choices else (), i32)

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        from ckmlir.ops.attention.loop.dropout_kernel import dropped

        return dropped(word, given, work, form, weights)

    @classmethod
    def factor(cls, word: str, given: Any) -> Any:
        return given.drop_factor
