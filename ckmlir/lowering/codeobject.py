"""From a module of llvm and rocdl operations to a loadable code object: backend, then linker.

The backend runs inside this process, through MLIR's own `gpu-module-to-binary`. That pass insists on calling a linker;
what stands for it (`linker_stand_in.py`) hands the relocatable object back, so that linking is ours: timed apart, with
its own messages, and exchangeable (`ckmlir.lowering.linker`).
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, field

from ckmlir.diagnostics import collect
from ckmlir.dialect.build import integer_of
from ckmlir.dialect.notes import take_notes
from ckmlir.errors import CkmlirError
from ckmlir.lowering import spared_matrices
from ckmlir.lowering.arms_in_loops import has_arms_in_loops
from ckmlir.lowering.backend_options import backend_options, wanted_options
from ckmlir.lowering.carried_registers import carried_beside_accumulators
from ckmlir.lowering.child_process import ChildEnded, in_child_process
from ckmlir.lowering.forgotten_states import MATRIX
from ckmlir.lowering.linker import link
from ckmlir.lowering.linker_stand_in import toolkit
from ckmlir.lowering.metadata_note import KernelNotes, spilled_registers, with_notes
from ckmlir.lowering.resting_memory import INTEGER_ARITHMETIC, resting_memory
from ckmlir.lowering.spared_matrices import ASSEMBLY, can_spare
from ckmlir.lowering.standard_error import captured_standard_error
from ckmlir.mlir import PassManager, gpu_objects, ir, set_backend_option

if TYPE_CHECKING:
    from ckmlir.codeobject import CodeObject

KEEPABLE = ("rocdl", "llvm", "asm", "obj")

# Code object format 5 is what ROCm 5.5 and later load (LLVM AMDGPUUsage, "Code Object V5"); LLVM's default is newer.
CODE_OBJECT_ABI = "500"
LINE_TABLE_PASS = "ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}"

DEFAULT_LEVEL = 2
"""What level 3 does besides costs a twentieth of the time and finds nothing: kernels are as long or a little longer.
Level 1 would save a tenth of GEMM's time with the same loops; loops of rows, reductions and pooling would be 3 to 16
percent longer, in the same time (310 kernels, benchmarks/listed_kernels.py)."""

LEVEL = "ck.llvm_level"
"""Set on a kernel that wants another of LLVM's levels."""

ERROR = re.compile(r"\berror\b|not a recognized", re.IGNORECASE)
"""What LLVM says where it only prints; its fatal errors begin with "LLVM ERROR"."""

MANY_REGISTERS = 128
"""Registers that go round a loop beside accumulators in registers of their own, above which a kernel may run LLVM out
of them. It is then compiled in a copy of the process: that takes a tenth of the half second and more that LLVM takes
for such kernels."""
MANY_LOADS = 256
"""Loads of a kernel of one block above which LLVM leaves their order as it is, and its allocator takes registers for
what lives within the block from its end on. As it does by default, what was loaded first is moved out of the way again
and again: 448 elements of a thread that are loaded and stored by themselves took 11 to 18 s, and take one, with as
many instructions. Options are the whole process's, so such a kernel is compiled in a copy of it."""
BUFFER_LOAD = "rocdl.raw.ptr.buffer.load"
FROM_THE_END, SCHEDULER = "greedy-reverse-local-assignment", "enable-misched"
KEEP_CHOICES = "structurizecfg-skip-uniform-regions"
"""For kernels that choose between two arms in a loop (`arms_in_loops`)."""
FEWER_SCALARS = (("disable-lsr", True), ("disable-machine-licm", True), ("disable-machine-cse", True))
"""What LLVM leaves out for kernels that keep scalar registers in lanes otherwise, most of them one to five: the first,
then two, then all three. Registers that a loop advances with its step instead of computing from it what follows
(LLVM's loop strength reduction); what does not change in a loop, computed before it; what was computed already, kept
instead of computed again."""
WIDE_FIRST = "greedy-regclass-priority-trumps-globalness"
FEWER_VECTORS = ((WIDE_FIRST, True), (SCHEDULER, False))
"""What LLVM does instead for kernels with matrix instructions that spill vector registers otherwise, to accumulation
registers or memory: the first, then both. What takes several neighbours, such as a load of 16 bytes, gets registers
before what lives longer, so that it finds neighbours; instructions stay in the order that passes gave them."""
FEWER = {"vectors": FEWER_VECTORS, "scalars": FEWER_SCALARS}
"""By what is spilled, in the order in which it is asked for; scalars beside the choice that is best for vectors."""


