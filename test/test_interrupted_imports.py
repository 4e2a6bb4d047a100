"""An interrupt while the bindings and the dialect are imported: it is raised, nothing ends the process, and what was
left halfway is imported again.
"""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys
import ml_dtypes, msgspec, numpy  # what an interrupt does to their imports is theirs

def work():
    from ckmlir.compiler import compile_traced
    from ckmlir.dialect.context import ck_context
    with ck_context():
        from ckmlir.mlir import gpu_objects, llvm

class Interrupt:
    def __init__(self, module, after):
        self.module, self.after = module, after
    def find_spec(self, name, *_):
        if name == self.module and self in sys.meta_path:
            sys.meta_path.remove(self)
            if self.after:  # inside the module, at its next import
                self.module, self.after = None, False
                sys.meta_path.insert(0, self)
                return None
            signal.raise_signal(signal.SIGINT)
        elif self.module is None:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

def interrupted(module, after):
    "The status of a process that is interrupted while it imports a module, and works then."
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.meta_path.insert(0, Interrupt(module, after))
    try:
        work()
        os._exit(3)
    except KeyboardInterrupt:
        work()
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(4)

for module in sys.argv[1:]:
    for after in (False, True):
        status = interrupted(module, after)
        if status:
            print(module, "inside" if after else "before", os.waitstatus_to_exitcode(status))
"""
MODULES = (
    "flydsl._mlir._mlir_libs._mlir",
    "flydsl._mlir.ir",
    "flydsl._mlir.passmanager",
    "flydsl._mlir.dialects.ext",
    "ckmlir.dialect.types",
    "ckmlir.dialect.memory",
    "ckmlir.dialect.fragment_compute",
    "flydsl._mlir.dialects.llvm",
)
"""Where one is imported an interrupt comes, and where the next one is behind it."""


def test_what_an_interrupt_left_halfway_is_imported_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *MODULES],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
        env={**os.environ, "CKMLIR_BINDINGS": "flydsl"},
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_operations_may_be_defined_again() -> None:
    """As by the second import of a module whose first one an interrupt ended: the later classes count."""
    program = """
import importlib, sys
from ckmlir.dialect import repack
del sys.modules["ckmlir.dialect.repack"]
again = importlib.import_module("ckmlir.dialect.repack")
from ckmlir.dialect.context import ck_context
ck_context()
from ckmlir.dialect.dialect import Ck
kept = [one for one in Ck.operations if one.__module__ == again.__name__]
assert again is not repack and kept and all(getattr(again, one.__name__) is one for one in kept)
"""
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).resolve().parent.parent, check=True)
