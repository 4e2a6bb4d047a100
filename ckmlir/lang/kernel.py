"""The kernel decorator: tracing a Python function once gives a module with one GPU function."""

import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any

from msgspec import Struct

from ckmlir.dialect import fragment_compute
from ckmlir.dialect.build import create, integer
from ckmlir.dialect.context import exclusive, shared_context
from ckmlir.dialect.scalars import bits
from ckmlir.given import described
from ckmlir.lang.arithmetic import dtype
from ckmlir.lang.trace import Trace, TracingError, current, located, tracing, user_location, users_body
from ckmlir.lang.values import Pointer, Scalar
from ckmlir.lang.verification import verify
from ckmlir.mlir import ir
from ckmlir.targets import Target


class PointerArgument(Struct, frozen=True):
    """Annotation of a kernel argument that points to global memory; `alignment` in bytes is guaranteed by the
    caller.
    """

    dtype: str
    alignment: int = 16


class ScalarArgument(Struct, frozen=True):
    """Annotation of a scalar kernel argument."""

    dtype: str


def ptr(name: str, alignment: int = 16) -> PointerArgument:
    """A pointer to elements of a dtype, aligned to so many bytes, a power of two.

    Raises:
        TracingError: the alignment is not a power of two, or the dtype is not text.
    """
    if not isinstance(name, str):
        raise TracingError(f"ptr takes text as dtype, not {described(name)}")
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise TracingError(f"ptr({name!r}, {described(alignment)}): an alignment is a power of two of bytes")
    return PointerArgument(name, alignment)


i32 = ScalarArgument("i32")
i64 = ScalarArgument("i64")
f32 = ScalarArgument("f32")
f64 = ScalarArgument("f64")


class Kernel(Struct, frozen=True):
    """A traced kernel: its module (tile IR), function name, target, waves a workgroup and names of arguments."""

    module: ir.Module
    name: str
    target: Target
    waves: int
    arguments: tuple[str, ...]


Argument = PointerArgument | ScalarArgument


def kernel(
    name: str,
    *,
    target: Target,
    waves: int,
    arguments: Mapping[str, Argument] | None = None,
    waves_a_simd: int = 1,
    workgroups_a_unit: int = 1,
) -> Callable[[Callable[..., None]], Kernel]:
    """Trace the decorated function into a kernel.

    `arguments` says what the kernel's arguments are in order: `ptr(dtype)`, `i32`, `i64`, `f32`, `f64` by name. Without
    it the function's annotations say so. The function takes them by name, or all together as attributes of one
    parameter called `given`. Its body runs once; what it does to traced values becomes the kernel's tile IR, which is
    verified.

    `waves_a_simd`: for how many waves of a SIMD registers leave room, where nothing is spilled for that. By default
    LLVM orders instructions for a wave that is alone where a workgroup has at most four, and may take up to 512
    registers.

    `workgroups_a_unit`: how many workgroups of a launch a compute unit is given at a time, where all of them have to
    run (`wait_until`) or stay. LDS and registers leave room for them, by spilling where they wait for each other.

    Raises:
        TracingError: the name is not an identifier, the waves do not make a workgroup, an argument has no type, or what
            the function traces is not valid.
    """
    _check_request(name, target, waves, arguments)
    _check_room(name, target, waves, waves_a_simd, workgroups_a_unit)
    room = {"ck.waves_a_simd": waves_a_simd, "ck.workgroups_a_unit": workgroups_a_unit}

    def decorate(function: Callable[..., None]) -> Kernel:
        if not callable(function):
            raise TracingError(f"kernel '{name}' is traced from a function, not from {described(function)}")
        with exclusive(shared_context()), user_location(), tracing(Trace(name, target, waves)):
            module = ir.Module.create()
            module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
            with ir.InsertionPoint(module.body):
                body = _gpu_module(target)
            with ir.InsertionPoint(body):
                names = _trace_function(name, function, waves, arguments, room)
            current().require_opened()
            verify(module)
        return Kernel(module, name, target, waves, names)

    return decorate


def _check_request(name: Any, target: Any, waves: Any, arguments: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][\w.$]*", name, re.ASCII):
        raise TracingError(f"a kernel's name is an identifier, not {described(name)}")
    if not isinstance(target, Target):
        raise TracingError(f"kernel '{name}' is for a Target, not {described(target)}; get_target(name) finds it")
    most = target.workgroup_size // target.wave_size
    if isinstance(waves, bool) or not isinstance(waves, int) or not 1 <= waves <= most:
        raise TracingError(
            f"kernel '{name}': a workgroup of {target.name} has 1 to {most} waves, not {described(waves)}"
        )
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TracingError(f"kernel '{name}': arguments are types by name, not {described(arguments)}")