class CodeGenerationError(CkmlirError):
    """The module is not made of the right operations, or LLVM found that the chip cannot run it."""


class CompiledObject(Struct, dict=True):
    """One code object and what was asked to be kept on the way to it."""

    hsaco: bytes
    target: str
    artifacts: dict[str, str | bytes] = field(default_factory=dict)
    """By name of KEEPABLE: `rocdl`, `llvm` and `asm` are text, `obj` is the relocatable object."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds: `llvm` (passes and backend, to the object), `link`, and where kept `llvm text` and `asm`."""
    multiplies: bool = False
    """Whether it has matrix instructions, written as operations."""

    @functools.cached_property
    def code_object(self) -> CodeObject:
        """The parsed code object: kernels, arguments, registers, LDS, spills, line table."""
        from ckmlir.codeobject import CodeObject

        return CodeObject.parse(self.hsaco)


def emit_code_object(
    module: ir.Module,
    target: str,
    *,
    opt_level: int | None = None,
    line_table: bool = True,
    keep: Collection[str] = (),
    argument_names: Mapping[str, Sequence[str]] | None = None,
) -> CompiledObject:
    """Compile the one `gpu.module` of `module`, which holds llvm and rocdl operations only, for the chip `target`.

    `module` itself is not changed. `opt_level` is LLVM's, by default what the kernel wants (LEVEL), else DEFAULT_LEVEL.
    `line_table` carries the operations' locations into the code object. `keep` names artifacts, see KEEPABLE.
    `argument_names` by kernel go into the metadata. The environment names the linker, see `ckmlir.lowering.linker`.
    Kernels without a use for matrix instructions get their registers only where they would spill otherwise
    (`spared_matrices.py`).
    Every instruction has to be one the chip has: LLVM aborts the process on others, so legality is checked by the
    passes before. Where LLVM gives up on a kernel in a copy of the process, CodeGenerationError has its words.

    Raises CodeGenerationError, LinkerNotFound, LinkError, and UnsupportedTarget for an unknown chip.
    """
    unknown = sorted(set(keep) - set(KEEPABLE))
    if unknown:
        raise CodeGenerationError(f"no artifact is called {unknown[0]!r}; they are {', '.join(KEEPABLE)}")
    given = module, target, opt_level, line_table, keep, argument_names or {}
    made = _emitted(*given, sparing=True)
    if made is None:
        made = _emitted(*given, sparing=False)
    assert made is not None
    return made


def _emitted(
    module: ir.Module, target: str, opt_level: int | None, line_table: bool, keep: Collection[str],
    argument_names: Mapping[str, Sequence[str]], *, sparing: bool,
) -> CompiledObject | None:  # fmt: skip
    """What `emit_code_object` says, `sparing` registers of matrix instructions where nothing uses them; None: so it
    spills."""
    compiled = CompiledObject(b"", target)

    def timed(name: str, seconds: float) -> None:
        compiled.timings[name] = compiled.timings.get(name, 0.0) + seconds

    work = module.operation.clone()
    kernels = _prepare(work, target)
    size = _size(work)
    compiled.multiplies = size.multiplies
    spared = sparing and size.spares_matrices
    _name_target(kernels, target, opt_level, spared_matrices.FEATURES if spared else "")
    notes = _notes(kernels, argument_names, spared_matrices.NOTE if spared else {})
    if "rocdl" in keep:
        compiled.artifacts["rocdl"] = str(work)
    if line_table:
        start = time.perf_counter()
        _run(work, LINE_TABLE_PASS)
        timed("llvm", time.perf_counter() - start)
    if "llvm" in keep:
        from ckmlir.mlir import llvm

        start = time.perf_counter()
        compiled.artifacts["llvm"] = llvm.translate_module_to_llvmir(kernels.operation)
        timed("llvm text", time.perf_counter() - start)
    if "asm" in keep:
        start = time.perf_counter()
        compiled.artifacts["asm"] = _serialize(work, "isa", size).decode()
        timed("asm", time.perf_counter() - start)
    start = time.perf_counter()
    relocatable = _serialize(work, "bin", size)
    if spared and spilled_registers(relocatable).vectors:
        return None
    if notes:
        relocatable = with_notes(relocatable, notes)
    timed("llvm", time.perf_counter() - start)
    if "obj" in keep:
        compiled.artifacts["obj"] = relocatable
    start = time.perf_counter()
    compiled.hsaco = link(relocatable)
    timed("link", time.perf_counter() - start)
    return compiled


