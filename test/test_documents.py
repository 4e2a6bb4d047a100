"""The Python code in the tutorials runs, block after block of a page in one namespace; README's commands run;
pages and sections that are named exist; indices of folders name their files."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ckmlir.tools import cli, opt

DOCUMENTS = Path(__file__).parent.parent / "docs"
MOST_WITHOUT_INDEX = 40
PAGES = ("writing_kernels", "adding_operators", "dispatch", "calls")


@pytest.mark.parametrize("name", PAGES)
def test_code_of_a_page_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCUMENTS / f"{name}.md"
    text = page.read_text()
    module = ModuleType(name)  # classes look for the module that they say they are of
    monkeypatch.setitem(sys.modules, name, module)
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        # Blank lines before it, so that messages name lines of the page.
        lines = "\n" * (text[: block.start(1)].count("\n"))
        exec(compile(lines + block[1], str(page), "exec", dont_inherit=True), vars(module))


def test_commands_of_the_readme_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    text = (DOCUMENTS.parent / "README.md").read_text()
    section = text.partition("## Using it\n")[2].partition("\n## ")[0]
    commands = [shlex.split(line, comments=True) for line in section.splitlines() if line.startswith("ckmlir")]
    assert len(commands) > 10
    tools = {"ckmlir": cli.main, "ckmlir-opt": opt.main}
    for tool, *arguments in commands:
        assert tools[tool](arguments) == 0, f"{tool} {shlex.join(arguments)}: {capsys.readouterr().err}"
    for name in re.findall(r"(?:-o|=)\s?([a-z]+\.(?:hsaco|npy|html))", section):
        assert (tmp_path / name).stat().st_size > 0


def _anchor(heading: str) -> str:
    """A heading as links write it: GitHub's rule, lower case without punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _named(path: Path) -> Iterator[tuple[Path, str]]:
    """The pages that a file names, each with a section's anchor or nothing: paths from the root, perhaps with a section
    in quotes behind them, and links.
    """
    text = path.read_text()
    for page, section in re.findall(r'\b((?:docs|benchmarks)/[\w/]+\.md)(?:,\s+"([^"]+)")?', text):
        yield DOCUMENTS.parent / page, _anchor(re.sub(r"\s+", " ", section))
    if path.suffix == ".md":
        for page, anchor in re.findall(r"\]\(([\w./]*\.md)?(?:#([\w-]+))?\)", text):
            yield (path.parent / page).resolve() if page else path, anchor


def test_pages_and_sections_that_are_named_exist() -> None:
    """In pages and in sources."""
    root = DOCUMENTS.parent
    pages = [root / "README.md", *DOCUMENTS.rglob("*.md"), *(root / "benchmarks").rglob("*.md")]
    sources = [path for name in ("ckmlir", "test", "examples", "benchmarks") for path in (root / name).rglob("*.py")]
    anchors = {
        page: {"", *map(_anchor, re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE))} for page in pages
    }  # fmt: skip
    assert [
        f"{path}: {page} {anchor}"
        for path in (*pages, *sources) for page, anchor in _named(path) if anchor not in anchors.get(page, ())
    ] == []  # fmt: skip


def test_large_folders_say_what_is_where() -> None:
    """In a README that names each file by its subject, and no other."""
    for folder in sorted({path.parent for path in (DOCUMENTS.parent / "ckmlir").rglob("*.py")}):
        files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
        index = folder / "README.md"
        if len(files) > MOST_WITHOUT_INDEX or index.exists():
            named = set(re.findall(r"`([a-z_0-9]+\.py)`", index.read_text())) - {"__init__.py"}
            assert named == files, f"{folder}: {sorted(named ^ files)}"
