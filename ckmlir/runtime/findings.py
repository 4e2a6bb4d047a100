"""A launch that checkers found something wrong with, as the error of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ckmlir.runtime.device import KernelFault

if TYPE_CHECKING:
    from ckmlir.sim import Finding


class FindingsFault(KernelFault):
    """A kernel that checkers reported.

    Attributes:
        findings: What they found, at most one for each checker and instruction.
    """

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
