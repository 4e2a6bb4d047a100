"""Configuration of lit for the tests in test/**/*.mlir; run `lit test` from the repository."""

import os
import sys
import tempfile
from pathlib import Path

import lit.formats

root = Path(__file__).resolve().parent.parent

# lit defines `config` before it runs this file.
config.name = "ckmlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs", "Output"]
config.test_source_root = str(root / "test")
# Outside the tree where the user's temporary files are: tests leave nothing in the repository.
config.test_exec_root = os.path.join(tempfile.gettempdir(), f"ckmlir-lit-{os.getuid()}")

config.environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
for variable in ("HOME", "XDG_CACHE_HOME", "CKMLIR_LLD", "CKMLIR_BINDINGS", "ROCM_PATH"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# The tools of this interpreter's environment, installed or not.
config.substitutions += [
    (r"\bckmlir-opt\b", f"{sys.executable} -m ckmlir.tools.opt"),
    (r"\bfilecheck\b", f"{sys.executable} -m filecheck"),
]
