"""Tiles with their dimensions in another order, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_runner import CHIPS, compile_traced

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.mma import Mma
from ckmlir.lang import (
    Kernel,
    Pointer,
    cast,
    kernel,
    load,
    mma,
    permute_axes,
    ptr,
    redistribute,
    store,
    to_lds,
    view,
    zeros,
)
from ckmlir.targets import get_target

CUBE = (4, 16, 8)
LAYOUT = Distribution.parse("d0: 2@y0 2@wave, d1: 16@lane, d2: 4@lane 2@y1")


def turn_kernel(chip: str, order: tuple[int, ...], *, given: bool) -> Kernel:
    """y = x with its dimensions in another order, by registers; the layout of y is that of what is loaded, or x's
    follows from that of y."""
    lengths = tuple(CUBE[dim] for dim in order)
    turned = LAYOUT.permute(order)

    @kernel("turn", target=get_target(chip), waves=2, arguments={"x": ptr("f32"), "y": ptr("f32")})
    def turn(x: Pointer, y: Pointer) -> None:
        source = view(x, CUBE, (128, 8, 1)).window(CUBE, (0, 0, 0))
        target = view(y, lengths, (lengths[1] * lengths[2], lengths[2], 1)).window(lengths, (0, 0, 0))
        tile = permute_axes(load(source, LAYOUT if given else None), *order)
        store(tile + tile if given else tile + zeros(lengths, "f32", turned) + tile, target)

    return turn


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("given", [True, False])
def test_every_order(order: tuple[int, int, int], given: bool) -> None:
    """Every element comes out where NumPy's transpose has it, whichever side the layout is known of."""
    data = np.random.default_rng(1).standard_normal(CUBE).astype(np.float32)
    expected = 2 * data.transpose(order)
    compiled = compile_traced(turn_kernel("gfx942", order, given=given))
    _, result = compiled.run(data, np.zeros(expected.shape, np.float32), checks="all")
    np.testing.assert_array_equal(result, expected)
    assert "ds_" not in compiled.assembly  # no data leaves its lane


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_is_the_transposed_operand_of_the_next(chip: str) -> None:
    """(a · bᵀ)ᵀ · c by way of LDS, and by way of an operand that is read across, as gradients need both."""
    target = get_target(chip)
    first = Mma.select(target, "16x16x16", "f16", block_k=16, transposed=True)
    waves, size = (1, 1), 32

    @kernel("chain", target=target, waves=1, arguments=dict.fromkeys("abc", ptr("f16")) | {"y": ptr("f32")})
    def chain(a: Pointer, b: Pointer, c: Pointer, y: Pointer) -> None:
        def square(pointer: Pointer) -> object:
            return view(pointer, (size, size), (size, 1)).window((size, size), (0, 0))

        left = load(square(a), first.a_over(waves, size, size))
        right = load(square(b), first.b_over(waves, size, size))
        nothing = zeros((size, size), "f32", first.c_over(waves, size, size))
        product = cast(mma(first, left, right, nothing), "f16")
        turned = redistribute(permute_axes(product, 1, 0), first.a_over(waves, size, size))
        across = to_lds(load(square(c))).read(first.b_over(waves, size, size).permute((1, 0)))
        store(mma(first, turned, permute_axes(across, 1, 0), nothing), square(y))

    random = np.random.default_rng(2)
    a, b, c = (random.integers(-2, 3, (size, size)).astype(np.float16) for _ in range(3))
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).T @ c.astype(np.float32)  # whole numbers: exact
    *_, result = compile_traced(chain).run(a, b, c, np.zeros((size, size), np.float32), checks="all")
    np.testing.assert_array_equal(result, expected)
