"""The keys of a batch of products, and how they become one problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ckmlir.ops.contraction.contraction_spec import MOST_BATCH_DIMENSIONS
from ckmlir.ops.contraction.keys import batched
from ckmlir.ops.contraction.problem import Problem
from ckmlir.ops.list_keys import Numbers
from ckmlir.ops.request import Key, RequestError
from ckmlir.ops.tensors.keys import Broadcast

BATCH = Numbers("batch", (4,), "dimensions of the batch", most=MOST_BATCH_DIMENSIONS)


def batch_keys(names: Sequence[str]) -> tuple[Key, ...]:
    """How each of these arrays lies in the batch; C has all of it."""
    return tuple(key for name in names for key in _keys_of(name))


def read_batch(single: Problem, names: Sequence[str], values: Mapping[str, Any]) -> Problem:
    """A batch of a problem; `names` are the arrays that have keys. Raises RequestError for keys of arrays that the
    problem has not, and as `batched`.
    """
    there = {one.name for one in single.arrays()}
    for name in names:
        unused = [key.name for key in _keys_of(name) if values[key.name] is not None]
        if unused and name not in there:
            what = f"this request has no array {name}; leave it out"
            if re.fullmatch(r"d\d", name):
                what = f"op={single.op or 'acc'} has no D tensor {name}"
            raise RequestError(f"{unused[0]}: {what}")
    return batched(single, values["batch"], values)


def _keys_of(name: str) -> tuple[Key, ...]:
    dims = MOST_BATCH_DIMENSIONS
    of, repeated = f"of array {name}'s batch dimensions, in elements", "" if name == "c" else "; 0: one for all"
    strides = Numbers(f"{name}_batch_strides", None, f"{of}{repeated}", most=dims)
    if name == "c":
        return (strides,)
    help = f"array {name}'s own batch dimensions; by default batch"
    return (Broadcast(f"{name}_batch", None, help, dims, of="batch", otherwise="batch"), strides)
