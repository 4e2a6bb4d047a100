"""Which kernel computes a problem: identities of kernels, spaces of them, registries and dispatchers.

from ckmlir.dispatch import Kernel, Space
"""

from ckmlir.dispatch.identity import Identifier, Kernel
from ckmlir.dispatch.space import Expansion, Space, expand, read_spaces, space

__all__ = ["Expansion", "Identifier", "Kernel", "Space", "expand", "read_spaces", "space"]
