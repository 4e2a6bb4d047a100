"""The one error of this package."""

from ckmlir.errors import CkmlirError


class CodeObjectError(CkmlirError, ValueError):
    """The bytes are no AMDGPU code object, are damaged, or lack what was asked for; one line says which."""
