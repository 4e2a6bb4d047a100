"""Who may import whom: the table of the architecture, enforced; and how much importing the package costs."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from ckmlir.mlir import DIALECTS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ckmlir"

# Modules that hold no knowledge of tiles and that everything but the bottom of the table may use.
COMMON = {"deferred", "digests", "errors", "files", "given", "plug_ins", "records"}
MLIR = {"mlir", "bindings", "diagnostics"}
BINDINGS = {"mlir", "flydsl"}

# Package or top-level module -> what of ckmlir it may import besides itself.
ALLOWED: dict[str, set[str]] = {
    "__init__": set(),
    "deferred": set(),
    "digests": set(),
    "errors": {"given"},  # when a value is not plainly what an annotation names
    "files": {"errors"},
    "given": {"errors"},
    "interrupts": set(),
    "plug_ins": {"errors"},
    "records": set(),
    "_irdl": set(),
    "bindings": {"errors"},
    "mlir": {"_irdl", "bindings", "errors", "interrupts"},
    "diagnostics": {"mlir"},
    "targets": {"deferred", "errors"},
    "codeobject": {"errors"},
    "dialect": {"targets", *COMMON, *MLIR},
    "lang": {"dialect", "targets", *COMMON, *MLIR},
    "passes": {"dialect", "targets", *COMMON, *MLIR},
    "lowering": {"dialect", "targets", "codeobject", "passes", *COMMON, *MLIR},
    "sim": {"codeobject", *COMMON},
    "ops": {"lang", "passes", "targets", "dialect", *COMMON},
    "compiled_kernel": {"codeobject", "lowering"},
    # Machine code with inline assembly is checked before it is handed out: sim's static checks read it.
    "compiler": {
        "compiled_kernel", "ops", "lang", "passes", "lowering", "targets", "codeobject", "dialect", "sim",
        *COMMON, *MLIR,
    },
    # Above the compiler: it compiles kernels under many schedules, and decodes what comes out.
    # A search asks other processes, runs what it found, and keeps records.
    "scheduling": {
        "compiled_kernel", "compiler", "ops", "passes", "lowering", "targets", "dialect", "codeobject", "sim",
        "runtime", "dispatch", *COMMON, *MLIR,
    },
    "runtime": {"sim", "codeobject", "compiled_kernel", "compiler", "ops", "targets", *COMMON},
    "nn": {"dispatch", "runtime", "ops", "targets", *COMMON},
    "dispatch": {"runtime", "compiled_kernel", "compiler", "codeobject", "ops", "targets", "sim", *COMMON},
}
MAY_IMPORT_ALL = {"__main__", "tools"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def unit_of(file: Path) -> str:
    """The package, or the module at the top level, that a file belongs to: its row of the table."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


class Import(NamedTuple):
    """A module's absolute name, its line, and whether a function imports it, when it is called."""

    name: str
    line: int
    deferred: bool


