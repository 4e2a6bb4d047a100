"""Libraries: what is built is found, runs and is right, elsewhere too; what is not as it was is refused."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckmlir.compiled_kernel import CompiledKernel
from ckmlir.dispatch import Dispatcher, Kernel, NoKernel, Space, building
from ckmlir.dispatch.building import build
from ckmlir.dispatch.library import Library, LibraryError
from ckmlir.errors import CkmlirError
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.records import field_defaults
from ckmlir.runtime import check_outputs, compile_cache, open_device
from ckmlir.targets import get_target

ROOT = Path(__file__).resolve().parents[2]
GFX942 = get_target("gfx942")
SOFTMAX = find_operator("softmax")
KEYS: dict[str, Any] = {"m": (5,), "n": (100, 64), "dtype": ("f16", "f32")}


def kernels() -> list[Kernel]:
    return Space(SOFTMAX, (GFX942,), KEYS, {}).expand().kernels


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of four kernels."""
    path = tmp_path_factory.mktemp("library") / "lib.ckl"
    built = build(kernels(), path, processes=1)
    assert (built.kernels, built.resumed, built.refused, built.findings) == (4, 0, {}, {})
    assert [one.name for one in path.parent.iterdir()] == ["lib.ckl"]
    return path


def test_a_library_has_what_was_built(file: Path) -> None:
    library = Library.load(file)
    assert list(library) == sorted(one.identifier for one in kernels())
    assert set(library.registry()) == set(kernels())
    assert library.toolchain["bindings"]
    for identifier in library:
        row = library.described(identifier)
        compiled = library.compiled(identifier)
        metadata = compiled.code_object.kernel(compiled.kernel_name).metadata
        assert row["resources"]["vector_registers"] == metadata.vgpr_count > 0
        assert row["resources"]["vector_spills"] == 0
        assert row["checks"] == {"waits": 0, "hazards": 0}
    with pytest.raises(LibraryError, match="there is no kernel gemm in it"):
        library.compiled("gemm")


