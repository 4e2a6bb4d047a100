"""Which operations touch LDS, how, and which tensor: the one table for pipelining, allocation and barriers."""

from typing import NamedTuple

from ckmlir.dialect.build import producer, text_of
from ckmlir.mlir import ir


class Traffic(NamedTuple):
    """What an operation does to an LDS tensor: "read", "write", "copy", a write that ends some time later, or "update",
    a change of what is there, at places that are known at run time.
    """

    kind: str
    tensor: ir.Value

    @property
    def writes(self) -> bool:
        """Whether the tensor's contents change."""
        return self.kind != "read"

    @property
    def reads(self) -> bool:
        """Whether it depends on the tensor's contents."""
        return self.kind in ("read", "update")


_OPERAND = {
    "ck.lds_read": ("read", 0), "ck.lds_write": ("write", 1), "ck.copy_fragment": ("copy", 1),
    "ck.lds_gather_fragment": ("read", 0), "ck.lds_update_fragment": ("update", 1),
}  # fmt: skip


def touches_lds(name: str) -> bool:
    """Whether operations of a name access LDS: asked before `traffic_of` where most do not."""
    return name in _OPERAND


def traffic_of(op: ir.Operation) -> Traffic | None:
    """What an operation does to LDS; None: nothing."""
    found = _OPERAND.get(op.name)
    return None if found is None else Traffic(found[0], op.operands[found[1]])


def tensor_name(op: ir.Operation) -> str:
    """The name of the LDS tensor that an operation accesses; empty where it has none, or none is accessed."""
    traffic = traffic_of(op)
    alloc = None if traffic is None else producer(traffic.tensor)
    return text_of(alloc, "name") if alloc is not None and "name" in alloc.attributes else ""
