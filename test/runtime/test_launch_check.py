"""Launches that cannot be right are refused with words, before the device sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckmlir.codeobject import Argument, CodeObject, Image, Kernel, KernelDescriptor, KernelMetadata
from ckmlir.runtime.device import DeviceError, DeviceProperties
from ckmlir.runtime.launch_check import check_launch, check_target

DEVICE = DeviceProperties("simulator (gfx942)", "gfx942", 304, 64, 65536, 1024)


class Buffer:
    address, size = 4096, 64


def code_object(**metadata: Any) -> CodeObject:
    """One kernel `k` that takes a buffer and an i32, at most 256 work-items and 1024 bytes of LDS."""
    arguments = (
        Argument("x", 0, 8, "global_buffer", "global"),
        Argument("n", 8, 4, "by_value"),
        Argument("", 16, 4, "hidden_block_count_x"),
    )
    fields: dict[str, Any] = {
        "name": "k", "symbol": "k.kd", "arguments": arguments, "kernarg_size": 280, "kernarg_alignment": 8,
        "group_segment_size": 1024, "private_segment_size": 0, "vgpr_count": 8, "agpr_count": 0, "sgpr_count": 16,
        "vgpr_spill_count": 0, "sgpr_spill_count": 0, "max_flat_workgroup_size": 256, "required_workgroup_size": None,
        "wavefront_size": 64, "uses_dynamic_stack": False,
    }  # fmt: skip
    described = KernelMetadata(**(fields | metadata))
    kernel = Kernel("k", 0, 4, 64, KernelDescriptor(*[0] * 9), described)
    return CodeObject(b"", "gfx942", {}, 5, {"k": kernel}, Image(b"", (), {}, ()))


RIGHT: dict[str, Any] = {
    "kernel": "k", "grid": (2, 1, 1), "block": (256, 1, 1), "arguments": (Buffer(), np.int32(3)), "dynamic_lds": 0
}  # fmt: skip


def test_a_right_launch_passes() -> None:
    check_launch(code_object(), **RIGHT, properties=DEVICE)
    check_target(code_object(), DEVICE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "g"}, "no kernel g; it has k"),
        ({"grid": (0, 1, 1)}, "must be positive"),
        ({"block": (64, 0, 1)}, "must be positive"),
        ({"grid": (2**24, 1, 1)}, "exceed 4294967295"),
        ({"grid": (1, 65536, 1)}, "HIP takes at most 65535 along the second and third axis"),
        ({"grid": (1, 1, 65536)}, r"k: grid \(1, 1, 65536\); HIP takes"),
        ({"block": (512, 1, 1)}, "a workgroup of 512 work-items; the kernel takes at most 256"),
        ({"dynamic_lds": 65536}, "66560 bytes of LDS"),
        ({"dynamic_lds": -2000}, "dynamic_lds -2000; it is at least 0"),
        ({"dynamic_lds": 1.5}, "dynamic_lds 1.5 must be whole numbers"),
        ({"arguments": None}, "k: arguments are a sequence, such as a list; got NoneType"),
        ({"arguments": (Buffer(),)}, "k takes 2 arguments, not 1"),
        ({"arguments": (np.int64(3), np.int32(3))}, "argument x is memory"),
        ({"arguments": (Buffer(), Buffer())}, "argument n is a scalar"),
        ({"arguments": (Buffer(), np.int64(3))}, "argument n takes 4 bytes, int64 has 8"),
    ],
)
def test_wrong_launches(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        check_launch(code_object(), **(RIGHT | changes), properties=DEVICE)


def test_a_required_workgroup_size_is_required() -> None:
    with pytest.raises(DeviceError, match=r"requires \(128, 2, 1\)"):
        check_launch(code_object(required_workgroup_size=(128, 2, 1)), **RIGHT, properties=DEVICE)


def test_code_for_another_chip() -> None:
    other = DeviceProperties("simulator (gfx950)", "gfx950", 256, 64, 163840, 1024)
    with pytest.raises(DeviceError, match=r"is for gfx942, simulator \(gfx950\) runs gfx950"):
        check_target(code_object(), other)