def test_its_kernels_run_and_nothing_is_compiled(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_nothing(*anything: object) -> CompiledKernel:
        raise AssertionError("a kernel was compiled")

    monkeypatch.setattr("ckmlir.compiler.compile_kernel", compile_nothing)
    compile_cache.forget()
    with Library.load(file).attached() as library:
        dispatcher = Dispatcher(library.registry(), GFX942, strict=True)
        chosen = dispatcher.select("softmax", m=7, n=100)
        problem = chosen.query.problem
        arrays, y = SOFTMAX.inputs(problem, GFX942), np.empty((7, 100), np.float16)
        with closing(open_device("sim", GFX942, checks="all")) as device, closing(chosen.executable(device)) as run:
            run(**arrays, y=y)
        assert all(one.ok for one in check_outputs(SOFTMAX, problem, arrays, {"y": y}, GFX942))
        with pytest.raises(NoKernel):
            dispatcher.select("softmax", m=7, n=2000)
    with pytest.raises(NoKernel, match="is not compiled"), closing(open_device("sim", GFX942)) as device:
        chosen.executable(device)


def test_the_same_kernels_make_the_same_bytes_in_any_order_by_any_number(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ckl"
    build(kernels()[::-1], other, processes=2)
    assert other.read_bytes() == file.read_bytes()


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("flydsl", "mlir", "llvmlite", "numba"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("device, message", [
    ("hip", "device hip: no library: "), ("sim", "the simulator: llvmlite is not installed; `pip install llvmlite`"),
])  # fmt: skip
def test_commands_without_mlir_and_llvm(file: Path, tmp_path: Path, device: str, message: str) -> None:
    """A GPU needs neither; of the simulator one line says what is missing."""
    code = f"{BLOCKED}\nfrom ckmlir.tools.cli import main\nsys.exit(main(sys.argv[1:]))"
    words = ["run", "softmax", "m=7", "n=100", "--arch", "gfx942", "--library", str(file), "--device", device]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROCM_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and done.stderr.startswith(f"ckmlir: error: {message}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_without_mlir_and_llvm(file: Path) -> None:
    """Loading, choosing and making an executable; a device that only keeps account stands for a GPU."""
    code = f"""
{BLOCKED}
from types import SimpleNamespace
from ckmlir.dispatch import Dispatcher
from ckmlir.dispatch.library import Library
from ckmlir.runtime.device import DeviceProperties
from ckmlir.targets import get_target

launched = []

class Launch(SimpleNamespace):
    def __init__(self, *launch): self.launch = launch
    def __call__(self, memories, stream, size): launched.append((*self.launch, memories))
    def sized(self, grid, scalars): pass

class Device:
    properties = DeviceProperties("an account", "gfx942", 304, 64, 65536, 1024)
    def load(self, code): return SimpleNamespace(code=code)
    def unload(self, module): pass
    def allocate(self, size): raise AssertionError
    def free(self, memory): raise AssertionError
    def prepare(self, module, kernel, grid, block, arguments):
        assert module.code[:4] == b"\\x7fELF"
        return Launch(kernel, grid)

with Library.load({str(file)!r}).attached() as library:
    chosen = Dispatcher(library.registry(), get_target("gfx942"), strict=True).select("softmax", m=1000, n=100)
    chosen.executable(Device()).launch({{"x": 1, "y": 2}})
print(launched[0][0] == chosen.kernel.spec.name, launched[0][1:])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ((")


def changed(file: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> Path:
    other = tmp_path / "changed.ckl"
    other.write_bytes(change(file.read_bytes()))
    return other


def with_header(data: bytes, **change: object) -> bytes:
    line, _, rest = data.partition(b"\n")
    return json.dumps({**json.loads(line), **change}).encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: b"", "is not a library of kernels: its first line is another one"),
        (lambda data: b"\x7fELF" + data, "is not a library of kernels"),
        (lambda data: b"{}\n" + data, "is not a library of kernels"),
        (lambda data: data[:-1], "is cut off: "),
        (lambda data: data[:200], "is cut off: "),
        (lambda data: data + b"x", "is longer than it says: "),
        (lambda data: data.replace(b'"toolchain"', b'"toolchaim"', 1), "is damaged: its manifest has another digest"),
        (lambda data: with_header(data, **{"ckmlir library": 2}), "schema=2 is newer than this version reads"),
        (lambda data: with_header(data, manifest="many"), 'manifest="many": expected a whole number'),
        (lambda data: with_header(data, more=1), "unknown field more; "),
        (lambda data: with_header(data, manifest=-1), "manifest=-1: expected a number of bytes"),
        (lambda data: with_header(data, content=-1), "content=-1: expected a number of bytes"),
        (lambda data: with_header(data, manifest=1 << 80), "is cut off: "),
        (lambda data: b"[" * 100_000, "is not a library of kernels: its first line is another one"),
    ],
)
def test_what_is_no_whole_library_is_refused(
    file: Path, tmp_path: Path, change: Callable[[bytes], bytes], words: str
) -> None:
    with pytest.raises(LibraryError) as caught:
        Library.load(changed(file, tmp_path, change))
    assert words in str(caught.value)


def test_a_damaged_code_object_is_refused_when_it_is_wanted(file: Path, tmp_path: Path) -> None:
    library = Library.load(changed(file, tmp_path, lambda data: data[:-100] + bytes(100)))
    digests = {identifier: library.described(identifier)["offset"] for identifier in library}
    last = max(digests, key=digests.__getitem__)
    for identifier in library:
        if identifier != last:
            library.compiled(identifier)
    with pytest.raises(LibraryError, match=f"is damaged: the code object of softmax/.*{last[-16:]} has another digest"):
        library.compiled(last)
    with pytest.raises(LibraryError, match=r"cannot read .*none.ckl: No such file"):
        Library.load(tmp_path / "none.ckl")


@pytest.mark.parametrize("place", [{"offset": -1}, {"offset": 1 << 80}, {"size": -1}, {"size": 1 << 80}])
def test_a_code_object_outside_of_the_file_is_refused(file: Path, tmp_path: Path, place: dict[str, int]) -> None:
    data = partial(with_rows, lambda rows: rows[0].update(place))
    library = Library.load(changed(file, tmp_path, data))
    with pytest.raises(LibraryError, match=r"is damaged: the code object of .* lies outside of it"):
        library.compiled(next(iter(library)))


def with_kernels(change: Callable[[list[Any]], None], data: bytes) -> bytes:
    """A library whose manifest has other kernels, and says so."""
    return with_rows(lambda rows: change([row["kernel"] for row in rows]), data)


def with_rows(change: Callable[[list[Any]], object], data: bytes) -> bytes:
    """A library whose manifest has other entries, and says so."""
    line, _, rest = data.partition(b"\n")
    header = json.loads(line)
    manifest = json.loads(rest[: header["manifest"]])
    change(manifest["kernels"])
    written = json.dumps(manifest).encode()
    return with_header(
        line + b"\n" + written + rest[header["manifest"] :],
        manifest=len(written), sha256=hashlib.sha256(written).hexdigest(),
    )  # fmt: skip


def test_a_library_of_before_a_field_was_there(tmp_path: Path) -> None:
    """A field that came later has its default, which is what was there before; kernels keep their names."""
    gemm, left_out = find_operator("gemm"), []
    kernel = Kernel(gemm, gemm.spec(gemm.problem(m=64, n=64, k=64), GFX942), GFX942)
    build([kernel], tmp_path / "lib.ckl", processes=1)

    def without_defaults(kernels: list[Any]) -> None:
        defaults = field_defaults(gemm.spec_type)
        for kernel in kernels:
            for part in (kernel["signature"], kernel["algorithm"]):
                for name in [name for name, value in part.items() if name in defaults and value == defaults[name]]:
                    left_out.append(part.pop(name))

    library = Library.load(changed(tmp_path / "lib.ckl", tmp_path, partial(with_kernels, without_defaults)))
    assert left_out
    assert list(library.registry()) == [kernel]
    assert library.find(gemm, kernel.spec, GFX942)
    with pytest.raises(RequestError, match="no field"):  # of JSON that people write nothing may be missing
        Kernel.from_dict(library.described(kernel.identifier)["kernel"])


def test_a_kernel_that_this_version_does_not_know(file: Path, tmp_path: Path) -> None:
    """An older or newer library is read as far as it can be, if that is wanted."""

    def with_another_field(kernels: list[Any]) -> None:
        kernels[0]["algorithm"]["unrolled"] = 4

    library = Library.load(changed(file, tmp_path, partial(with_kernels, with_another_field)))
    with pytest.raises(LibraryError, match="unknown field unrolled; the fields are"):
        library.registry()
    assert len(library.registry(partial=True)) == 3
    assert library.compiled(next(iter(library))).hsaco  # the code runs all the same


# -- builds that end early ---------------------------------------------------------------------------------------------


def test_a_build_goes_on_where_another_ended(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, compiled = tmp_path / "lib.ckl", []

    def end_after_two(request: object) -> None:
        if len(compiled) == 2:
            raise KeyboardInterrupt
        compiled.append(request)

    whole = building.compile_many

    def counting(requests: Any, **options: Any) -> Any:
        report = options.pop("report")

        def tell(request: Any, answer: Any) -> None:
            report(request, answer)
            end_after_two(request)

        return whole(requests, report=tell, **options)

    monkeypatch.setattr(building, "compile_many", counting)
    with pytest.raises(KeyboardInterrupt):
        build(kernels(), path, processes=1)
    assert not path.exists()
    parts = sorted((tmp_path / ".lib.ckl.parts").iterdir())
    assert len(parts) == 3
    parts[0].write_bytes(parts[0].read_bytes()[:-1])  # as after a crash of the machine
    monkeypatch.setattr(building, "compile_many", whole)
    built = build(kernels(), path, processes=1)
    assert (built.kernels, built.resumed) == (4, 2)
    assert path.read_bytes() == file.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["lib.ckl"]


def test_two_builders_at_once(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "lib.ckl"
    space = tmp_path / "space.json"
    keys = {name: list(values) for name, values in KEYS.items()}
    space.write_text(json.dumps({"schema": 1, "op": "softmax", "arch": "gfx942", "keys": keys}))
    command = [sys.executable, "-m", "ckmlir.tools.cli", "build", str(space), "-o", str(path), "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    builders = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [one.communicate()[0] for one in builders]
    assert [one.returncode for one in builders] == [0, 0]
    assert all(output.startswith("4 kernels of 4 combinations\n") for output in outputs)
    assert path.read_bytes() == file.read_bytes()


def test_kernels_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, answers = tmp_path / "lib.ckl", building.compile_many

    def refusing(requests: Any, **options: Any) -> Any:
        found = answers(requests, **{**options, "report": None})
        for request, answer in zip(requests[1:], found[1:], strict=True):
            options["report"](request, answer)
        return [CkmlirError("too many registers"), *found[1:]]

    monkeypatch.setattr(building, "compile_many", refusing)
    with pytest.raises(CkmlirError, match=r"1 of 4 kernels cannot be compiled; the first, softmax/.*: too many reg"):
        build(kernels(), path, processes=1)
    assert not path.exists()
    monkeypatch.setattr(building, "compile_many", lambda requests, **options: [CkmlirError("still")] * len(requests))
    built = build(kernels(), path, partial=True)
    assert (built.kernels, built.resumed, len(built.refused)) == (3, 3, 1)
    assert len(Library.load(path)) == 3


def test_what_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is nothing to build"):
        build([], tmp_path / "lib.ckl")
    with pytest.raises(CkmlirError, match="there is no directory"):
        build(kernels(), tmp_path / "none" / "lib.ckl")
    with pytest.raises(RequestError, match="is not a regular file"):
        build(kernels(), Path("/dev/null"))


def test_a_library_is_read_without_making_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's load takes the manifest apart and nothing else."""

    def no_kernels(*anything: object) -> Kernel:
        raise AssertionError("a kernel was made")

    path = tmp_path / "lib.ckl"
    build(kernels()[:1], path, processes=1)
    monkeypatch.setattr(Kernel, "from_dict", no_kernels)
    library = Library.load(path)
    assert len(library) == 1


def test_nothing_is_collected_while_a_manifest_is_read(file: Path, tmp_path: Path) -> None:
    """The garbage collector would go through the kernels read so far again and again, and find nothing."""
    line, _, rest = file.read_bytes().partition(b"\n")
    header = json.loads(line)
    manifest, content = json.loads(rest[: header["manifest"]]), rest[header["manifest"] :]
    row = json.dumps(manifest["kernels"][0])
    names = (row.replace("#", f"#{number}", 1) for number in range(3000))
    manifest["kernels"] = [json.loads(one) for one in names]
    text = json.dumps(manifest).encode()
    header |= {"manifest": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    (tmp_path / "many.ckl").write_bytes(json.dumps(header).encode() + b"\n" + text + content)
    collections: list[str] = []

    def note(phase: str, details: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        library = Library.load(tmp_path / "many.ckl")
    finally:
        gc.callbacks.remove(note)
    assert len(library) == 3000 and len(collections) <= 4 and gc.isenabled()
    (tmp_path / "torn.ckl").write_bytes((tmp_path / "many.ckl").read_bytes()[:-1])
    with pytest.raises(LibraryError, match="cut off"):
        Library.load(tmp_path / "torn.ckl")
    assert gc.isenabled()
