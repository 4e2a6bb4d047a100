"""Assembly text to a code object, by the assembler inside the MLIR package: no other tool is needed."""

from __future__ import annotations

from ckmlir.lowering.codeobject import CodeGenerationError, CompiledObject, emit_code_object
from ckmlir.mlir import ir


def assemble(text: str, target: str) -> CompiledObject:
    """A code object of GNU-style assembly text in LLVM's dialect (AMDGPU user guide, "Assembler"), kernel descriptors
    included, and metadata if there is any: `.amdhsa_kernel` and `.amdgpu_metadata`.

    Raises:
        CodeGenerationError: the text is not assembly for this chip, with what the assembler says; it has no kernel.
        LinkError: a symbol is not defined.
    """
    from ckmlir.dialect.context import ck_context

    lines = ", ".join(_quoted(line) for line in text.splitlines())
    source = f"module {{ gpu.module @assembly attributes {{llvm.module_asm = [{lines}]}} {{ }} }}"
    compiled = emit_code_object(ir.Module.parse(source, ck_context()), target, line_table=False)
    if not compiled.code_object.kernels:
        raise CodeGenerationError("the assembly text has no kernel: there is no .amdhsa_kernel")
    return compiled


def _quoted(line: str) -> str:
    """A string of MLIR's syntax: what is not printable ASCII as bytes."""
    shown = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in line.encode())
    return '"' + "".join(shown) + '"'
