"""Functions on arrays as operators of PyTorch: `import ckmlir.nn.pytorch`, then `torch.ops.ckmlir.linear(x, weight)`.

Each has a fake form, so that `torch.compile` and `torch.export` keep it in the graph; `attention`, `attention_varlen`,
`hstu_attention`, `linear` (without an activation), `matmul`, `einsum`, `embedding`, `scatter_rows`, convolutions, norms
and `softmax` have gradients, others refuse tensors that require them. Kernels run on the session of `nn.use`;
on tensors of a GPU in PyTorch's current stream. Arguments, results and errors are those of the functions of the same
names in `ckmlir.nn`, with what PyTorch's schemas can say: attention always returns the logarithms as well. Functions of
`ckmlir.nn` with a gradient come here with tensors that require it.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import BoundArguments
from typing import Any, NamedTuple

from ckmlir import nn
from ckmlir.nn.gradients import NoGradient
from ckmlir.nn.plain import numbers, shown
from ckmlir.nn.pytorch_attention import RUN_PARTS
from ckmlir.nn.pytorch_batch_norm import NAME as BATCH_NORM
from ckmlir.nn.pytorch_batch_norm import WITH_STATS as BATCH_NORM_WITH_STATS
from ckmlir.nn.pytorch_batch_norm import recorded_batch_norm, run_with_stats
from ckmlir.nn.pytorch_convolutions import BY_NAME
from ckmlir.nn.pytorch_gradients import GRADIENTS, without_gradient
from ckmlir.nn.pytorch_norms import RUN, STATISTICS, before_autograd, recorded_norm
from ckmlir.nn.pytorch_schemas import SCHEMAS
from ckmlir.ops.request import whole
from ckmlir.runtime.device import DeviceError

torch: Any = importlib.import_module("torch")  # typed alike whether it is installed or not

NAMESPACE = "ckmlir"
WITH_LOGARITHMS = ("attention", "attention_varlen")
RUN_BESIDE = RUN | RUN_PARTS | {BATCH_NORM_WITH_STATS: run_with_stats}
"""What runs operators that no function has the name of."""
NUMBERS = ("Tensor", "Optional[Tensor]")
"""Types of arrays."""
BEGINNINGS = ("cu_seqlens", "cu_seqlens_q", "cu_seqlens_k")
"""Arrays that functions also take a list of numbers for."""


class Recorded(NamedTuple):
    """A function's call where its operator returns more than it does: that operator, the flag that asks for more, and
    what gives the function's results, of the arguments and of the flag."""

    operator: str
    asked: str
    call: Callable[[Mapping[str, Any], bool], Any]


def _with_logarithms(name: str, given: Mapping[str, Any], wants_logarithms: bool) -> Any:
    found = getattr(torch.ops.ckmlir, name)(**given)
    return found if wants_logarithms else found[0]


RECORDED = {
    **{name: Recorded(name, "return_lse", partial(_with_logarithms, name)) for name in WITH_LOGARITHMS},
    **{name: Recorded(name, "return_sum", partial(recorded_norm, name)) for name in STATISTICS},
    BATCH_NORM: Recorded(BATCH_NORM_WITH_STATS, "return_stats", recorded_batch_norm),
}


def _arguments(name: str) -> dict[str, str]:
    """Of an operator, by name: their types."""
    parsed = torch._C.parse_schema(f"{name}{SCHEMAS[name][0]}")
    return {one.name: str(one.type) for one in parsed.arguments}


