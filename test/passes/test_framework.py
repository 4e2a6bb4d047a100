"""Passes as data: text that round-trips, pipelines of ours and MLIR's passes, the driver and its reproducers."""

from __future__ import annotations

import dataclasses
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckmlir.mlir import ir
from ckmlir.passes import pipeline, registry
from ckmlir.passes.framework import Pass, PassFailure, PipelineSyntaxError, UpstreamPass, fail, make_pass
from ckmlir.passes.pipeline import PipelineFailure, Step, run_pipeline
from ckmlir.passes.registry import PASSES, find_pass
from ckmlir.passes.syntax import parse_pass, parse_pipeline


@dataclass(frozen=True)
class Options(Pass):
    """Has an option of every kind.

    And more text.
    """

    name: ClassVar[str] = "ck-test-options"
    count: int = 0
    scale: float = 1.0
    fast: bool = False
    label: str = "none"
    sizes: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    limit: int | None = None
    policy: Literal["mem", "lds"] = "mem"

    def apply(self, module: ir.Module) -> None:
        pass


@dataclass(frozen=True)
class Required(Pass):
    """Has an option without a default."""

    name: ClassVar[str] = "ck-test-required"
    chip: str

    def apply(self, module: ir.Module) -> None:
        module.operation.attributes["chip"] = ir.StringAttr.get(self.chip)


@dataclass(frozen=True)
class Refuse(Pass):
    """Refuses every function, in the way that `how` says."""

    name: ClassVar[str] = "ck-test-refuse"
    how: Literal["fail", "emit", "emit and return", "raise"] = "fail"

    def apply(self, module: ir.Module) -> None:
        function = module.body.operations[0]
        if self.how == "fail":
            fail(function, "this function is refused", [("because of this", function), ("as ever", None)])
        elif self.how == "raise":
            function.attributes["touched"] = ir.UnitAttr.get()
            raise KeyError("lost")
        else:
            function.location.emit_error("emitted")
            if self.how == "emit":
                raise PassFailure("after that")


@dataclass(frozen=True)
class OfControl(Pass):
    """Looks at loops and branches alone, and says that it has."""

    name: ClassVar[str] = "ck-test-of-control"
    of_control: ClassVar[bool] = True

    def apply(self, module: ir.Module) -> None:
        module.operation.attributes["looked"] = ir.UnitAttr.get()


@dataclass(frozen=True)
class MakesBranch(Pass):
    """A pass of others, behind which there is a branch."""

    name: ClassVar[str] = "test-makes-branch"

    def apply(self, module: ir.Module) -> None:
        first = module.body.operations[0].operation.regions[0].blocks[0].operations[0]
        with ir.InsertionPoint(first), first.location:
            i1 = ir.IntegerType.get_signless(1)
            made = {"value": ir.IntegerAttr.get(i1, 1)}
            condition = ir.Operation.create("arith.constant", results=[i1], attributes=made).result
            branch = ir.Operation.create("scf.if", operands=[condition], regions=2)
            with ir.InsertionPoint(branch.regions[0].blocks.append()):
                ir.Operation.create("scf.yield")


@pytest.fixture(autouse=True)
def _register(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Options, Required, Refuse):
        monkeypatch.setitem(PASSES, cls.name, f"{__name__}:{cls.__name__}")
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(**globals()))


FUNCTION = """
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  return %1 : i32
}
"""


@pytest.fixture
def module(context: ir.Context) -> ir.Module:
    return ir.Module.parse(FUNCTION)


options = st.builds(
    Options,
    count=st.integers(-(2**40), 2**40),
    scale=st.floats(allow_nan=False),
    fast=st.booleans(),
    label=st.text(st.characters(codec="utf-8")),
    sizes=st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    words=st.lists(st.text("abc-_ {}()\"'\\", min_size=1, max_size=5), max_size=3).map(tuple),
    limit=st.none() | st.integers(),
    policy=st.sampled_from(["mem", "lds"]),
)


@given(options)
def test_text_of_a_pass_round_trips(one: Options) -> None:
    PASSES.setdefault(Options.name, f"{__name__}:Options")
    assert parse_pass(str(one)) == one


def test_only_options_that_differ_are_written() -> None:
    assert str(Options()) == "ck-test-options"
    assert str(Options(count=4, sizes=(1, 2), fast=True)) == "ck-test-options{count=4 fast=true sizes=1,2}"
    assert str(Options(label="two words")) == 'ck-test-options{label="two words"}'


