"""A kernel that was compiled: what running one needs to know of it, apart from the compiler."""

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject
    from ckmlir.codeobject.remarks import NarrowAccess


class CompiledKernel(Struct, dict=True):
    """A code object with one kernel, and what was asked to be kept on the way to it.

    Attributes:
        artifacts: by name of `KEEPABLE`: text, or bytes for `obj`.
        timings: seconds by step: `trace`, every pass, `llvm`, `link`.
    """

    hsaco: bytes
    kernel_name: str
    target: str
    artifacts: dict[str, str | bytes] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Which kernel it is; a code object of kilobytes says nothing to who looks."""
        return f"CompiledKernel({self.kernel_name!r}, {self.target!r}, hsaco=<{len(self.hsaco)} bytes>)"

    @cached_property
    def code_object(self) -> "CodeObject":
        """The parsed code object: arguments, registers, LDS, spills, line table."""
        from ckmlir.codeobject import CodeObject

        return CodeObject.parse(self.hsaco)

    @property
    def remarks(self) -> "list[NarrowAccess]":
        """Accesses that are narrower than their arrays' alignment and row length allow, with lines and reasons."""
        from ckmlir.codeobject.remarks import narrow_accesses

        return narrow_accesses(self.code_object.kernel(self.kernel_name).metadata.notes)

    def workgroups_a_unit(self, work_items: int) -> int:
        """How many workgroups of so many work-items a compute unit holds at a time (`codeobject.occupancy`)."""
        from ckmlir.lowering.occupancy import kernel_occupancy

        return kernel_occupancy(self.code_object, self.kernel_name, workgroup_size=work_items).workgroups
