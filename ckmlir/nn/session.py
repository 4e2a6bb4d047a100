"""Where functions on arrays run: a device, a dispatcher that finds kernels, and the executables that were used.

    with Session("gfx942") as ck:                  # a GPU of this chip, else the simulator
        y = nn.linear(nn.asarray(x), w, b)

`use` makes a session that stays. The current session is that of the `with` block, of each thread its own, else the one
of `use`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any

import numpy.typing as npt

from ckmlir.dispatch.dispatcher import Dispatcher, NoKernel, Selection
from ckmlir.dispatch.identity import Kernel
from ckmlir.dispatch.registry import Registry
from ckmlir.errors import as_annotated
from ckmlir.nn.array import Array
from ckmlir.nn.array import asarray as array_of
from ckmlir.nn.array import empty as empty_on
from ckmlir.nn.given import Given
from ckmlir.nn.gradients import refuse_gradients, wants_gradient
from ckmlir.nn.homes import Home
from ckmlir.nn.outputs import permutation, put_on_host, require_copy
from ckmlir.nn.overlaps import check_apart
from ckmlir.ops.arrays import ArraySpec
from ckmlir.ops.dtypes import find_dtype, numpy_dtype
from ckmlir.ops.request import RequestError
from ckmlir.runtime.arguments import packed_strides
from ckmlir.runtime.device import Device, DeviceError
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.selection import open_device
from ckmlir.targets import Target, get_target

KEPT = 1024
"""Executables that a session keeps; then those that were not used for longest are closed."""
TYPICAL = 513
"""A size that no tile divides, and that takes several: kernels that are to do for all sizes are chosen for it."""


class Session:
    """Where functions on arrays run: a device, a dispatcher, and the executables that were used.

    Attributes:
        device, target: where kernels run, and the chip that they are for.
        dispatcher: which kernels there are. Without kernels of its own, operators choose, and what they choose is
            compiled when it is first used.
        general: one kernel for all sizes that may change from call to call (rows, lengths of sequences) instead of one
            for each way in which tiles divide them.
    """

    @as_annotated(DeviceError)
    def __init__(
        self,
        target: str | Target | None = None,
        device: Device | str = "auto",
        *,
        dispatcher: Dispatcher | None = None,
        general: bool = False,
        checks: str = "",
    ) -> None:
        """Args:
            target: the chip; needed where `device` is a name.
            device: an open one, which stays the caller's, or what `open_device` takes.
            checks: of the simulator (`ckmlir.sim.checks`).

        Raises:
            DeviceError: no chip is named, there is no such device, or it is of another chip than the dispatcher's.
        """
        self._owns_device = isinstance(device, str)
        if isinstance(device, str):
            if target is None:
                raise DeviceError("a session needs a chip, such as 'gfx942', or an open device")
            device = open_device(device, target, checks=checks)
        self.device = device
        self.target = get_target(device.properties.target)
        if dispatcher is not None and dispatcher.target.name != self.target.name:
            raise DeviceError(f"the dispatcher is for {dispatcher.target.name}, the device runs {self.target.name}")
        self.dispatcher = dispatcher or Dispatcher(Registry(name="session"), self.target)
        self.general = general
        self._executables: OrderedDict[int, tuple[Selection, Executable]] = OrderedDict()
        self._earlier: set[Kernel] = set()  # of executables that were given back since
        self._general: dict[Any, Kernel | None] = {}
        self._tokens: list[Token[Session | None]] = []
        self._lock = threading.RLock()
        self._is_closed = False

    # -- running operators ---------------------------------------------------------------------------------------------

    def run(
        self,
        operator: str,
        keys: Mapping[str, object],
        inputs: Mapping[str, Given],
        outputs: Mapping[str, Given | None],
        *,
        varying: Sequence[str] = (),
        typical: Mapping[str, object] | None = None,
        in_place: Mapping[str, Collection[str]] = MappingProxyType({}),
        kept: Collection[str] = (),
        stream: object = None,
    ) -> dict[str, Given]:
        """Run an operator on arrays that are as its keys say, and return its outputs.

        Args:
            inputs: by the operator's names, in the shapes and strides of memory.
            outputs: None where they are to be made, beside the first input. One that does not lie as the kernel
                writes it gets a copy of what the kernel has made.
            varying: keys that change from call to call: sizes, and strides that follow from them.
            typical: those that are lists, as they are for sizes of `TYPICAL`.
            in_place: of outputs, the inputs whose place they may take (`check_apart`).
            kept: outputs of which the kernel writes parts; the others keep what they hold.

        Raises:
            RequestError, DeviceError, NoKernel, KernelFault: as dispatchers and executables.
            NoGradient: a tensor requires gradients, and results are not integers.
        """
        if self._is_closed:
            raise DeviceError("this session is closed")
        check_apart(inputs, outputs, in_place)
        executable = self.executable(operator, keys, varying, typical)
        written = [spec for spec in executable.arrays.values() if spec.role == "out"]
        asked = [one for one in (*inputs.values(), *outputs.values()) if one is not None and wants_gradient(one.array)]
        if asked and not all(find_dtype(spec.dtype).is_integer for spec in written):
            refuse_gradients(asked[0].what, asked[0].array)
        home, like = _beside(inputs)
        found, copied = {}, list[tuple[Given, Given]]()
        for spec in written:
            given = outputs.get(spec.name)
            as_it_lies = None if given is None else given.as_written(spec)
            found[spec.name] = as_it_lies or self._made(spec, home, like)
            if given is not None and as_it_lies is None:
                require_copy(given, spec, spec.name in kept)
                copied.append((found[spec.name], given))
        arrays = {**inputs, **found}
        with ExitStack() as borrowed:
            taken = {name: self._argument(executable, name, one, stream, borrowed) for name, one in arrays.items()}
            executable(stream, **taken)
        for made, given in copied:
            self.put(made, given, stream)
        return found

    def _argument(
        self, executable: Executable, name: str, array: Given, stream: object, borrowed: ExitStack
    ) -> Any:
        """What the executable takes for an array: itself, or a copy where it begins within the vectors that the kernel
        loads."""
        if not array.address % executable.arrays[name].align or 0 in array.shape:
            return array.argument
        return borrowed.enter_context(executable.aligned(name, array.argument, stream))

    def put(self, made: Given, out: Given, stream: object) -> None:
        """Copy a result to where it is wanted."""
        if not out.address:
            put_on_host(made, out, None if stream is None else self.device.stream_of(stream))
            return
        x, y = made.reshaped(*out.shape).with_a_dimension(), out.with_a_dimension()
        self.run("permute", permutation(x, range(y.ndim), y), {"x": x}, {"y": y}, stream=stream)

    def _made(self, spec: ArraySpec, home: Home, like: Any) -> Given:
        """An array as the kernel writes it: with gaps where it was told how an output lies that it cannot write to."""
        pairs = zip(spec.shape, spec.strides, packed_strides(spec.shape), strict=True)
        has_gaps = spec.elements and any(length > 1 and own != packed for length, own, packed in pairs)
        shape = (spec.elements,) if has_gaps else spec.shape
        array = home.empty(like, shape, numpy_dtype(spec.dtype, self.target), self.device)
        made = Given(spec.name, array, home, shape, packed_strides(shape), spec.dtype, 0)
        return made if shape == spec.shape else made.strided(spec.shape, spec.strides)

    def executable(
        self, operator: str, keys: Mapping[str, object], varying: Sequence[str] = (),
        typical: Mapping[str, object] | None = None,
    ) -> Executable:  # fmt: skip
        """The executable for a request, made where there is none yet; it stays the session's. Raises as `run`."""
        selection = self.dispatcher.select(operator, **keys)
        with self._lock:
            known = self._executables.get(id(selection))
            if known is not None and known[0] is selection:
                self._executables.move_to_end(id(selection))
                return known[1]
            executable = self._executable(selection, varying, typical or {})
            self._executables[id(selection)] = (selection, executable)
            if len(self._executables) > KEPT:
                chosen, oldest = self._executables.popitem(last=False)[1]
                self._earlier |= self._kernels(chosen, oldest)
                oldest.close()
            return executable

    def _executable(self, selection: Selection, varying: Sequence[str], typical: Mapping[str, object]) -> Executable:
        changes = self.general and (varying or typical)
        kernel = self._general_kernel(selection, varying, typical) if changes else None
        if kernel is None or kernel.against(selection.query.problem):
            return selection.executable(self.device)
        query = selection.query
        return Executable(self.device, query.operator, query.problem, target=self.target, spec=kernel.spec)

    def _general_kernel(
        self, selection: Selection, varying: Sequence[str], typical: Mapping[str, object]
    ) -> Kernel | None:
        """The kernel that a request of a typical size takes: it does for nearly all others. None where none does."""
        query = selection.query
        fixed = {name: value for name, value in query.keys.items() if name not in varying and name not in typical}
        sizes = {name: TYPICAL for name in varying if isinstance(query.keys.get(name), int)} | dict(typical)
        key = (query.operator.name, *sorted((name, repr(value)) for name, value in {**fixed, **typical}.items()))
        if key not in self._general:
            try:
                self._general[key] = self.dispatcher.select(query.operator, **fixed, **sizes).kernel
            except (RequestError, NoKernel):  # a typical size is too large beside others, or a library lacks it
                self._general[key] = None
        return self._general[key]

    @property
    def kernels(self) -> set[Kernel]:
        """The operators' own kernels that were used so far."""
        with self._lock:
            return self._earlier.union(*(self._kernels(*one) for one in self._executables.values()))

    def _kernels(self, selection: Selection, executable: Executable) -> set[Kernel]:
        """The operator's own kernel, where there is anything to launch."""
        used = bool(executable.plan.steps)
        return {Kernel(selection.query.operator, executable.spec, self.target)} if used else set()

    # -- which one -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *raised: object) -> None:
        _current.reset(self._tokens.pop())
        if not self._tokens:
            self.close()

    def close(self) -> None:
        """Give the executables back, and the device if the session opened it. Again: nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self in _lasting:
                _lasting.remove(self)
            while self._executables:
                self._executables.popitem()[1][1].close()
            if self._owns_device:
                self.device.close()


_current: ContextVar[Session | None] = ContextVar("session", default=None)
_lasting: list[Session] = []


def use(target: str | Target | None = None, device: Device | str = "auto", **options: Any) -> Session:
    """Make a session that functions take from now on, where they are in no `with` block; the one before is closed. The
    arguments are those of `Session`.
    """
    session = Session(target, device, **options)
    while _lasting:
        _lasting[-1].close()
    _lasting.append(session)
    return session


def current() -> Session:
    """The session that functions take. Raises DeviceError where there is none."""
    found = _current.get() or (_lasting[-1] if _lasting else None)
    if found is None:
        raise DeviceError("there is no session: expected nn.use('gfx942'), or a with block of nn.Session('gfx942')")
    return found


def asarray(array: object, stream: object = None) -> Array:
    """An array of the session's device: one of the host is copied there, one of the device is itself.

    Raises NoGradient for a tensor that requires gradients, which the copy would lose.
    """
    refuse_gradients("array", array)
    device = current().device
    return array_of(array, device, None if stream is None else device.stream_of(stream))


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike) -> Array:
    """A new array of the session's device, packed; what is in it is not defined."""
    return empty_on(shape, dtype, current().device)


def _beside(inputs: Mapping[str, Given]) -> tuple[Home, Any]:
    first = next(iter(inputs.values()))
    return first.home, first.array