def test_the_summary_is_the_first_line_of_the_docstring() -> None:
    assert Options.summary() == "Has an option of every kind."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ck-test-option", "there is no pass 'ck-test-option'; did you mean ck-test-options?"),
        ("ck-test-options{cuont=4}", "ck-test-options has no option 'cuont'; did you mean count?"),
        ("ck-test-options{count=four}", "option count=four has to be an integer"),
        ("ck-test-options{scale=}", "option scale= has to be a number"),
        ("ck-test-options{fast=1}", "option fast=1 has to be true or false"),
        ("ck-test-options{sizes=1,,2}", "option sizes=1,,2 has to be integers with commas between"),
        ("ck-test-options{policy=hbm}", "option policy=hbm has to be one of mem, lds"),
        ("ck-test-options{count=1 count=2}", "option count is given twice"),
        ("ck-test-options{count}", "'count' is not of the form option=value"),
        ("ck-test-options{count=1", "is not of the form ck-name{option=value …}"),
        ("ck-test-options count=1", "is not of the form ck-name{option=value …}"),
        ("ck-test-required", "option chip is missing"),
        ("func.func(ck-test-options)", "ck-test-options runs on whole modules: it cannot stand inside"),
    ],
)
def test_wrong_pass_text(text: str, message: str) -> None:
    with pytest.raises(PipelineSyntaxError, match=re.escape(message)):
        parse_pass(text)


def test_a_pass_with_an_option_of_unknown_type_is_a_defect() -> None:
    @dataclass(frozen=True)
    class Odd(Pass):
        name: ClassVar[str] = "ck-odd"
        table: complex = 0j

    with pytest.raises(TypeError, match="table"):
        make_pass(Odd, {})


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", []),
        ("builtin.module()", []),
        ("canonicalize", ["canonicalize"]),
        (" ck-test-options , cse ", ["ck-test-options", "cse"]),
        (
            'builtin.module(ck-test-options{sizes=1,2 label="a),b"},func.func(cse,canonicalize{max-iterations=3}))',
            ['ck-test-options{label="a),b" sizes=1,2}', "func.func(cse,canonicalize{max-iterations=3})"],
        ),
    ],
)
def test_pipelines(context: ir.Context, text: str, passes: list[str]) -> None:
    parsed = parse_pipeline(text, context)
    assert [str(one) for one in parsed] == passes
    assert parse_pipeline(",".join(map(str, parsed)), context) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse,,cse", "an entry of 'cse,,cse' is empty"),
        ("cse,", "an entry of 'cse,' is empty"),
        ("func.func(cse", "missing ')' at the end"),
        ("cse)", "unexpected ')' at column 4"),
        ('ck-test-options{label="x}', "missing closing quote"),
        ("builtin.module{cse}", "is not of the form builtin.module(…)"),
        ("nothing-of-the-kind", "'nothing-of-the-kind' does not refer to a registered pass"),
        ("canonicalize{bla=3}", "no such option bla"),
    ],
)
def test_wrong_pipelines(context: ir.Context, text: str, message: str) -> None:
    with pytest.raises(PipelineSyntaxError, match=re.escape(message)):
        parse_pipeline(text, context)


def test_passes_of_ours_and_of_mlir_run_in_one_pipeline(module: ir.Module) -> None:
    run = run_pipeline(module, parse_pipeline("ck-test-required{chip=gfx942},cse", module.context))
    assert str(module).count("arith.addi") == 1
    assert 'chip = "gfx942"' in str(module)
    assert [name for name, _ in run.timings] == ["ck-test-required{chip=gfx942}", "cse"]
    assert "total" in run.timing_report()


def test_passes_about_control_are_spared_where_there_is_none(module: ir.Module) -> None:
    run = run_pipeline(module, [OfControl(), Required("x"), OfControl()])
    assert [name for name, _ in run.timings] == [OfControl.name, "ck-test-required{chip=x}", OfControl.name]
    assert "looked" not in module.operation.attributes
    run_pipeline(module, [OfControl(), MakesBranch(), OfControl()])
    assert "looked" in module.operation.attributes
    del module.operation.attributes["looked"]
    run_pipeline(module, [OfControl()])
    assert "looked" in module.operation.attributes


def test_artifacts_are_the_ir_after_their_step(module: ir.Module) -> None:
    steps = [Step(Required("gfx90a"), "named"), Step("cse", "small"), Step(UpstreamPass("canonicalize"))]
    run = run_pipeline(module, steps, keep={"named"})
    assert list(run.artifacts) == ["named"]
    assert run.artifacts["named"].count("arith.addi") == 2


