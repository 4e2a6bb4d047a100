"""What operations require that take a tile's rows with a number for each."""

from ckmlir.dialect.types import TileType, tile_of
from ckmlir.dialect.verify import expect
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ir


def expect_rows(op: ir.OpView, what: str, dtype: str) -> None:
    """Rows of the first operand, which the result keeps in shape, elements and distribution, and a number of a dtype
    for each in the second one; `what` these numbers are called.
    """
    source, numbers = (tile_of(operand) for operand in op.operation.operands)
    result = described_as(op.operation.results[0].type, TileType)
    expect(source.lengths == result.lengths and source.agrees(result), "rows keep their shape and distribution")
    expect(source.element == result.element, f"rows of {source.element} do not become {result.element}")
    expect(len(source.lengths) == 2, f"rows are those of a tile with 2 dimensions, not {len(source.lengths)}")
    expect(
        numbers.lengths == source.lengths[:1],
        f"{source.lengths[0]} rows have as many {what}, not {list(numbers.lengths)}",
    )
    expect(str(numbers.element) == dtype, f"{what} are {dtype}, not {numbers.element}")
