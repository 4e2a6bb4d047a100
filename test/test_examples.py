"""The examples run and say what they promise."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ckmlir.dialect.schedule import Schedule
from ckmlir.errors import CkmlirError

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_demo_agrees(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Six kernels, all in agreement with NumPy, on a chip that is not the default."""
    monkeypatch.setattr(sys, "argv", ["demo.py", "--arch", "gfx950"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.count("agrees with NumPy") == 6


def test_first_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel written with the authoring language alone; the example compares its result itself."""
    runpy.run_path(str(EXAMPLES / "first_kernel.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "ck.reduce" in output and "largest of every row" in output


def test_simulate_code_object() -> None:
    """A foreign code object in a process of its own, where the example sees to it that MLIR is not imported."""
    command = [sys.executable, str(EXAMPLES / "simulate_code_object.py")]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "result agrees with NumPy" in done.stdout and "past the end of an allocation" in done.stdout


def test_with_numpy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy's arrays, and memory of the device; the example compares its results itself."""
    monkeypatch.setattr(sys, "argv", ["with_numpy.py"])
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    runpy.run_path(str(EXAMPLES / "with_numpy.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "on the simulator (gfx942): CKMLIR_DEVICE=sim" in output and "from memory of the device" in output


def test_encoder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With weights from a seed, and with the same from a safetensors file; the example compares its states itself."""
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert len((EXAMPLES / "encoder.py").read_text().splitlines()) <= 80
    weights = runpy.run_path(str(EXAMPLES / "bert_weights.py"))
    made = {f"bert.{name}": one.astype(np.float32) for name, one in weights["made"](layers=1).items()}
    header, parts, end = dict[str, object](), [], 0
    for name, one in made.items():
        header[name] = {"dtype": "F32", "shape": one.shape, "data_offsets": [end, end := end + one.nbytes]}
        parts.append(one.tobytes())
    text = json.dumps({"__metadata__": {}, **header}).encode()
    file = tmp_path / "weights.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
    loaded = weights["loaded"](file)
    assert all((loaded[name.removeprefix("bert.")] == one).all() for name, one in made.items())
    monkeypatch.setattr(sys, "argv", ["encoder.py", "--weights", str(file), "--heads", "2"])
    runpy.run_path(str(EXAMPLES / "encoder.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "on the simulator (gfx942): (20, 64) states, 7 kernels" in output and "largest error" in output


def test_decoder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts, and one word behind them by what the cache has; the example compares its logits itself."""
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    assert len((EXAMPLES / "decoder.py").read_text().splitlines()) <= 120
    monkeypatch.setattr(sys, "argv", ["decoder.py", "--arch", "gfx950", "--tokens", "2"])
    runpy.run_path(str(EXAMPLES / "decoder.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "on the simulator (gfx950), 14 kernels" in output and "largest error" in output


def test_weights_of_earlier_files(tmp_path: Path) -> None:
    """Norms by the names that TensorFlow had, and numbers in bf16."""
    weights = runpy.run_path(str(EXAMPLES / "bert_weights.py"))
    gamma = np.arange(1, 5).astype(ml_dtypes.bfloat16)
    entry = {"dtype": "BF16", "shape": gamma.shape, "data_offsets": [0, gamma.nbytes]}
    text = json.dumps({"bert.embeddings.LayerNorm.gamma": entry}).encode()
    file = tmp_path / "weights.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + gamma.tobytes())
    assert weights["loaded"](file)["embeddings.LayerNorm.weight"].tolist() == [1, 2, 3, 4]


def test_train_attention(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Gradients that are right let the loss fall far below that of guessing."""
    monkeypatch.setattr(sys, "argv", ["train_attention.py", "--steps", "25"])
    monkeypatch.setenv("CKMLIR_DEVICE", "sim")
    runpy.run_path(str(EXAMPLES / "train_attention.py"), run_name="__main__")
    words = capsys.readouterr().out.split()
    first, last = (float(words[place + 1]) for place in (words.index("loss"), words.index("step,")))
    assert first > 1.9 and last < 0.3


def test_with_torch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch's tensors of the host, bf16 among them, on the simulator."""
    pytest.importorskip("torch", reason="PyTorch is not installed: examples/with_torch.py is not run")
    monkeypatch.setattr(sys, "argv", ["with_torch.py"])
    runpy.run_path(str(EXAMPLES / "with_torch.py"), run_name="__main__")
    assert capsys.readouterr().out.count("largest error") == 4


@pytest.mark.parametrize(
    ("name", "ends", "status", "said"),
    [
        ("search_schedule.py", KeyboardInterrupt(), 130, "interrupted; a search with these records goes on here"),
        ("search_schedule.py", CkmlirError("m=oops"), 2, "error: m=oops"),
        ("explore_schedules.py", KeyboardInterrupt(), 130, "interrupted"),
        ("explore_schedules.py", CkmlirError("no chip"), 2, "error: no chip"),
    ],
)
def test_long_examples_end_with_a_message(
    name: str,
    ends: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where somebody interrupts them, and where a request is refused: one line, no traceback."""

    def end(*_: object, **__: object) -> None:
        raise ends

    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.setattr("ckmlir.scheduling.candidates.bench_of", end)
    monkeypatch.setattr("ckmlir.scheduling.workbench.Workbench.of", end)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert ended.value.code == status
    assert capsys.readouterr().err == f"{name}: {said}\n"


def test_a_schedule_that_is_found_is_adopted(tmp_path: Path) -> None:
    """Under a name of its own, in a file that is read back."""
    program = [sys.executable, str(EXAMPLES / "search_schedule.py"), "m=256", "n=256", "k=128", "block=64x64x32"]
    options = ["--seen", "1", "--gain", "-50", "--jobs", "1", "--name", "mine", "-o", "mine.schedule"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [*program, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0 and "adopted as mine:" in done.stdout, done.stderr
    assert Schedule.parse((tmp_path / "mine.schedule").read_text()).name == "mine"