def test_printing_after_named_passes(module: ir.Module) -> None:
    stream = io.StringIO()
    run_pipeline(module, [Required("gfx90a"), "cse"], print_after={"ck-test-required"}, stream=stream)
    assert re.findall("IR Dump After (.*) //-----", stream.getvalue()) == ["ck-test-required{chip=gfx90a}"]
    run_pipeline(module, [Required("gfx90a"), "cse"], print_after={"all"}, stream=stream)
    assert len(re.findall("IR Dump After", stream.getvalue())) == 3


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ("fail", ["-:2:1: error: this function is refused", "-:2:1: note: because of this", "note: as ever"]),
        ("emit", ["-:2:1: error: emitted", "error: after that"]),
        ("emit and return", ["-:2:1: error: emitted"]),
        ("raise", ["error: ck-test-refuse{how=raise} stopped with KeyError: 'lost'; this is a defect of ckmlir"]),
    ],
)
def test_failures_say_why(module: ir.Module, how: str, lines: list[str]) -> None:
    with pytest.raises(PipelineFailure) as caught:
        run_pipeline(module, ["cse", Refuse(how)], dump_on_failure=False)  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == lines
    assert caught.value.reproducer is None


def test_verify_each_finds_the_pass_that_broke_the_ir(module: ir.Module) -> None:
    broken = "func.func @f() {\n  func.call @g() : () -> ()\n  return\n}\nfunc.func private @g()"
    module = ir.Module.parse(broken, module.context)

    class BreakIt(Refuse):
        def apply(self, module: ir.Module) -> None:
            module.body.operations[1].operation.erase()

    with pytest.raises(PipelineFailure) as caught:
        run_pipeline(module, [BreakIt()], verify_each=True)
    first, *_ = str(caught.value).splitlines()
    assert first == "-:2:3: error: 'func.call' op 'g' does not reference a valid function"
    assert "the IR is not valid after ck-test-refuse" in str(caught.value)


def test_a_failure_writes_input_and_replay_command(module: ir.Module, tmp_path: Path) -> None:
    with pytest.raises(PipelineFailure) as caught:
        run_pipeline(module, ["cse", Refuse("raise")], dump_on_failure=tmp_path / "new", verify_each=True)
    written = caught.value.reproducer
    assert written is not None and [written] == list((tmp_path / "new").iterdir())
    text = written.read_text()
    command = f"ckmlir-opt --pass-pipeline='builtin.module(ck-test-refuse{{how=raise}})' --verify-each {written}"
    assert f"// {command}\n" in text
    assert "// KeyError: 'lost'" in text, "the traceback is kept"
    assert str(written) in str(caught.value)
    # The file holds the IR before the failing pass, after those that ran, with its locations.
    again = ir.Module.parse(text, module.context)
    assert str(again).count("arith.addi") == 1
    assert "touched" not in str(again)
    assert again.body.operations[0].location == ir.Location.file("-", 2, 1, module.context)

    with pytest.raises(PipelineFailure) as caught:
        run_pipeline(again, [Refuse("raise")], dump_on_failure=tmp_path / "new", verify_each=True)
    assert caught.value.reproducer == written, "the same failure writes the same file"


def test_a_reproducer_that_cannot_be_written_does_not_hide_the_failure(module: ir.Module, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineFailure, match=r"this function is refused(.|\n)*could not be written"):
        run_pipeline(module, [Refuse()], dump_on_failure=tmp_path / "file" / "below")


def test_reproducers_go_to_the_users_own_directory(module: ir.Module) -> None:
    with pytest.raises(PipelineFailure) as caught:
        run_pipeline(module, [Refuse()])
    directory = caught.value.reproducer.parent.parent  # type: ignore[union-attr]
    assert directory.name.startswith("ckmlir-")
    assert directory.stat().st_mode & 0o077 == 0


def test_every_registered_pass_can_be_found_described_and_read_back() -> None:
    for name in [name for name in PASSES if not name.startswith("ck-test-")]:
        cls = find_pass(name)
        assert cls.name == name
        assert cls.summary(), f"{name} has no help text"
        required = {field.name: "1" for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
        one = make_pass(cls, required)
        assert parse_pass(str(one)) == one


def test_the_pipeline_table_names_passes_that_exist(context: ir.Context) -> None:
    for step in pipeline.PIPELINE:
        assert isinstance(step.run, Pass) or parse_pass(step.run)
    produced = [step.produces for step in pipeline.PIPELINE if step.produces]
    assert len(produced) == len(set(produced))


def test_names_start_with_the_prefix() -> None:
    assert all(name.startswith(registry.PREFIX) for name in PASSES)
