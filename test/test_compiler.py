"""The chain in one call: what it keeps, what it refuses, and what a refusal leaves behind."""

import re
from pathlib import Path

import pytest

from ckmlir.compiler import KEEPABLE, compile_kernel
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.passes.framework import fail
from ckmlir.passes.insert_barriers import InsertBarriers
from ckmlir.passes.pipeline import PipelineFailure
from ckmlir.runtime import open_device
from ckmlir.runtime.run import run_operator
from ckmlir.targets import get_target

GEMM = find_operator("gemm")
GFX942 = get_target("gfx942")


def test_every_stage_can_be_kept_and_parses_back() -> None:
    """IR stages are MLIR text that this dialect reads; timings name every step."""
    from ckmlir.dialect.context import shared_context
    from ckmlir.mlir import ir

    spec = GEMM.spec(GEMM.problem(m=64, n=64, k=64), GFX942)
    compiled = compile_kernel(GEMM, spec, GFX942, keep=KEEPABLE, verify_each=True)
    assert set(compiled.artifacts) == set(KEEPABLE)
    with shared_context():
        for stage in ("tile", "fragments", "pipelined", "scheduled", "rocdl"):
            assert ir.Module.parse(str(compiled.artifacts[stage])).operation.verify()
    assert {"trace", "ck-pipeline-loops", "llvm", "link"} <= set(compiled.timings)
    assert compiled.code_object.target == "gfx942"


def test_what_results_print_is_a_line() -> None:
    """Without code and elements: who looks at one wants to know which it is."""
    softmax = find_operator("softmax")
    problem = softmax.problem(m=64, n=512)
    inputs = softmax.inputs(problem, GFX942)
    result = run_operator(softmax, problem, inputs, GFX942, open_device("sim", GFX942))
    assert result.kernel is not None
    name, size = result.kernel.kernel_name, len(result.kernel.hsaco)
    kernel = rf"CompiledKernel\('{name}', 'gfx942', hsaco=<{size} bytes>\)"
    assert re.fullmatch(rf"RunResult\(y: float16 \[64, 512\]; {kernel}; 1 step, [0-9.e-]+ s\)", repr(result))
    assert repr(result.kernel.code_object) == f"CodeObject('gfx942', kernels=['{name}'])"


def test_an_invalid_spec_is_refused_with_every_reason() -> None:
    spec = GEMM.spec(GEMM.problem(block="512x512x128"), GFX942)
    with pytest.raises(RequestError, match=r"LDS.*accumulators"):
        compile_kernel(GEMM, spec, GFX942)


def test_what_is_not_of_the_operator_is_refused() -> None:
    softmax = find_operator("softmax")
    spec = softmax.spec(softmax.problem(m=4, n=8), GFX942)
    with pytest.raises(RequestError, match="gemm: a ContractionSpec is needed, got SoftmaxSpec"):
        compile_kernel(GEMM, spec, GFX942)
    with pytest.raises(CkmlirError, match=r"compile_kernel takes a Target as target, not 'gfx942'; get_target\(name\)"):
        compile_kernel(softmax, spec, "gfx942")  # type: ignore[arg-type]
    with pytest.raises(CkmlirError, match="cannot keep asn; there are tile"):
        compile_kernel(softmax, spec, GFX942, keep=["asn"])


def test_a_failing_pass_leaves_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names a file with the IR before the pass and the command that replays it."""

    def refuse(self: InsertBarriers, module: object) -> None:
        fail(next(iter(module.body.operations)).operation, "no barriers today")  # type: ignore[attr-defined]

    monkeypatch.setattr(InsertBarriers, "apply", refuse)
    spec = GEMM.spec(GEMM.problem(m=64, n=64, k=64), GFX942)
    with pytest.raises(PipelineFailure, match="no barriers today") as failure:
        compile_kernel(GEMM, spec, GFX942)
    file = failure.value.reproducer
    assert isinstance(file, Path) and "ck.lds_alloc" in file.read_text() and "ckmlir-opt" in file.read_text()
    file.unlink()
