"""`ckmlir run --trace`: lines with values on standard error, bounded; what cannot be traced is said."""

from __future__ import annotations

import json

import pytest

from ckmlir.tools.cli import main

GEMM = ["run", "gemm", "m=64", "n=64", "k=64", "--arch", "gfx942"]


def test_a_trace_goes_to_standard_error_and_the_result_still_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--json", "--trace", "v_mfma*=f16:f32", "--trace-waves", "1"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["ok"] is True
    events = [line for line in err.splitlines() if line.startswith("(")]
    assert events and all("(0, 0, 0) wave 1 " in line and ": v_mfma_" in line for line in events)
    assert err.count("  read ") == 3 * len(events) and err.count("  wrote ") == len(events)


def test_the_trace_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--trace", "*"]) == 0
    err = capsys.readouterr().err
    assert sum(line.startswith("(") for line in err.splitlines()) == 200 and "more executions, not printed" in err


def test_nothing_to_trace_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GEMM, "--trace", "v_sin_f32*"]) == 0
    assert "no kernel that ran has an instruction at v_sin_f32*" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace", "v_mfma*=f17"], "write PLACE"),
        (["--trace", "=f16"], "write PLACE"),
        (["--trace", "v_mfma*=f16:f32:f32"], "write PLACE"),
        (["--trace-waves", "0"], "say what to trace"),
        (["--trace", "v_mfma*", "--trace-waves", "one"], "not a list of wave numbers"),
        (["--trace", "v_mfma*", "--device", "hip"], "a GPU has none"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([*GEMM, *options])
    except SystemExit as exit:
        status = int(exit.code or 0)
    assert status == 2 and message in capsys.readouterr().err
