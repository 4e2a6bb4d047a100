"""What fragments must fulfil to be one access of every thread: their registers, their place in LDS, their index."""

import numpy as np

from ckmlir.dialect.build import integer_of, producer, registers_of, text_of
from ckmlir.dialect.distribution import Distribution
from ckmlir.dialect.lds_layout import LdsLayout
from ckmlir.dialect.reach import check_reach
from ckmlir.dialect.scalars import bits, name_of
from ckmlir.dialect.verify import expect
from ckmlir.mlir import ir

ACCESS_BYTES = (1, 2, 4, 8, 12, 16)
"""What one memory instruction moves for a lane."""
COPY_BYTES = (4, 16)
"""What one copy to LDS moves for a lane (those of 12 bytes leave holes)."""


def check_fragment(op: ir.OpView, vector: ir.Type, lengths: tuple[int, ...], element: ir.Type) -> int | None:
    """Check that a vector, its registers and their distribution fit the tensor they belong to.

    Returns the dimension along which the registers follow each other; None for a single register.
    """
    along, numbers = check_registers(op, lengths, element), registers_of(op)
    expect(
        isinstance(vector, ir.VectorType) and list(vector.shape) == [len(numbers)],
        f"{len(numbers)} registers make a vector of as many elements, not {vector}",
    )
    expect(vector.element_type == element, f"the tensor holds {element}, the vector {vector.element_type}")
    return along


def check_registers(op: ir.OpView, lengths: tuple[int, ...], element: ir.Type) -> int | None:
    """Check that an access's registers and their distribution fit the tensor; returns what `check_fragment` does."""
    distribution, numbers = Distribution.parse(text_of(op, "distribution")), registers_of(op)
    expect(
        tuple(distribution.lengths) == lengths,
        f"the distribution covers {list(distribution.lengths)}, the tensor has {list(lengths)}",
    )
    expect(
        bool(numbers) and min(numbers) >= 0 and max(numbers) < distribution.registers,
        f"registers {list(numbers)} are outside the distribution's {distribution.registers}",
    )
    size = len(numbers) * bits(element) // 8
    expect(size in ACCESS_BYTES, f"no access moves {size} bytes a lane; it moves {', '.join(map(str, ACCESS_BYTES))}")
    steps = np.diff(distribution.coordinates()[:, 0, 0, list(numbers)], axis=1)
    expect(
        bool((np.abs(steps).sum(axis=0) == 1).all() and (steps == steps[:, :1]).all() and (steps >= 0).all()),
        f"registers {list(numbers)} of '{distribution}' are not neighbours along one dimension",
    )
    return int(steps[:, 0].argmax()) if len(numbers) > 1 else None


def check_before(op: ir.OpView, given: ir.Type) -> None:
    """Check what an update gives of memory or LDS before it: a vector like the one it takes, of lanes that all update.

    Of several copies of an element only one updates, and the others would have nothing to give.
    """
    for result in op.operation.results:
        expect(result.type == given, f"takes {given} and gives what was there before as one like it, not {result.type}")
        copies = list(Distribution.parse(text_of(op, "distribution")).replicated_digits())
        expect(not copies, COPIES)


COPIES = (
    "several threads hold each element, and only one of them updates and learns what was there before; take a tile "
    "with an element for every thread (with indices of -1 for those that have nothing to do)"
)


def check_indexed(op: ir.OpView, index: ir.Value, along: int | None) -> None:
    """Check an access whose coordinate along `axis` is a thread's own index: one for all its registers."""
    check_reach(op)
    axis, rank = integer_of(op, "axis"), len(Distribution.parse(text_of(op, "distribution")).lengths)
    expect(0 <= axis < rank, f"axis {axis} is not one of {rank} dimensions")
    expect(axis != along, f"its registers follow axis {axis}, but have one index there")
    expect(name_of(index.type) == "i32", f"an index is i32, not {index.type}")


def check_copyable(op: ir.OpView, lds: ir.Value) -> None:
    """Check that lanes copy one cell behind the other in LDS, and rows follow each other there without gaps."""
    alloc = producer(lds)
    if alloc is None or alloc.name != "ck.lds_alloc":
        return
    layout, numbers = LdsLayout.parse(text_of(alloc, "layout")), registers_of(op)
    distribution = Distribution.parse(text_of(op, "distribution"))
    places = layout.place(list(distribution.coordinates()[:, :, :, numbers[0]]))
    expect(
        bool((places == places[:, :1] + len(numbers) * np.arange(distribution.lanes)).all()),
        f"the lanes of '{distribution}' do not follow each other in LDS of layout '{layout}'",
    )
    expect(layout.is_gapless, f"copies leave no gaps, as layout '{layout}' has between rows")


def check_contiguous(lds: ir.Value, along: int | None, count: int) -> None:
    """Check that registers which follow each other along a dimension do so in LDS, where the allocation is known."""
    alloc = producer(lds)
    if along is None or alloc is None or alloc.name != "ck.lds_alloc":
        return
    layout = LdsLayout.parse(text_of(alloc, "layout"))
    expect(
        along == layout.contiguous,
        f"the registers follow dimension {along}, in LDS dimension {layout.contiguous} is contiguous",
    )
    expect(
        not layout.terms or layout.chunk % count == 0,
        f"{count} elements do not stay together in LDS, where chunks of {layout.chunk} change places",
    )