def _prepare(work: ir.Operation, target: str) -> ir.OpView:
    """The one gpu.module of `work`. Raises CodeGenerationError where it is not to be compiled for the target."""
    from ckmlir.targets import get_target

    if get_target(target).name != target:
        raise CodeGenerationError(f"{target}: features after the chip's name are not supported; compile for the chip")
    modules = [op for op in work.regions[0].blocks[0].operations if op.operation.name == "gpu.module"]
    if len(modules) != 1:
        raise CodeGenerationError(f"a code object is made from exactly one gpu.module; this module has {len(modules)}")
    attributes = modules[0].attributes
    named = str(attributes["targets"]) if "targets" in attributes else ""
    other = [chip for chip in re.findall(r'chip = "([^"]*)"', named) if chip != target]
    if other:
        raise CodeGenerationError(f"the gpu.module is for {other[0]}: it cannot be compiled for {target}")
    return modules[0]


def _name_target(kernels: ir.OpView, target: str, opt_level: int | None, features: str) -> None:
    """Say for which chip LLVM compiles a gpu.module, with or without which `features`, and how thoroughly."""
    if opt_level is not None and opt_level not in range(4):
        raise CodeGenerationError(f"optimization level {opt_level} is not one of 0, 1, 2, 3")
    level = _wanted_level(kernels) if opt_level is None else opt_level
    with_features = f'features = "{features}", ' if features else ""
    chip = f'#rocdl.target<O = {level}, chip = "{target}", {with_features}abi = "{CODE_OBJECT_ABI}">'
    kernels.attributes["targets"] = ir.Attribute.parse(f"[{chip}]", kernels.context)


def _wanted_level(kernels: ir.OpView) -> int:
    """The lowest level that a kernel of the module wants."""
    inside = [op.operation for op in kernels.operation.regions[0].blocks[0].operations]
    return min((integer_of(one, LEVEL) for one in inside if LEVEL in one.attributes), default=DEFAULT_LEVEL)


def _notes(
    kernels: ir.OpView, argument_names: Mapping[str, Sequence[str]], more: Mapping[str, Any]
) -> dict[str, KernelNotes]:
    """What the metadata is to say of each kernel: what passes leave on the functions, where LLVM would not know it, and
    `more`."""
    found = {}
    for op in kernels.operation.regions[0].blocks[0].operations:
        if op.operation.name == "llvm.func":
            name = str(op.operation.attributes["sym_name"].value)
            found[name] = KernelNotes(argument_names.get(name, ()), {**more, **take_notes(op.operation)})
    return {name: one for name, one in found.items() if one.arguments or one.entries}


def _serialize(work: ir.Operation, form: str, size: _Size) -> bytes:
    """LLVM's `form` ("isa" or "bin") of the gpu.module of `work`, with as few vector registers spilled as may be, and
    as few scalar ones in lanes.

    `work` may be used up by "bin".
    """
    options = _options(work, size)
    again = form == "isa" or size.branches  # behind this, which puts the binary in its place
    content, lines = _compiled(work.clone() if again else work, form, size, options)
    fewest = spilled_registers(content)
    for kind, choices in FEWER.items() if size.branches else ():
        asked, able = options, size.multiplies or kind != "vectors"
        for name, choice in choices if able else ():
            if not getattr(fewest, kind):
                break
            asked = {**asked, name: choice}
            try:
                found, printed = _compiled(work.clone(), form, size, asked)
            except CodeGenerationError:
                continue  # LLVM gives up on this choice only
            if (spilled := spilled_registers(found)) < fewest:
                content, lines, fewest, options = found, printed, spilled, asked
    errors = [line for line in lines if ERROR.search(line)]
    if errors:
        # Turned round from LLVM's `error: file:line:column: text`.
        raise CodeGenerationError(re.sub(r"^(?:error:\s*)?(\S.*?:\d+:\d+:\s)?", r"\1error: LLVM: ", errors[0]))
    for line in lines:
        print(line, file=sys.stderr)
    return content


def _options(work: ir.Operation, size: _Size) -> dict[str, bool]:
    """LLVM's options for a module that mostly make the best code."""
    options = {FROM_THE_END: True, SCHEDULER: False} if size.most_loads > MANY_LOADS else {}
    if size.branches and any(map(has_arms_in_loops, _kernels(work))):
        options[KEEP_CHOICES] = True
    return options


