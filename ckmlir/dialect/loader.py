"""How the ck dialect gets into every context: importing this module registers its loader."""

import importlib

from ckmlir.mlir import ir, register_dialect_loader

OPERATION_MODULES = (
    "types", "views", "memory", "compute", "regions", "loop", "synchronization", "fragment",
    "fragment_lds", "fragment_compute",
)  # fmt: skip


def load(context: ir.Context) -> None:
    """Load the dialect into a context that is entered."""
    for module in OPERATION_MODULES:
        importlib.import_module(f"ckmlir.dialect.{module}")
    from ckmlir.dialect.dialect import Ck

    if not context.is_dialect_loaded("ck"):
        Ck.load()


register_dialect_loader(load)
