"""The one error of this package."""


class CodeObjectError(ValueError):
    """The bytes are no AMDGPU code object, are damaged, or lack what was asked for; one line says which."""