@functools.cache
def imports_of(file: Path) -> list[Import]:
    """Every imported module, `import_module("…")` included."""
    found = []
    tree = ast.parse(file.read_text(), str(file))
    within: list[tuple[ast.AST, bool]] = [(tree, False)]
    while within:
        node, deferred = within.pop()
        below = deferred or isinstance(node, ast.FunctionDef)
        within += [(child, below) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            found += [Import(name, node.lineno, deferred) for name in _imported(node, file)]
    return found


def _imported(node: ast.Import | ast.ImportFrom | ast.Call, file: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{file}:{node.lineno}: imports are absolute in this project"
        assert node.module
        return [f"{node.module}.{alias.name}" for alias in node.names]
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    text = _leading_text(node.args[0]) if called in ("import_module", "__import__") and node.args else ""
    return [text] if text else []


def _leading_text(node: ast.expr) -> str:
    """The constant beginning of a string expression."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def violations(file: Path) -> list[str]:
    unit = unit_of(file)
    found = []
    for name, line, _ in imports_of(file):
        parts = name.split(".")
        where = f"{file.relative_to(ROOT)}:{line}"
        if parts[0] in BINDINGS and unit not in ("mlir", "_irdl"):
            found.append(f"{where}: imports {name}; only ckmlir/mlir.py imports the bindings")
        if parts[0] == "ckmlir" and len(parts) > 1 and unit not in MAY_IMPORT_ALL:
            other = parts[1]
            if other != unit and other not in ALLOWED[unit] and _is_unit(other):
                found.append(f"{where}: {unit} may not import {other}")
    return found


def _is_unit(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def test_every_unit_has_a_row() -> None:
    units = {unit_of(file) for file in modules()}
    assert units - set(ALLOWED) - MAY_IMPORT_ALL == set()


def test_imports_follow_the_table() -> None:
    assert [found for file in modules() for found in violations(file)] == []


def test_no_imports_run_in_circles() -> None:
    """Of what modules import when they are imported, or name for type checkers; deferred imports are apart."""
    known = {_module(file) for file in modules()}
    below = {_module(file): _imported_at_once(file) & known for file in modules() if file.name != "__init__.py"}
    try:
        list(TopologicalSorter(below).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def _module(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def _imported_at_once(file: Path) -> frozenset[str]:
    """What a module imports outside of its functions: each name, and where it is imported from."""
    names = {found.name for found in imports_of(file) if not found.deferred}
    return frozenset(names | {name.rpartition(".")[0] for name in names})


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("sim", "from ckmlir.mlir import ir"),
        ("sim", "import ckmlir.dialect.types"),
        ("targets", "from ckmlir.mlir import ir"),
        ("dialect", "from ckmlir.passes.pipeline import PIPELINE"),
        ("passes", "import importlib\nimportlib.import_module('ckmlir.ops.gemm')"),
        ("ops", "def f():\n    from flydsl._mlir import ir"),
        ("passes", "import mlir.ir"),
    ],
)
def test_violations_are_found(unit: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlir", "errors"):
        (tmp_path / "ckmlir").mkdir(exist_ok=True)
        (tmp_path / "ckmlir" / f"{name}.py").touch()
    for name in ("dialect", "passes", "ops", "sim", "targets"):
        (tmp_path / "ckmlir" / name).mkdir()
    file = tmp_path / "ckmlir" / unit / "example.py"
    file.write_text(line + "\n")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "ckmlir")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert len(violations(file)) == 1


def test_dialect_modules_do_not_postpone_annotations() -> None:
    """Postponed annotations silently turn the operands of Python-defined operations into attributes."""
    for file in (PACKAGE / "dialect").rglob("*.py"):
        tree = ast.parse(file.read_text())
        postponed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        defines_operations = "Ck.Operation" in file.read_text() or "Ck.Type" in file.read_text()
        assert not (postponed and defines_operations), file


def test_a_compilation_makes_no_classes_of_upstream_operations() -> None:
    """A module of the bindings makes one for each operation of its dialect: 10 to 70 ms of a cold process. What is
    compiled appends operations by their names (`dialect/build.py`, `dialect/arith.py`)."""
    modules_of_dialects = {f"ckmlir.mlir.{name}" for name in DIALECTS}
    found = [file for file in modules() if unit_of(file) != "tools" and _imported_at_once(file) & modules_of_dialects]
    assert found == []


def _with_tables() -> list[Path]:
    """Packages whose docstring has a table of their modules."""
    return [file for file in sorted(PACKAGE.rglob("__init__.py")) if "| module | holds |" in file.read_text()]


@pytest.mark.parametrize("file", _with_tables(), ids=lambda file: str(file.parent.relative_to(PACKAGE)))
def test_tables_of_packages_name_every_module(file: Path) -> None:
    """Each once."""
    rows = [line for line in file.read_text().splitlines() if line.startswith("| `")]
    named = [name.removesuffix(".py") for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])]
    there = {other.stem for other in file.parent.glob("*.py") if other != file}
    assert sorted(named) == sorted(there)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("numpy", "llvmlite", "flydsl", "mlir", "elftools", "ckmlir.mlir")
    assert run_python(f"import sys, ckmlir; print([name for name in {heavy} if name in sys.modules])") == "[]"


def test_importing_the_package_reads_few_files() -> None:
    code = "import sys; before = set(sys.modules); import ckmlir; print(sorted({*sys.modules} - before))"
    assert run_python(code) == "['ckmlir']"


def test_help_of_the_optimizer_loads_no_bindings() -> None:
    code = (
        "import sys\nfrom ckmlir.tools import opt\n"
        "try: opt.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print('flydsl' in sys.modules or 'mlir' in sys.modules)"
    )
    assert run_python(code).splitlines()[-1] == "False"
