"""How lit runs the tests of the passes in this folder: `lit examples/plug_ins`."""

import os
import sys
import tempfile

import lit.formats

# lit defines `config` before it runs this file.
here = os.path.dirname(os.path.abspath(__file__))
config.name = "plug_ins"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = here
config.test_exec_root = os.path.join(tempfile.gettempdir(), f"plug-ins-lit-{os.getuid()}")
config.environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, sys.path)])
config.substitutions += [
    (r"\bckmlir-opt\b", f"{sys.executable} -m ckmlir.tools.opt"),
    (r"\bfilecheck\b", f"{sys.executable} -m filecheck"),
]
