"""Cube map instructions (v_cube*_f32): face, coordinates and major axis of a direction (x, y, z). AMD CDNA3 ISA,
chapter 12. The major axis is z if no other is larger, else y if x is not larger, else x."""

from __future__ import annotations

from collections.abc import Callable

from ckmlir.sim.builder import Builder, Value
from ckmlir.sim.operation import define

ByAxis = Callable[[Builder, Value, Value, Value], tuple[Value, Value, Value]]


def by_major_axis(results: ByAxis) -> Callable[[Builder, Value, Value, Value], Value]:
    """`results` gives what an instruction computes for major axis z, y and x."""

    def evaluate(b: Builder, x: Value, y: Value, z: Value) -> Value:
        along_z, along_y, along_x = results(b, x, y, z)
        ax, ay, az = (b.absolute(v) for v in (x, y, z))
        return b.select((az >= ax) & (az >= ay), along_z, b.select(ay >= ax, along_y, along_x))

    return evaluate


def faces(b: Builder, x: Value, y: Value, z: Value) -> tuple[Value, Value, Value]:
    face_z, face_y, face_x = (
        b.select(axis < 0.0, b.f32(number + 1.0), b.f32(number)) for axis, number in ((z, 4.0), (y, 2.0), (x, 0.0))
    )
    return face_z, face_y, face_x


define("v_cubeid_f32", "f32 <- f32 f32 f32", by_major_axis(faces))
define(
    "v_cubesc_f32", "f32 <- f32 f32 f32",
    by_major_axis(lambda b, x, y, z: (b.select(z < 0.0, -x, x), x, b.select(x < 0.0, z, -z))),
)  # fmt: skip
define(
    "v_cubetc_f32", "f32 <- f32 f32 f32",
    by_major_axis(lambda b, x, y, z: (-y, b.select(y < 0.0, -z, z), -y)),
)  # fmt: skip
define("v_cubema_f32", "f32 <- f32 f32 f32", by_major_axis(lambda b, x, y, z: (z * 2.0, y * 2.0, x * 2.0)))
