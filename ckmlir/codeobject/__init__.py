"""Reading AMDGPU code objects: what is in an .hsaco, without running or disassembling it.

from ckmlir.codeobject import CodeObject
code_object = CodeObject.parse("kernel.hsaco")
code_object.kernel().descriptor.allocated_vgprs
"""

from ckmlir.codeobject.code_object import CodeObject, Kernel
from ckmlir.codeobject.descriptor import KernelDescriptor
from ckmlir.codeobject.errors import CodeObjectError
from ckmlir.codeobject.image import Image
from ckmlir.codeobject.lines import LineTable, SourceLine
from ckmlir.codeobject.metadata import Argument, KernelMetadata

__all__ = [
    "Argument",
    "CodeObject",
    "CodeObjectError",
    "Image",
    "Kernel",
    "KernelDescriptor",
    "KernelMetadata",
    "LineTable",
    "SourceLine",
]
