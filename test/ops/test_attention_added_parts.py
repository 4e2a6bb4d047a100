"""Parts that are written outside the package: something done to scores, and a source of K and V."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ckmlir.compiler import compile_traced
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import cast, exit_unless, f32, gather, i32, kernel, load, minimum, ptr, store, view, workgroup_id
from ckmlir.ops.attention.fmha_fwd import FmhaFwd
from ckmlir.ops.attention.fmha_fwd_kernel import form_of
from ckmlir.ops.attention.loop.loop_kernel import Form, Keys, MatrixProducts, Score, Span, attend, nothing
from ckmlir.ops.attention.loop.masks_kernel import Below
from ckmlir.ops.attention.loop.storage_kernel import Storage
from ckmlir.ops.attention.loop.weights_kernel import Softmax, Units
from ckmlir.ops.attention.part import ScorePart
from ckmlir.ops.attention.parts import PARTS
from ckmlir.ops.attention.parts.cache import Cache
from ckmlir.ops.attention.parts.dense import Dense
from ckmlir.ops.attention.parts.page_lists import PageLists
from ckmlir.ops.attention.parts.pages import Pages
from ckmlir.ops.attention.problem import Place
from ckmlir.ops.request import Real
from ckmlir.ops.schedules import ATTENTION
from ckmlir.runtime import check_outputs, open_device, run_operator
from ckmlir.targets import get_target

LOG2_E = math.log2(math.e)
MOST_LINES = 80
"""Of a file with something done to scores, or with a source of K and V."""


@pytest.mark.parametrize(
    "kind", [*(part for part in PARTS if issubclass(part, ScorePart)), Dense, Cache, Pages, PageLists]
)
def test_a_part_is_one_short_file(kind: type) -> None:
    lines, _ = inspect.getsourcelines(inspect.getmodule(kind))  # type: ignore[arg-type]
    assert len(lines) <= MOST_LINES


@dataclass(frozen=True)
class Ceiling(ScorePart):
    """Scores are at most a number."""

    most: float

    name = "ceiling"
    keys = (Real("ceiling", None, "scores are at most this"),)

    @classmethod
    def asked(cls, values: Mapping[str, Any], problem: Any) -> Ceiling | None:
        return None if values["ceiling"] is None else cls(values["ceiling"])

    def numbers(self, problem: Any) -> tuple[Any, ...]:
        return (np.float32(self.most),)

    def changed(self, problem: Any, scores: Any, place: Place, arrays: Any) -> Any:
        return np.minimum(scores, self.most)

    @classmethod
    def parameters(cls, word: str) -> dict[str, Any]:
        return {"ceiling": f32}

    @classmethod
    def traced(cls, word: str, given: Any, work: Any, form: Form) -> Score:
        class AtMost(Score):
            def apply(self, scores: Any, key: Any) -> Any:
                return minimum(scores, given.ceiling)

        return AtMost()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx950"])
def test_a_score_part(chip: str) -> None:
    operator, target = FmhaFwd((*PARTS, Ceiling)), get_target(chip)
    problem = operator.problem(h=1, sq=40, sk=70, d=32, ceiling=0.5, sink=1, lse=1)
    arrays = operator.inputs(problem, target, seed=1)
    plain = operator.reference(operator.problem(h=1, sq=40, sk=70, d=32, sink=1, lse=1), arrays)
    result = run_operator(operator, problem, arrays, target, open_device("sim", target, checks="all"))
    assert all(one.ok for one in check_outputs(operator, problem, arrays, result.outputs, target))
    assert np.abs(result.outputs["lse"] - plain["lse"]).max() > 0.1  # it did something


@dataclass
class Listed(Keys):
    """Keys and values at the places that a list names; it is read ahead of them."""

    form: Form
    k: Any
    v: Any
    places: Any

    def prepare(self, key: Any) -> None:
        """See `loop_kernel.Keys`."""
        window = self.places.window((self.form.keys,), (key,))
        self.for_k, self.for_v = load(window), load(window)

    def load_k(self, key: Any) -> Any:
        """See `loop_kernel.Keys`."""
        return gather(self.k.window((self.form.keys, self.form.d), (0, 0)), self.for_k, 0)

    def load_v(self, key: Any) -> Any:
        """See `loop_kernel.Keys`."""
        return gather(self.v.window((self.form.dv, self.form.keys), (0, 0)), self.for_v, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_a_source_of_keys(chip: str) -> None:
    """The schedule of all other sources serves it; its stage `prepare` runs ahead of the loads."""
    target, operator, d = get_target(chip), FmhaFwd(), 64
    spec = operator.spec(operator.problem(sq=100, sk=130, d=d), target)
    form = form_of(spec, target)
    schedule = Schedule.parse(ATTENTION["qr"])
    arguments = {**dict.fromkeys("qkvo", ptr("f16")), "places": ptr("i32"), "sq": i32, "count": i32, "rows": i32,
                 "scale": f32}  # fmt: skip

    @kernel("listed", target=target, waves=spec.waves, arguments=arguments)
    def listed(given: Any) -> None:
        first = workgroup_id(0) * form.queries
        exit_unless(first < given.sq)
        rows = {name: view(getattr(given, name), (length, d), (d, 1)) for name, length in (
            ("q", given.sq), ("k", given.rows), ("v", given.rows), ("o", given.sq))}  # fmt: skip
        window = rows["q"].pad(form.queries, d).window((form.queries, d), (first, 0))
        q = load(window, form.scores.a_over(form.waves, form.queries, d))
        places = view(given.places, (given.count,), (1,)).pad(form.keys)
        source = Listed(form, rows["k"].pad(form.keys, d), rows["v"].permute(1, 0).pad(d, form.keys), places)
        weights = Softmax(Units(given.scale))
        span = Span(0, given.count, [Below(given.count)])
        sums = attend(MatrixProducts(form, Storage()), q, span, source, weights, nothing(form, weights), schedule)
        inverse = 1.0 / sums.state[1]
        store(cast(sums.o * inverse[:, None], "f16"), rows["o"].pad(form.queries, d).window(sums.o.lengths, (first, 0)))

    generator = np.random.default_rng(1)
    q, k, v = (generator.standard_normal((length, d)).astype(np.float16) for length in (100, 400, 400))
    places, o = generator.integers(0, 400, 130).astype(np.int32), np.zeros((100, d), np.float16)
    device = open_device("sim", target, checks="all")
    memories = []
    for array in (q, k, v, o, places):
        memories.append(device.allocate(array.nbytes))
        device.write(memories[-1], array)
    numbers = (np.int32(100), np.int32(130), np.int32(400), np.float32(LOG2_E / 8))
    compiled = compile_traced(listed)
    block = (64 * spec.waves, 1, 1)
    device.launch(device.load(compiled.hsaco), compiled.kernel_name, (1, 1, 1), block, [*memories, *numbers])
    device.synchronize()
    device.read(o, memories[3])
    scores = q.astype(np.float64) @ k[places].astype(np.float64).T / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(o, weights @ v[places].astype(np.float64) / weights.sum(axis=1)[:, None], atol=2e-3)
