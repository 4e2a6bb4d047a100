"""A function of elements as one operation on tiles."""

from collections.abc import Callable

from ckmlir.given import described
from ckmlir.lang.folds import check_scalar_code
from ckmlir.lang.trace import TracingError, located
from ckmlir.lang.values import Scalar, Stretched, Tile, as_scalar, map_elements
from ckmlir.mlir import ir


@located
def each_element(function: Callable[..., Scalar], *tiles: Tile | Stretched) -> Tile:
    """What a function makes of the elements of tiles of equal lengths, as scalars, for each place by itself.

    The same numbers as the function of the tiles themselves, in one operation where that has many, which is made and
    compiled in less time. Scalars from outside are the same for all.

    Raises:
        TracingError: no whole tile, or tiles of different lengths; the function gives no scalar, or does more than
            compute.
    """

    def outcome(*elements: ir.Value) -> ir.Value:
        found = function(*map(Scalar, elements))
        check_scalar_code("each_element")
        if isinstance(found, Scalar):
            return found.value
        if not isinstance(found, (int, float)):
            raise TracingError(f"the function of each_element gives a scalar, not {described(found)}")
        return as_scalar(found, elements[0].type).value

    return map_elements(outcome, *tiles)