def recorded(function: Callable[..., Any], call: BoundArguments) -> Any:
    """A call of a function as one of the operator of its name, which PyTorch records.

    Raises what the function itself raises for an argument that it refuses; NoGradient for one that the operator does
    not take, DeviceError for one of another type.
    """
    name, given = function.__name__, dict(call.arguments)
    named, how = f"{name}{BY_NAME}" if isinstance(given.get("padding"), str) else name, RECORDED.get(name)
    taken = _arguments(how.operator if how else named if named in SCHEMAS else name)
    wants_more = how is not None and given.pop(how.asked, False)
    defaults = call.signature.parameters
    fits = [_fits(what, taken.get(what), value, defaults[what].default) for what, value in given.items()]
    if not all(fits):
        _let_refuse(function, call.arguments)
    for what, value in list(given.items()):
        if value is None or value is defaults[what].default:
            del given[what]
        elif what not in taken or (isinstance(value, str) and "str" not in taken[what]):
            told = f"{what}={value}" if isinstance(value, str | int | float) else what
            raise NoGradient(f"{name}: tensors require gradients, which it does not have with {told}")
        elif "str" in taken[what] and not isinstance(value, str):
            raise DeviceError(f"{name}: {what}={shown(value)}: expected a text")
        elif taken[what] == "int" and whole(value) is None:
            raise DeviceError(f"{name}: {what}={shown(value)}: expected a whole number")
        elif "List[int]" in taken[what] and whole(value) is None:
            given[what] = list(numbers(what, value))
        elif taken[what] in NUMBERS and isinstance(value, Sequence):
            given[what] = torch.tensor(numbers(what, value), dtype=torch.int32)
        elif taken[what] in NUMBERS and not isinstance(value, torch.Tensor):
            found = type(value).__name__
            raise DeviceError(f"{name}: tensors require gradients, and {what} is {found}; expected a tensor")
    return how.call(given, wants_more) if how else getattr(torch.ops.ckmlir, name)(**given)


def _let_refuse(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise what a function does where PyTorch records nothing, if anything. It gets copies: none of the tensors, such
    as running statistics, is written."""
    copies = {what: one.detach().clone() if isinstance(one, torch.Tensor) else one for what, one in given.items()}
    with torch.no_grad():
        function(**{what: one for what, one in copies.items() if what != "out" or not hasattr(one, "shape")})


def _fits(what: str, kind: str | None, value: Any, default: Any) -> bool:
    """Whether PyTorch's type `kind` can hold an argument's value; None holds none. One number stands for several alike
    where the default is one. Flags and real numbers have been checked before, and arrays are only checked to be
    arrays."""
    if value is default or (kind is None and hasattr(value, "shape")):
        return True
    if value is None or kind is None:
        return False
    if kind in NUMBERS:
        return hasattr(value, "shape") or (what in BEGINNINGS and isinstance(value, list | tuple))
    if "List[int]" in kind:
        return _is_listed(value) if isinstance(default, tuple) else whole(value) is not None or _is_listed(value)
    if kind == "int":
        return whole(value) is not None and not isinstance(value, bool)
    return isinstance(value, str) == ("str" in kind)


def _is_listed(value: Any) -> bool:
    """Whether it is whole numbers, one behind the other."""
    try:
        return not isinstance(value, str) and bool(numbers("", value))
    except DeviceError:
        return False


def _run(name: str, parameters: Sequence[str]) -> Callable[..., Any]:
    """The function, in the stream of its first tensor."""
    function = RUN_BESIDE.get(name) or getattr(nn, name.partition(".")[0])
    extra = {"return_lse": True} if name in WITH_LOGARITHMS else {}

    def run(*positional: Any, **options: Any) -> Any:
        first = next(one for one in positional if isinstance(one, torch.Tensor))
        stream = torch.cuda.current_stream(first.device) if first.is_cuda else None
        return function(**dict(zip(parameters, positional)), **options, **extra, stream=stream)

    return run


def _register() -> None:
    library = torch.library.Library(NAMESPACE, "DEF")
    for name, (schema, fake) in SCHEMAS.items():
        library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, _run(name, list(_arguments(name))), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
        if name in STATISTICS:
            library.impl(name, before_autograd(name), "Autograd")
            continue
        keep, backward = GRADIENTS.get(name) or without_gradient(name)
        torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=keep, lib=library)
    _libraries.append(library)


_libraries: list[Any] = []
"""Operators live as long as their library."""

_register()