def _compiled(work: ir.Operation, form: str, size: _Size, options: Mapping[str, bool]) -> tuple[bytes, list[str]]:
    """LLVM's binary under some of its options, and what it prints. In a copy of the process, where there are options or
    LLVM might give up; otherwise in this one, which replaces the gpu.module of `work` by the binary."""
    choices = {**wanted_options(size.branches, size.integer_arithmetic), **options}

    def binary() -> bytes:
        for name, choice in choices.items():
            set_backend_option(name, choice)
        return _binary(work, form, size)

    if options or _carried(work) > MANY_REGISTERS:
        try:
            content, lines = in_child_process(binary)
        except ChildEnded as end:
            raise CodeGenerationError(_given_up(str(end), end.printed)) from None
        return content, lines
    with captured_standard_error() as lines, backend_options(choices):
        content = _binary(work, form, size)
    return content, lines


def _given_up(end: str, printed: list[str]) -> str:
    """Why the backend ended its process, in LLVM's own words where it had any.

    Only its check of machine code tells of registers: its allocator makes such code where it has too few of them.
    """
    for line in printed:
        if "Bad machine code" in line:
            return (
                f"error: LLVM gave up on this kernel: {line.strip('* ').rstrip('.')}. It has too few registers for "
                "what it does at once; smaller blocks or more waves need fewer"
            )
    why = next((line.strip() for line in printed if ERROR.search(line) or "Assertion" in line), "it did not say why")
    return f"error: LLVM gave up on this kernel and {end}: {why}; this is a defect of ckmlir or of LLVM"


def _binary(work: ir.Operation, form: str, size: _Size) -> bytes:
    with resting_memory(size.integer_arithmetic, size.branches):
        _run(work, f"gpu-module-to-binary{{format={form} toolkit={_toolkit()}}}")
    binary = next(op for op in work.regions[0].blocks[0].operations if op.operation.name == "gpu.binary")
    content: bytes = gpu_objects.ObjectAttr(ir.ArrayAttr(binary.attributes["objects"])[0]).object
    return content


def _kernels(work: ir.Operation) -> list[list[ir.Block]]:
    """The blocks of each kernel."""
    modules = [op for op in work.regions[0].blocks[0].operations if op.operation.name == "gpu.module"]
    inside = [op for module in modules for op in module.regions[0].blocks[0].operations]
    return [list(op.regions[0]) for op in inside if op.operation.name == "llvm.func"]


class _Size(NamedTuple):
    """How much of some things the kernels of a module have."""

    integer_arithmetic: int
    branches: bool
    """Whether any kernel has more than one block."""
    most_loads: int
    """Loads through buffers in a kernel of one block, of the one that has most of them."""
    multiplies: bool
    """Whether any kernel has matrix instructions."""
    spares_matrices: bool
    """Whether no kernel has a use for matrix instructions, nor for their registers."""


def _size(work: ir.Operation) -> _Size:
    most_loads = 0
    kernels = _kernels(work)
    every = Counter[str]()
    assemblies: list[ir.Operation] = []
    for blocks in kernels:
        views = [view for block in blocks for view in block]
        names = Counter([view.name for view in views])
        every.update(names)
        if names[ASSEMBLY]:
            assemblies += [view.operation for view in views if view.name == ASSEMBLY]
        if len(blocks) == 1:
            most_loads = max(most_loads, names[BUFFER_LOAD])
    return _Size(
        sum(every[name] for name in INTEGER_ARITHMETIC),
        any(len(blocks) > 1 for blocks in kernels),
        most_loads,
        any(name.startswith(MATRIX) for name in every),
        most_loads <= MANY_LOADS and can_spare(every, assemblies),
    )


def _carried(work: ir.Operation) -> int:
    """Most vector registers that LLVM allocates for what a block of a kernel gets from those before it."""
    return max((carried_beside_accumulators(blocks[1:]) for blocks in _kernels(work)), default=0)


def _run(work: ir.Operation, pipeline: str) -> None:
    manager = PassManager.parse(f"builtin.module({pipeline})", work.context)
    manager.enable_verifier(False)  # the module's maker has verified it
    with collect(work.context) as diagnostics:
        try:
            manager.run(work)
        except ir.MLIRError:
            # The first error names the operation; those after it follow from it, and notes repeat whole modules.
            first = next((one for one in diagnostics if one.severity == "error"), None)
            reason = msgspec.structs.replace(first, notes=()) if first else "error: MLIR gave no reason"
            raise CodeGenerationError(str(reason)) from None


def _toolkit() -> Path:
    try:
        return toolkit()
    except OSError as error:
        why = f"{error}; set XDG_CACHE_HOME or TMPDIR"
        raise CodeGenerationError(f"no directory for a small program that stands for a linker: {why}") from None
