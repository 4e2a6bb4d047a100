"""Parts that a request adds to attention: what they ask, read, compute and promise, each in a file of its own.

A part is made of the request's keys (`asked`), names what the kernel's code depends on of it (`word`), and has two
halves: NumPy's, and the kernel's, which imports the language when it is traced. `parts/` has those of `fmha_fwd`;
docs/adding_operators.md adds one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.attention.problem import LEAST_SCALE, MOST_SCALE, Place, Problem
from ckmlir.ops.comparison import Array
from ckmlir.ops.operator import Argument
from ckmlir.ops.precision import OVERFLOW, UNIT
from ckmlir.ops.request import Key
from ckmlir.ops.spec import Reason

if TYPE_CHECKING:
    from ckmlir.ops.attention.fmha_fwd_spec import FmhaFwdSpec
    from ckmlir.ops.attention.loop.loop_kernel import Form, Score, Weights
    from ckmlir.ops.attention.loop.scales_kernel import Scaling
    from ckmlir.ops.attention.loop.spans_kernel import Reach
    from ckmlir.ops.attention.loop.work_kernel import Work


class Part(ABC):
    """Something that a request adds; frozen, with what it asks for as its fields.

    Attributes:
        name: the first word of what specifications and kernels call it; letters and digits.
        keys: of requests. They are left out unless the part is wanted.
        packs: whether it works for blocks with rows of several heads (`block_rows_kernel.HeadsTogether`).
    """

    name: ClassVar[str]
    keys: ClassVar[tuple[Key, ...]]
    packs: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def asked(cls, values: Mapping[str, Any], problem: Problem) -> Part | None:
        """The part as the keys' values ask for it, None where they do not. Raises RequestError."""

    @property
    def word(self) -> str:
        """What the kernel's code depends on: the name, and choices behind it, joined by underscores."""
        return self.name

    def arrays(self, problem: Problem) -> tuple[ArraySpec, ...]:
        """Its arrays, in the order of the kernel's arguments."""
        return ()

    def numbers(self, problem: Problem) -> tuple[Argument, ...]:
        """The kernel's arguments behind them."""
        return ()

    def scales(self, problem: Problem, name: str, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """What the elements of a place's q, k or v (rows, channels) stand for themselves times of, in float64."""
        return 1.0

    def arguments(self, problem: Problem) -> tuple[Argument, ...]:
        """What the kernel is given: its arrays, unless it reads others that earlier steps made of them, and numbers."""
        return (*(array.name for array in self.arrays(problem)), *self.numbers(problem))

    def values(self, problem: Problem, array: ArraySpec, generator: np.random.Generator) -> Array:
        """Values of an input array."""
        values: Array = generator.standard_normal(array.shape, dtype=np.float32)
        return values

    def together(self, problem: Problem, generator: np.random.Generator) -> Mapping[str, Array]:
        """Values of input arrays that have to agree with each other, by name."""
        return {}

    def check(self, problem: Problem, arrays: Mapping[str, Array]) -> None:
        """Raise RequestError for arrays that nobody can mean."""
        return

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        """The kernel's arguments by name: pointers to the arrays, then the numbers."""
        return {}


class ScorePart(Part):
    """What is done to scores, which are natural exponents in NumPy and in kernels."""

    @property
    def bounds(self) -> str:
        """What weights may be taken from since it bounds scores, see `ops.attention.level.taken_from`."""
        return ""

    @property
    def word(self) -> str:
        """See `Part`."""
        return f"{self.name}_{self.bounds}" if self.bounds else self.name

    @abstractmethod
    def changed(self, problem: Problem, scores: Array, place: Place, arrays: Mapping[str, Array]) -> Array:
        """The scores (rows, keys) of a place, changed."""

    def error(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """What it adds at most to the error of each score of a place, infinite where nothing is promised."""
        return 0.0

    def added_to_all(self, problem: Problem) -> float:
        """What natural exponents have more than scores in kernels, and an exponent that joins them as well."""
        return 0.0

    @classmethod
    @abstractmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Score:
        """The part of the loop over keys; `given` has the kernel's arguments."""


class ScalePart(Part):
    """What elements of Q, K and V stand for themselves times of; a problem has one such part at most."""

    def moved(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """How far scores of a place may be off since Q and K are rounded before the kernel, not finite where nothing is
        promised; see `moved_scores`."""
        return 0.0

    def weight_error(self, problem: Problem) -> float:
        """What it adds at most to the relative error of a weight, or of a sum of weights."""
        return 0.0

    @classmethod
    @abstractmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form) -> Scaling:
        """What takes the scales in; `given.scale` is that of the scores."""


class AddedPart(ScorePart):
    """A number is added to each score."""

    @abstractmethod
    def added(self, place: Place, arrays: Mapping[str, Array]) -> Array:
        """What is added to the scores (rows, keys) of a place, in float64."""

    def factor(self, place: Place, arrays: Mapping[str, Array]) -> float:
        """What all of that is multiples of, if anything: f32 has to hold it too, or a multiple by zero is NaN."""
        return 0.0

    def changed(self, problem: Problem, scores: Array, place: Place, arrays: Mapping[str, Array]) -> Array:
        """See `ScorePart`."""
        with np.errstate(invalid="ignore"):
            return scores + self.added(place, arrays)

    def error(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        """Up to seven roundings of what is added and one of the sum, of which the score's part is counted with the
        score. Infinite where f32 does not hold what is added as an exponent to the base 2, or as a product."""
        with np.errstate(invalid="ignore"):
            size, (least, most) = np.abs(self.added(place, arrays)), product_scales(problem)
        held = np.maximum(np.maximum(size, np.abs(self.factor(place, arrays))), 1.0)
        fits = (held / min(least, 1.0) < OVERFLOW / 4) & (most < OVERFLOW / 8)
        return np.where(fits, 8 * UNIT * size, np.where(size < np.inf, np.inf, 0.0))


class KeyPart(Part):
    """Which keys queries attend to, of those that the mask leaves them."""

    @abstractmethod
    def kept(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
        """Whether each query of a place attends to each key: (rows, keys)."""

    @classmethod
    @abstractmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, reach: Reach) -> Reach:
        """The keys of a block of queries, of those in `reach`; `given` has the kernel's arguments."""

    @classmethod
    def unfit(cls, word: str, spec: FmhaFwdSpec) -> Iterator[Reason]:
        """Why a kernel cannot have this part."""
        if not spec.pad_sk:
            yield Reason("pad_sk", spec.pad_sk, "which keys there are is found block by block", "expected 1")


class WeightPart(Part):
    """What is done to the softmax.

    Attributes:
        levels: whether it works for weights that are not taken from the largest score (`weights_kernel.Level`).
    """

    levels: ClassVar[bool] = False

    @property
    def largest_factor(self) -> float:
        """The largest of `factors`."""
        return 1.0

    @property
    def multiplier(self) -> float:
        """The number that `factor` gives the kernel, 1 for none."""
        return self.largest_factor

    def logit(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> float:
        """An exponent that joins the sum of every query."""
        return -np.inf

    def logit_error(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> float:
        """The error of that exponent, infinite where nothing is promised."""
        return 0.0

    def factors(self, problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array | float:
        """What the weights (rows, keys) of a place are multiplied with behind the sum."""
        return 1.0

    def outputs(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays that it writes."""
        return {}

    def written(self, problem: Problem, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Which elements of them something is promised of."""
        return {}

    @classmethod
    @abstractmethod
    def traced(cls, word: str, given: Any, work: Work, form: Form, weights: Weights) -> Weights:
        """The weights with this part."""

    @classmethod
    def factor(cls, word: str, given: Any) -> Any | None:
        """A scalar that O is multiplied with, if any."""
        return None


def product_scales(problem: Problem) -> tuple[float, float]:
    """The least and the largest that makes natural exponents of products of elements."""
    least, most = (LEAST_SCALE, MOST_SCALE) if scale_parts(problem) else (1.0, 1.0)
    return problem.score_scale * least**2, problem.score_scale * most**2


def find_part(kinds: Sequence[type[Part]], word: str) -> type[Part]:
    """The kind of part that a word of a specification belongs to. Raises KeyError."""
    return {kind.name: kind for kind in kinds}[word.partition("_")[0]]


def score_parts(problem: Problem) -> tuple[ScorePart, ...]:
    """What is done to scores, in order."""
    return tuple(part for part in problem.parts if isinstance(part, ScorePart))


def scale_parts(problem: Problem) -> tuple[ScalePart, ...]:
    """What elements stand for themselves times of, beside the scales of tensors."""
    return tuple(part for part in problem.parts if isinstance(part, ScalePart))


def key_parts(problem: Problem) -> tuple[KeyPart, ...]:
    """What says which keys queries attend to."""
    return tuple(part for part in problem.parts if isinstance(part, KeyPart))


def kept_keys(problem: Problem, place: Place, arrays: Mapping[str, Array]) -> Array:
    """Whether each query of a place attends to each key, by the mask and all parts: (rows, keys)."""
    kept: Array = problem.mask.kept(place.rows, place.queries, place.keys)
    for part in key_parts(problem):
        kept = kept & part.kept(problem, place, arrays)
    return kept


def weight_parts(problem: Problem) -> tuple[WeightPart, ...]:
    """What is done to the softmax."""
    return tuple(part for part in problem.parts if isinstance(part, WeightPart))
