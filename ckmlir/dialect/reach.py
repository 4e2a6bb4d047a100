"""How far an access by index may lie from where its view begins, and so which addresses it takes.

Near, lanes add an offset of 32 bits to a base that they share; a buffer ends 2 GiB behind its base. Far, every lane has
an address of 64 bits. Far is always right. Near is chosen where the view is known to be small enough; where it is only
promised (`reach = "near"`), a checked run tests the promise.

Close is near, and a promise about indices besides: what they come to lies in the view, or behind its end and within
4 GiB of where it begins. The size of the buffer refuses these then, where any other index has to be compared. No run
tests that.
"""

from ckmlir.dialect.build import text_of
from ckmlir.dialect.descriptor import Descriptor
from ckmlir.dialect.scalars import bits
from ckmlir.dialect.types import WindowType
from ckmlir.dialect.verify import expect
from ckmlir.dialect.views import described_as
from ckmlir.mlir import ir

CLOSE, NEAR, FAR = "close", "near", "far"
REACHES = (CLOSE, NEAR, FAR)
NEAR_BYTES = 1 << 31
"""What lies within so many bytes from the view's pointer on is near."""


def known_near(descriptor: Descriptor, element: ir.Type) -> bool:
    """Whether all of a view is known to be near."""
    extent = descriptor.extent
    return isinstance(extent, int) and extent * bits(element) // 8 <= NEAR_BYTES


def reach_of(op: ir.Operation, window: ir.Value) -> str:
    """What an operation says of its window, or else what is known of it."""
    if "reach" in op.attributes:
        return text_of(op, "reach")
    described = described_as(window.type, WindowType)
    return NEAR if known_near(described.descriptor, described.element) else FAR


def check_reach(op: ir.OpView) -> None:
    """Check the attribute `reach`, where there is one."""
    if "reach" in op.operation.attributes:
        reach = text_of(op, "reach")
        expect(reach in REACHES, f"reach '{reach}' is not one of {', '.join(REACHES)}")


def check_near(op: ir.OpView) -> None:
    """Check that a copy to LDS at indices is near: lanes that branch around it would leave LDS as it is."""
    check_reach(op)
    reach = text_of(op, "reach") if "reach" in op.operation.attributes else NEAR
    expect(reach != FAR, f"copies to LDS go through buffers, so their reach is {NEAR}, not {reach}")
