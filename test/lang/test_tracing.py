"""Tracing: what a Python function becomes, where its operations say they come from, and what is refused."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.schedule import Schedule
from ckmlir.lang import (
    Kernel,
    TracingError,
    bitcast,
    cast,
    f32,
    full,
    i32,
    i64,
    kernel,
    load,
    loop,
    ptr,
    reduce_max,
    stage,
    store,
    view,
    where,
    workgroup_id,
    zeros,
)
from ckmlir.mlir import ir
from ckmlir.targets import get_target

TARGET = get_target("gfx942")
LANES = Distribution.parse("d0: 64@lane")


def trace(body: Callable[..., None], chip: str = "gfx942") -> Kernel:
    """A kernel of one wave whose body gets an i32, an f32, an i64 and a pointer."""

    @kernel("traced", target=get_target(chip), waves=1)
    def traced(n: i32, x: f32, wide: i64, p: ptr("f32")) -> None:
        body(n, x, wide, p)

    with traced.module.context:
        assert traced.module.operation.verify()
    return traced


def discard(value: Any) -> None:
    """What a body computes is of no use but for having been traced."""


def operations(traced: Kernel) -> list[ir.Operation]:
    function = traced.module.body.operations[0].operation.regions[0].blocks[0].operations[0].operation
    return [op.operation for op in function.regions[0].blocks[0]]


def names(traced: Kernel) -> list[str]:
    return [op.name for op in operations(traced)][:-1]


def test_a_kernel_has_its_arguments_target_and_waves() -> None:
    traced = trace(lambda n, x, wide, p: None)
    text = str(traced.module)
    assert 'chip = "gfx942"' in text and "ck.waves = 1" in text
    assert re.search(r"%arg3: !llvm.ptr<1> \{ck.name = \"p\", llvm.align = 16", text)
    assert names(traced) == []


# -- scalars


@pytest.mark.parametrize(
    ("compute", "operation"),
    [
        (lambda n, x: n + 1, "arith.addi"), (lambda n, x: 1 + n, "arith.addi"), (lambda n, x: n - 1, "arith.subi"),
        (lambda n, x: n * n, "arith.muli"), (lambda n, x: n // 2, "arith.divsi"), (lambda n, x: n % 2, "arith.remsi"),
        (lambda n, x: 7 // n, "arith.divsi"), (lambda n, x: 7 % n, "arith.remsi"), (lambda n, x: n & 1, "arith.andi"),
        (lambda n, x: n | 1, "arith.ori"), (lambda n, x: n ^ 1, "arith.xori"), (lambda n, x: n << 1, "arith.shli"),
        (lambda n, x: n >> 1, "arith.shrsi"), (lambda n, x: -n, "arith.subi"), (lambda n, x: n < 3, "arith.cmpi"),
        (lambda n, x: n.equals(3), "arith.cmpi"), (lambda n, x: n.minimum(3), "arith.minsi"),
        (lambda n, x: x + 1.5, "arith.addf"), (lambda n, x: 2 * x, "arith.mulf"), (lambda n, x: 1 / x, "arith.divf"),
        (lambda n, x: -x, "arith.negf"), (lambda n, x: x >= 0, "arith.cmpf"),
        (lambda n, x: x.maximum(0), "arith.maxnumf"),
        (lambda n, x: n.to("f32"), "arith.sitofp"), (lambda n, x: n.to("i64"), "arith.extsi"),
    ],
)  # fmt: skip
def test_scalar_operators(compute: Callable[..., Any], operation: str) -> None:
    assert names(trace(lambda n, x, wide, p: discard(compute(n, x))))[-1] == operation


def test_swapped_operands_keep_their_sides() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        assert (10 - n).value.owner.operands[1] == n.value
        assert (n - 10).value.owner.operands[0] == n.value
        assert (10 // n).value.owner.operands[1] == n.value

    trace(body)


def test_what_is_known_of_a_stride_decides_the_alignment_of_a_pointer() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        assert p.offset(4).alignment == 16
        assert p.offset(1).alignment == 4
        assert p.offset(n).alignment == 4
        assert p.offset(n.multiple_of(2)).alignment == 8

    trace(body)


# -- tiles


def test_tiles_and_numbers_meet_element_by_element() -> None:
    traced = trace(lambda n, x, wide, p: discard(full((64,), 1, "f32", LANES) * x + 2.0))
    text = str(traced.module)
    assert text.count('"ck.map"') == 2 and text.count('"ck.element"') == 2
    assert "arith.mulf" in text and "fastmath<contract>" in text


def test_the_bits_of_a_tile_as_another_type() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        tile = full((64,), 1, "f32", LANES)
        exponent = bitcast(tile, "i32") & 0x7F800000
        assert str(exponent.element) == "i32" and str(bitcast(exponent, "f32").element) == "f32"
        with pytest.raises(TypeError, match="f32 has 32 bits, f16 has 16"):
            bitcast(tile, "f16")

    assert str(trace(body).module).count("arith.bitcast") == 2


def test_comparisons_give_tiles_of_conditions_for_where() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        tile = zeros((64,), "f32", LANES)
        condition = tile < x
        assert str(condition.element) == "i1" and condition.type.distribution == LANES
        assert str(where(condition, tile, 0).element) == "f32"

    trace(body)


def test_a_new_axis_is_broadcast_against_what_it_meets() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        tile = zeros((64, 4), "f32", Distribution.parse("d0: 64@lane, d1: 4@y0"))
        assert (tile - reduce_max(tile, 1)[:, None]).lengths == (64, 4)
        with pytest.raises(ValueError, match=re.escape("a tile of [64] with a new axis 0 does not fit [64, 4]")):
            tile - reduce_max(tile, 1)[None, :]

    assert "ck.broadcast" in names(trace(body))


def test_loops_carry_tiles_and_scalars() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        with loop(0, n, 1, carry=[zeros((64,), "f32", LANES), n], schedule=Schedule("s", (("load", 1),))) as step:
            total, count = step.carried
            with stage("load"):
                tile = load(view(p, (n,), (1,)).pad(64).window((64,), (step.index,)))
            step.carry(total + tile, count + 1)
        total, count = step.results
        store(total, view(p, (n,), (1,)).pad(64).window((64,), (count,)))

    traced = trace(body)
    text = str(traced.module)
    assert 'ck.schedule = "schedule s 1; ahead load 1"' in text
    stages = re.findall(r'"(ck\.\w+)".*ck.stage = "load"', text)
    assert stages == ["ck.make_view", "ck.make_window", "ck.load"], "what is traced in a stage belongs to it"


# -- locations


def test_every_operation_comes_from_the_line_that_made_it() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        zeros((64,), "f32", LANES) + 1.0  # second line of this function

    first = inspect.getsourcelines(body)[1]
    traced = trace(body)
    for op in operations(traced)[:-1]:
        inner = [one.operation for region in op.regions for block in region for one in block]
        for one in (op, *inner):
            assert str(one.location) == f'loc("{__file__}":{first + 1}:0)'


def test_a_mistake_that_only_verification_finds_names_the_line() -> None:
    def body(n: Any, x: Any, wide: Any, p: Any) -> None:
        workgroup_id(3)

    line = inspect.getsourcelines(body)[1] + 1
    with pytest.raises(TracingError, match=rf"test_tracing.py:{line}:0: error: workgroup_id: axis 3 is not 0"):
        trace(body)


# -- what is refused


@pytest.mark.parametrize(
    "use", [lambda: zeros((64,), "f32"), lambda: workgroup_id(0), lambda: loop(0, 1, 1), lambda: stage("a").__enter__()]
)
def test_outside_a_kernel(use: Callable[[], Any]) -> None:
    with pytest.raises(TracingError, match="tile operations belong inside a @kernel function"):
        use()


def nested_stages(n: Any, x: Any) -> None:
    with loop(0, n, 1), stage("a"), stage("b"):
        pass


def stage_without_with(n: Any, x: Any) -> None:
    with loop(0, n, 1):
        stage("a")


def stage_outside(n: Any, x: Any) -> None:
    with stage("a"):
        pass


def carry_twice(n: Any, x: Any) -> None:
    with loop(0, n, 1, carry=[n]) as step:
        step.carry(n)
        step.carry(n)


def after_carry(n: Any, x: Any) -> None:
    with loop(0, n, 1, carry=[n]) as step:
        step.carry(n)
        n + 1


def too_few(n: Any, x: Any) -> None:
    with loop(0, n, 1, carry=[n, n]) as step:
        step.carry(n)


def nothing_carried(n: Any, x: Any) -> None:
    with loop(0, n, 1, carry=[n]):
        pass


def other_type(n: Any, x: Any) -> None:
    with loop(0, n, 1, carry=[n]) as step:
        step.carry(x)


def truth(n: Any, x: Any) -> None:
    if n < 3:
        n + 1


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (nested_stages, TracingError, "stage 'b' inside stage 'a': stages do not nest"),
        (stage_outside, TracingError, "stage 'a' stands outside a loop"),
        (stage_without_with, TracingError, "stage('a') alone does nothing: write with stage('a'):"),
        (carry_twice, TracingError, "the loop hands its values on already"),
        (after_carry, TracingError, "nothing can follow carry in a loop's body"),
        (too_few, TracingError, "the loop carries 2 values, 1 is handed on"),
        (nothing_carried, TracingError, "the loop carries 1 value, 0 are handed on"),
        (other_type, TypeError, "the loop carries i32, f32 is handed on"),
        (truth, TypeError, "a traced value has no truth at tracing time, so if, and, or"),
        (lambda n, x: loop(0, n, 0), ValueError, "its step is at least 1, not 0"),
        (lambda n, x: loop(0, x, 1), TypeError, "a scalar of f32 meets i32; convert one with .to(…)"),
        (lambda n, x: n + 2.5, TypeError, "2.5 meets i32; integers are written without a point"),
        (lambda n, x: n + (1 << 32), ValueError, "4294967296 does not fit into i32"),
        (lambda n, x: n + x, TypeError, "a scalar of f32 meets i32"),
        (lambda n, x: n / 2, TypeError, "'/' has no meaning for i32"),
        (lambda n, x: x // 2, TypeError, "'//' has no meaning for f32"),
        (lambda n, x: n + "1", TypeError, "expected a number or a scalar, got '1'"),
        (lambda n, x: x.to("i32"), TypeError, "a scalar of f32 does not become i32"),
        (lambda n, x: zeros((64,), "f32") + zeros((64,), "f16"), TypeError, "'+' meets f32 and f16; cast one"),
        (lambda n, x: zeros((64,), "f32") < n, TypeError, "'<' meets f32 and i32; cast one"),
        (lambda n, x: zeros((64,), "f32") + zeros((32,), "f32"), ValueError, "tiles of [64] and [32] do not meet"),
        (lambda n, x: zeros((64, 2), "f32")[0], TypeError, "a tile is indexed by ':' for each of its 2 dimensions"),
        (lambda n, x: zeros((64,), "float"), ValueError, "unknown dtype 'float'"),
        (lambda n, x: where(zeros((64,), "i1"), 1, 2), TypeError, "where needs a tile as one of its two values"),
        (lambda n, x: cast(zeros((64,), "f32"), "double"), ValueError, "unknown dtype 'double'"),
    ],
)  # fmt: skip
def test_refused_while_tracing(body: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        trace(lambda n, x, wide, p: discard(body(n, x)))


def test_a_chip_without_8_bit_floats() -> None:
    with pytest.raises(ValueError, match="this chip has no fp8"):
        trace(lambda n, x, wide, p: discard(zeros((64,), "fp8")), "gfx90a")


def test_arguments_need_annotations_that_are_values() -> None:
    message = "argument 'n' needs an annotation: ptr(dtype), i32, i64, f32 or f64"
    with pytest.raises(TypeError, match=re.escape(message)):

        @kernel("k", target=TARGET, waves=1)
        def without(n) -> None:  # type: ignore[no-untyped-def]  # what is tested
            pass

    with pytest.raises(TypeError, match="it is text: `from __future__ import annotations` hides its value"):

        @kernel("k", target=TARGET, waves=1)
        def as_text(n: "i32") -> None:
            pass


def test_a_kernel_that_fails_leaves_tracing_in_order() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda n, x, wide, p: discard(1 // 0))
    with pytest.raises(TracingError, match="belong inside a @kernel function"):
        zeros((64,), "f32")
    assert names(trace(lambda n, x, wide, p: discard(n + 1))) == ["arith.constant", "arith.addi"]
