"""Named schedules of the operators' loops, as text; the language is described in `ckmlir.dialect.schedule`."""

from __future__ import annotations

from collections.abc import Mapping

GEMM: Mapping[str, str] = {
    "unpipelined": "schedule unpipelined 1",
    "single_buffer": "schedule single_buffer 1; ahead load 1, to_lds 1; order interleave; fences memory",
    "prefetch": "schedule prefetch 1; ahead load 2, to_lds 1; buffers 2; order interleave; fences memory",
}
"""Stages load, to_lds, from_lds, math."""

ATTENTION: Mapping[str, str] = {
    "unpipelined": "schedule unpipelined 1",
    "prefetch": "schedule prefetch 1; ahead load_k 1, load_v 1; step k_lds, v_lds, load_k, load_v, qk, softmax, pv",
}
"""Stages load_k, k_lds, load_v, v_lds, qk, softmax, pv."""


def lds_buffers(schedule: str) -> int:
    """How many LDS buffers each staged tensor has under a schedule, read without importing the compiler."""
    for statement in schedule.split(";"):
        words = statement.split()
        if words[:1] == ["buffers"]:
            return int(words[1])
    return 1
