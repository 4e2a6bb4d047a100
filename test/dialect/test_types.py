"""Types and the Python objects that describe them: both ways, and only ValueError for what is malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.dialect.context import shared_context
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.scalars import bits, dtype_of, element_type
from ckmlir.dialect.types import LdsType, TileType, ViewType, WindowType, describe, is_ck, is_tile, tile_of
from ckmlir.mlir import ir

DISTRIBUTION = Distribution.parse("d0: 4@wave 16@lane, d1: 4@lane 8@y0")
DESCRIPTOR = Descriptor.naive([64, 32], [32, 1], 8)


@pytest.fixture(autouse=True)
def _context(context: ir.Context) -> None:
    pass


@pytest.mark.parametrize("space", ["global", "lds"])
@pytest.mark.parametrize("element", ["f16", "f32", "i8", "f8E4M3FNUZ"])
def test_descriptions_and_types_turn_into_each_other(element: str, space: str) -> None:
    type_ = ir.Type.parse(element)
    for description in (
        ViewType(type_, space, DESCRIPTOR),
        WindowType(type_, space, DESCRIPTOR, (16, 32)),
        TileType((64, 32), type_, DISTRIBUTION),
        TileType((64, 32), type_, None),
        LdsType((64, 32), type_),
    ):
        printed = ir.Type.parse(str(description.mlir()))
        assert describe(printed) == description
        assert is_ck(printed) and is_tile(printed) == isinstance(description, TileType)


def test_a_tile_whose_distribution_is_unknown_says_so() -> None:
    with pytest.raises(ValueError, match="not known yet; run ck-infer-distributions first"):
        TileType((4,), ir.F32Type.get(), None).placed  # noqa: B018  (the property raises)


def test_other_types_are_none_of_ours() -> None:
    assert not is_ck(ir.F32Type.get()) and not is_tile(ir.Type.parse("vector<4xf32>"))
    with ir.Location.unknown():
        module = ir.Module.parse("%0 = arith.constant 0 : i32")
    with pytest.raises(TypeError, match="expected a tile, got i32"):
        tile_of(module.body.operations[0].results[0])


TEXTS = st.sampled_from(
    ["d0: 64@lane", "d0: 4@", "d0: 4@lane.1", "?", "d0 = embed(offset, lengths=[4], strides=[1])", "a b"]
)
PARAMETERS = (
    st.text("d01:@ylanewv, .?x", max_size=12).map(lambda text: f'"{text}"')
    | TEXTS.map(lambda text: f'"{text}"')
    | st.sampled_from(
        ["[64]", "[]", "[-1, 64]", '["a"]', "f32", "i1", "index", "!ck.lds<[4], f32>", "4", "unit", "[[4]]"]
    )
)


@given(st.sampled_from(["tile", "view", "window", "lds"]), st.data())
def test_malformed_parameters_give_a_sentence(name: str, data: st.DataObject) -> None:
    count = {"tile": 3, "view": 3, "window": 4, "lds": 2}[name]
    parameters = data.draw(st.lists(PARAMETERS, min_size=count, max_size=count))
    with shared_context():
        type_ = ir.Type.parse(f"!ck.{name}<{', '.join(parameters)}>")
        try:
            description = describe(type_)
        except ValueError as problem:
            assert len(str(problem)) > 10
        else:
            assert describe(description.mlir()) == description


@pytest.mark.parametrize(
    ("name", "flavour", "mlir", "size"),
    [
        ("f16", None, "f16", 16), ("bf16", None, "bf16", 16), ("i1", None, "i1", 1), ("i64", None, "i64", 64),
        ("fp8", "fnuz", "f8E4M3FNUZ", 8), ("fp8", "ocp", "f8E4M3FN", 8),
        ("bf8", "fnuz", "f8E5M2FNUZ", 8), ("bf8", "ocp", "f8E5M2", 8),
    ],
)  # fmt: skip
def test_dtypes_have_an_element_type_and_back(name: str, flavour: str | None, mlir: str, size: int) -> None:
    type_ = element_type(name, flavour)
    assert (str(type_), bits(type_), dtype_of(type_)) == (mlir, size, name)


def test_dtypes_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="this chip has no fp8"):
        element_type("fp8", None)
    with pytest.raises(ValueError, match="unknown dtype 'float'; there are f16,"):
        element_type("float", None)