def _check_room(name: str, target: Target, waves: int, waves_a_simd: Any, workgroups_a_unit: Any) -> None:
    together = target.waves_per_simd
    fitting = together // -(-waves // target.simds) if waves >= target.simds else together * target.simds // waves
    for whose, what, most, given in (
        ("SIMD", "waves", together, waves_a_simd), ("compute unit", "of its workgroups", fitting, workgroups_a_unit),
    ):  # fmt: skip
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
            raise TracingError(
                f"kernel '{name}': a {whose} of {target.name} holds 1 to {most} {what}, not {described(given)}"
            )


def _gpu_module(target: Target) -> ir.Block:
    attributes = {
        "sym_name": ir.StringAttr.get("kernels"),
        "targets": ir.ArrayAttr.get([ir.Attribute.parse(f'#rocdl.target<O = 3, chip = "{target.name}">')]),
    }
    operation = create("gpu.module", [], [], attributes, regions=1)
    return operation.regions[0].blocks.append()


def _trace_function(
    name: str,
    function: Callable[..., object],
    waves: int,
    arguments: Mapping[str, Argument] | None,
    room: Mapping[str, int],
) -> tuple[str, ...]:
    """Append the kernel's function, which leaves `room` for others of its kind; returns the names of its arguments."""
    annotations: list[tuple[str, Any]] = (
        list(arguments.items())
        if arguments is not None
        else [
            (argument, parameter.annotation) for argument, parameter in inspect.signature(function).parameters.items()
        ]
    )
    taken = _parameters(function)
    if taken != ["given"] and sorted(taken) != sorted(argument for argument, _ in annotations):
        raise TracingError(
            f"kernel '{name}' has the arguments {', '.join(argument for argument, _ in annotations) or 'none'}; its "
            f"function takes {', '.join(taken) or 'none'}: the same by name, or all as one parameter `given`"
        )
    types, attributes = [], []
    for argument, annotation in annotations:
        type_, attribute = _argument(argument, annotation)
        types.append(type_)
        attributes.append(attribute)
    operation = create(
        "func.func",
        [],
        [],
        {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            "arg_attrs": ir.ArrayAttr.get(attributes),
            "ck.waves": integer(waves, 32),
            **{name: integer(count, 32) for name, count in room.items() if count > 1},
        },
        regions=1,
    )
    block = operation.regions[0].blocks.append(*types, arg_locs=[operation.location] * len(types))
    with ir.InsertionPoint(block):
        traced = {
            key: _traced(value, annotation)
            for value, (key, annotation) in zip(block.arguments, annotations, strict=True)
        }
        with users_body(), current().rest:
            returned: object = function(SimpleNamespace(**traced)) if taken == ["given"] else function(**traced)
        if returned is not None:
            raise TracingError(
                f"kernel '{name}' returns {described(returned)}; a kernel has no result: store what it computes"
            )
        create("func.return", [], [])
    return tuple(argument for argument, _ in annotations)


def _parameters(function: Callable[..., object]) -> list[str]:
    """The names of a function's parameters; of a plain one as its code says, which takes a tenth of the time."""
    if type(function) is not FunctionType or function.__dict__:  # what is wrapped takes what its signature says
        return list(inspect.signature(function).parameters)
    code = function.__code__
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred])


def _argument(name: str, annotation: Any) -> tuple[ir.Type, ir.Attribute]:
    if isinstance(annotation, (PointerArgument, ScalarArgument)):
        try:
            element = dtype(annotation.dtype)
        except ValueError as problem:
            raise TracingError(f"argument '{name}': {problem}") from None
    if isinstance(annotation, PointerArgument):
        if bits(element) % 8:
            raise TracingError(f"argument '{name}': memory holds elements of whole bytes, not {element}")
        i64_type = ir.IntegerType.get_signless(64)
        return ir.Type.parse("!llvm.ptr<1>"), ir.DictAttr.get(
            {
                "llvm.noalias": ir.UnitAttr.get(),
                "llvm.align": ir.IntegerAttr.get(i64_type, annotation.alignment),
                "ck.name": ir.StringAttr.get(name),
            }
        )
    if isinstance(annotation, ScalarArgument):
        return element, ir.DictAttr.get({"ck.name": ir.StringAttr.get(name)})
    why = "; it is text: `from __future__ import annotations` hides its value" if isinstance(annotation, str) else ""
    raise TracingError(f"argument '{name}' needs an annotation: ptr(dtype), i32, i64, f32 or f64{why}")


def _traced(value: ir.Value, annotation: Any) -> Pointer | Scalar:
    if isinstance(annotation, PointerArgument):
        return Pointer(value, dtype(annotation.dtype), annotation.alignment)
    return Scalar(value)


@located
def workgroup_id(axis: int) -> Scalar:
    """This workgroup's position along axis 0 (x), 1 (y) or 2 (z) of the grid."""
    return Scalar(fragment_compute.workgroup_id(axis))
