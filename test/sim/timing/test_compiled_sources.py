"""Which files have to be unchanged for compiled code of the model to be used again, and how often it is compiled."""

import importlib.util
from pathlib import Path

import pytest

from ckmlir.sim.timing import cache, issue, lds_banks, placement
from ckmlir.sim.timing.compiled import sources_of


def names_of(module: object) -> set[str]:
    return {path.stem for path in sources_of(Path(str(module.__file__)))}


def test_the_loop_depends_on_what_is_compiled_into_it_and_on_nothing_else() -> None:
    assert names_of(issue) == {
        "access_patterns", "cache", "classes", "compiled", "events", "issue", "machine", "memory_hierarchy", "units",
        "waiting",
    }  # fmt: skip


@pytest.mark.parametrize("module", [cache, issue, lds_banks, placement])
def test_every_function_that_is_called_comes_from_a_file_that_counts(module: object) -> None:
    """By what is found at run time, not by reading imports."""
    known = sources_of(Path(str(module.__file__)))
    for value in vars(module).values():
        code = getattr(getattr(value, "py_func", value), "__code__", None)
        if code is not None and Path(code.co_filename).parent == Path(str(module.__file__)).parent:
            assert Path(code.co_filename) in known


CALLS = """
from ckmlir.sim.timing.compiled import compiled

@compiled
def twice(number):
    return 2 * number

@compiled
def power(exponent):
    result = 1
    for _ in range(exponent):
        result = twice(result)
    return result + twice(5)
"""


def test_numbers_in_the_source_are_compiled_for_as_any_number(tmp_path: Path) -> None:
    """Here 1, with which the result begins, and 5."""
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    spec = importlib.util.spec_from_file_location("calls", path)
    assert spec and spec.loader
    calls = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(calls)
    assert calls.power(3) == 18
    assert [str(number) for (number,) in calls.twice.overloads] == ["int64"]
