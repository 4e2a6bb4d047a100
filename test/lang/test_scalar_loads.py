"""Scalars that memory holds: read once for the workgroup, by a scalar load, wherever they are then used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution_builders import coalesced
from ckmlir.lang import exit_unless, i32, kernel, load, loop, ptr, store, together, view, workgroup_id
from ckmlir.targets import get_target


@pytest.mark.parametrize("chip", CHIPS)
def test_bounds_origins_and_factors_from_memory(chip: str) -> None:
    """y[g] = factor[g] * (the sum of x's tiles begin[g] up to begin[g + 1])."""
    arguments = {"x": ptr("f32"), "begin": ptr("i32"), "factor": ptr("f32"), "y": ptr("f32"), "n": i32}

    @kernel("sums", target=get_target(chip), waves=1, arguments=arguments)
    def sums(given: Any) -> None:
        group = workgroup_id(0)
        begin, end = given.begin.scalar(group), given.begin.scalar(group + 1)
        lies = coalesced((64,), 1, 0, 1)
        tiles = view(given.x, (given.n,), (1,)).pad(64)
        with loop(begin + 1, end, 1, carry=[load(tiles.window((64,), (begin * 64,)), lies)]) as step:
            step.carry(step.carried[0] + load(tiles.window((64,), (step.index * 64,)), lies))
        result = step.results[0] * given.factor.scalar(group)
        store(result, view(given.y, (3, 64), (64, 1)).freeze(0, group).window((64,), (0,)))

    compiled = compile_traced(sums)
    assert "readfirstlane" not in compiled.assembly
    x = np.random.default_rng(0).integers(-9, 9, 64 * 9).astype(np.float32)
    begin, factor = np.array([0, 2, 3, 9], np.int32), np.array([2, -1, 0.5], np.float32)
    *_, y = compiled.run(x, begin, factor, np.zeros((3, 64), np.float32), x.size, grid=(3, 1, 1))
    tiles = x.reshape(9, 64)
    np.testing.assert_array_equal(y, [2 * tiles[:2].sum(0), -tiles[2], tiles[3:].sum(0) / 2])


def test_types_that_are_no_scalars() -> None:
    with pytest.raises(TypeError, match="scalars are i32, i64, f32 or f64; the pointer is to f16"):

        @kernel("wrong", target=get_target("gfx942"), waves=1, arguments={"x": ptr("f16")})
        def wrong(given: Any) -> None:
            given.x.scalar(0)


@pytest.mark.parametrize("chip", CHIPS)
def test_what_comes_together(chip: str) -> None:
    """What is loaded ahead of an early exit, and used behind it, is on its way while the exit waits for its numbers; a
    number that is known early is not waited for before another is asked for. Nothing else changes.
    """
    arguments = {"x": ptr("i32"), "limit": ptr("i32"), "kinds": ptr("i32"), "y": ptr("i32"), "n": i32}

    def compiled(joined: bool) -> Any:
        @kernel("early", target=get_target(chip), waves=1, arguments=arguments)
        def early(given: Any) -> None:
            group = workgroup_id(0)
            whole, target = (view(one, (given.n, 64), (64, 1)).freeze(0, group) for one in (given.x, given.y))
            limit, kind = given.limit.scalar(0), given.kinds.scalar(group // given.n + group)
            row = load(whole.window((64,), (0,)))
            if joined:
                together(limit, kind, row)
            exit_unless((group < limit.minimum(given.n)) & (kind > 0))
            store(row * row + kind, target.window((64,), (0,)))

        return compile_traced(early)

    x = np.random.default_rng(3).integers(-9, 9, (3, 64)).astype(np.int32)
    for joined in (True, False):
        found = compiled(joined)
        *_, y = found.run(x, np.array([2], np.int32), np.array([4, -1, 5], np.int32), np.zeros((3, 64), np.int32), 3,
                          grid=(3, 1, 1), checks="all")  # fmt: skip
        np.testing.assert_array_equal(y, [x[0] * x[0] + 4, np.zeros(64), np.zeros(64)])
        before = found.assembly.partition("s_cbranch")[0]
        assert ("buffer_load" in before) == joined


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda given: together(given.n, given.x.scalar(0)), "together takes values that are loaded in the same block"),
    (lambda given: together(given.x.scalar(0) + 1), "together takes values that are loaded in the same block"),
    (lambda given: together(load(view(given.x, (64,), (1,)).window((64,), (0,)))), "takes at least one scalar"),
])  # fmt: skip
def test_what_cannot_come_together(wrong: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):

        @kernel("wrong", target=get_target("gfx942"), waves=1, arguments={"x": ptr("i32"), "n": i32})
        def refused(given: Any) -> None:
            wrong(given)


def test_what_another_block_has_loaded_does_not_come_together() -> None:
    with pytest.raises(TypeError, match="loaded in the same block"):

        @kernel("wrong", target=get_target("gfx942"), waves=1, arguments={"x": ptr("i32")})
        def refused(given: Any) -> None:
            before = given.x.scalar(0)
            exit_unless(before > 0)
            together(before, given.x.scalar(1))
