"""Scales of fp8 elements beside those of whole tensors: the request's keys, and those of every head of a sequence.

The elements of Q, K and V stand for themselves times q_scales, k_scales and v_scales, which device memory has in f32,
times the scales of the tensors. They are from 0 to 2^50; less than 2^-50 counts as that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec.structs import replace

from ckmlir.ops.arrays import ArraySpec, array_spec
from ckmlir.ops.attention.fmha_fwd_spec import TAKEN
from ckmlir.ops.attention.paged import Paged
from ckmlir.ops.attention.part import Part, ScalePart
from ckmlir.ops.attention.problem import LEAST_SCALE, MOST_SCALE, Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.precision import UNIT
from ckmlir.ops.request import Choice, Key, RequestError

if TYPE_CHECKING:
    from random import Random

    from ckmlir.ops.attention.loop.loop_kernel import Form
    from ckmlir.ops.attention.loop.work_kernel import Work

KINDS = ("tensor", "head", "block", "mx", "page")


class ScalesKey(Choice, frozen=True):
    """Which scales there are."""

    def sample(self, random: Random, request: Mapping[str, object]) -> object:
        """Those that the request may have."""
        if request.get("dtype") == "fp4":
            return "mx"
        other = "page" if request.get("page_size") is None else "mx"
        able = [one for one in self.choices if one != other]
        return random.choice(able) if request.get("dtype") == "fp8" else self.default


KEY = ScalesKey(
    "scales", "tensor", "fp8: scales of whole tensors, or of each head, block of rows, 32 elements (mx), page as well",
    KINDS,
)  # fmt: skip


def offered(key: Key, parts: Sequence[type[Part]]) -> Key:
    """A key with what some of these parts take: kinds of scales, and types that need one of them."""
    kinds = [getattr(part, "kind", None) for part in parts]
    if isinstance(key, ScalesKey):
        return replace(key, choices=tuple(kind for kind in KINDS if kind in ("tensor", *kinds)))
    if isinstance(key, Choice) and key.name == "dtype" and "mx" not in kinds:
        plain = tuple(one for one in key.choices if one not in TAKEN)
        return replace(key, choices=plain, help=key.help.partition(";")[0])
    return key


def asks_for(kind: str, values: Mapping[str, Any], problem: Problem) -> bool:
    """Whether a request asks for scales of a kind. Raises RequestError."""
    asked = values["scales"]
    if asked != "tensor" and problem.dtype != "fp8":
        raise RequestError(f"scales={asked}: only fp8 is scaled, not {problem.dtype}; leave it out")
    if asked == "page" and not isinstance(problem.source, Paged):
        raise RequestError("scales=page: K and V do not lie in pages; expected tensor, head, block or mx")
    return bool(asked == kind)


@dataclass(frozen=True)
class Scales(ScalePart):
    """Scales in device memory, arrays `NAME_scales`; `kind` is what the key asks for."""

    kind: ClassVar[str]
    keys: ClassVar[tuple[Key, ...]] = ()

    @classmethod
    def wanted(cls, values: Mapping[str, Any], problem: Problem) -> bool:
        """Whether the request asks for this kind. Raises RequestError."""
        return asks_for(cls.kind, values, problem)

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """From a half to 2: neighbours differ enough for a wrong one to show."""
        found: Array = np.exp2(generator.uniform(-1, 1, array.shape)).astype(np.float32)
        return found

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for scales that are negative, no numbers, or too large."""
        for array in self.arrays(problem):
            wrong = ~((arrays[array.name] >= 0) & (arrays[array.name] <= MOST_SCALE)) & (array.dtype == "f32")
            if wrong.any():
                value = arrays[array.name][wrong].flat[0]
                raise RequestError(f"array {array.name}: it has {value}; expected numbers from 0 to 2^50")

    def weight_error(self, problem: Problem) -> float:
        """Logarithms of scales up to 50, with an exponent an ulp off and two roundings, and a reciprocal."""
        return 4 * 64 * UNIT

    def scales(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """See `Part`: as kernels take them."""
        found = np.asarray(self.stored(problem, name, place, arrays), np.float64)
        return np.maximum(found, LEAST_SCALE)

    @abstractmethod
    def stored(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array:
        """What memory holds for a place's q, k or v, as (rows, 1), or one number."""


@dataclass(frozen=True)
class HeadScales(Scales):
    """q_scales (sequences, h), k_scales and v_scales (sequences, hk)."""

    name = "headscales"
    kind = "head"
    keys = (KEY,)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> HeadScales | None:
        return cls() if cls.wanted(values, problem) else None

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        shapes = {"q": (problem.b, problem.h), "k": (problem.b, problem.hk), "v": (problem.b, problem.hk)}
        return tuple(array_spec(f"{name}_scales", shape, "f32", "in") for name, shape in shapes.items())

    def stored(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array:
        head = place.head if name == "q" else place.head // (problem.h // problem.hk)
        found: Array = arrays[f"{name}_scales"][place.number, head]
        return found

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        from ckmlir.lang import ptr

        return {f"{name}_scales": ptr("f32", alignment=4) for name in "qkv"}

    @classmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Any:
        from ckmlir.ops.attention.loop.scales_kernel import Uniform

        shared = work.batch * (given.h // given.ratio) + work.shared
        q = given.q_scales.scalar(work.batch * given.h + work.head).maximum(LEAST_SCALE)
        k, v = (one.scalar(shared).maximum(LEAST_SCALE) for one in (given.k_scales, given.v_scales))
        return Uniform(given.scale * q * k, [v])
