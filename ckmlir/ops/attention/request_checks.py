"""What requests of attention cannot ask for: channels, packed elements and scales that no kernel has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckmlir.dialect.packing import PACKED
from ckmlir.ops.attention.fmha_fwd_spec import HEAD_TILES, SCALED, channel_multiple
from ckmlir.ops.attention.orders import MOST_FURTHER
from ckmlir.ops.request import MAXIMUM_SIZE, RequestError

BEHIND_THE_LAST = 256
"""Keys that the last block of a sequence may count behind its end, at most."""


def check_counts(b: int, h: int, queries: int) -> None:
    """Refuse more sequences or heads than an axis of a grid takes, where something is launched. Raises RequestError."""
    if 0 in (b, queries):
        return
    for key, count, what in (("b", b, "sequences"), ("h", h, "heads")):
        if count > MOST_FURTHER:
            raise RequestError(f"{key}={count}: a launch takes at most {MOST_FURTHER} {what}")


def check_reach(queries: int, keys: int) -> None:
    """Refuse more keys than kernels count, with the queries on either side of a mask's diagonal: in pages a sequence
    may have any number of them. Raises RequestError."""
    most = MAXIMUM_SIZE - 2 * queries - BEHIND_THE_LAST
    if keys > most:
        raise RequestError(f"sk={keys}: beside {queries} queries kernels count keys to {most}; expected at most that")


def check_channels(fields: Mapping[str, Any]) -> None:
    """Refuse heads whose rows are not whole vectors, or larger than tiles. Raises RequestError."""
    for key, dtype in (("d", fields["dtype"]), ("dv", fields.get("v_dtype") or fields["dtype"])):
        multiple = channel_multiple(dtype)
        if fields[key] % multiple or fields[key] > HEAD_TILES[-1]:
            right = f"a multiple of {multiple} from {multiple} to {HEAD_TILES[-1]}"
            raise RequestError(f"{key}={fields[key]}: heads of {dtype} have {right} channels")


def check_packed(values: Mapping[str, Any], keys: int) -> None:
    """Refuse packed elements that have no scales, or that leave a byte of V's columns in part. Raises RequestError."""
    dtype, together = values["dtype"], PACKED[values["dtype"]].elements
    if values["scales"] != "mx":
        raise RequestError(f"dtype={dtype}: its elements have a scale for every 32 of them; expected scales=mx")
    if values["v_layout"] == "columns" and keys % together:
        right = f"expected a multiple of {together} for sk"
        raise RequestError(f"v_layout=columns: {together} keys of {dtype} share a byte, and there are {keys}; {right}")


def check_scales(fields: dict[str, Any]) -> None:
    """Refuse scales that make no sense, and find that of the scores. Raises RequestError."""
    dtype = fields["dtype"]
    for key in ("q_scale", "k_scale", "v_scale"):
        if dtype not in SCALED and fields[key] != 1:
            raise RequestError(f"{key}={fields[key]}: only fp8 is scaled, not {dtype}; leave it out")
        if fields[key] <= 0:
            raise RequestError(f"{key}={fields[key]}: expected a positive number")
    if fields["scale"] is None:
        fields["scale"] = 1 / math.sqrt(fields["d"])
    if fields["scale"] <= 0:
        raise RequestError(f"scale={fields['scale']}: expected a positive number")


def check_apart(values: Mapping[str, Any], key: str, *others: str) -> None:
    """Refuse a key that asks for something beside others that do. Raises RequestError."""
    for other in others:
        if all(values.get(one) not in (None, 0, "none") for one in (key, other)):
            what = f"{key}={values[key]}: it does not go with {other}={values[other]}"
            raise RequestError(f"{what}; leave one of them out")
