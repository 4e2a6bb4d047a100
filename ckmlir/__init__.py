"""ckmlir: CK Tile operators as an MLIR compiler pipeline, from Python tile programs to gfx9 code objects.

Importing the package loads nothing heavy: the MLIR bindings, NumPy and LLVM are loaded by the modules that use them.
"""

__version__ = "0.1.0"
