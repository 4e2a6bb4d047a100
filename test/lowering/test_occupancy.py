"""Occupancy against cases worked out by hand from the register files and LDS of the chips."""

from __future__ import annotations

import pytest

from ckmlir.lowering.occupancy import Occupancy, occupancy
from ckmlir.targets import get_target


@pytest.mark.parametrize(
    ("chip", "vector", "scalar", "lds", "threads", "expected"),
    [
        ("gfx942", 32, 32, 0, 256, Occupancy(8, 32, 8.0, "wave slots")),
        ("gfx942", 64, 32, 0, 256, Occupancy(8, 32, 8.0, "vector registers")),  # 512 / 64 is the 8 slots too
        ("gfx942", 65, 32, 0, 256, Occupancy(7, 28, 7.0, "vector registers")),  # 72 are allocated
        ("gfx942", 256, 32, 65536, 512, Occupancy(1, 8, 2.0, "LDS")),
        ("gfx942", 128, 32, 32768, 256, Occupancy(2, 8, 2.0, "LDS")),
        ("gfx950", 128, 32, 32768, 256, Occupancy(4, 16, 4.0, "LDS")),  # 33280 are allocated: 5 would be 166400
        ("gfx950", 128, 32, 32000, 256, Occupancy(4, 16, 4.0, "vector registers")),  # 32000 are: 5 fit
        ("gfx950", 128, 32, 65536, 256, Occupancy(2, 8, 2.0, "LDS")),
        ("gfx942", 32, 102, 0, 256, Occupancy(7, 28, 7.0, "scalar registers")),
        ("gfx942", 16, 16, 0, 128, Occupancy(16, 32, 8.0, "wave slots")),
        ("gfx90a", 16, 16, 0, 64, Occupancy(32, 32, 8.0, "wave slots")),
        ("gfx942", 512, 16, 0, 64, Occupancy(4, 4, 1.0, "vector registers")),
        ("gfx942", 128, 16, 0, 1024, Occupancy(1, 16, 4.0, "vector registers")),
        ("gfx942", 96, 16, 0, 320, Occupancy(2, 10, 2.5, "vector registers")),  # 5 waves take 2 of 5 slots of a SIMD
    ],
)
def test_occupancy(chip: str, vector: int, scalar: int, lds: int, threads: int, expected: Occupancy) -> None:
    found = occupancy(
        get_target(chip), vector_registers=vector, scalar_registers=scalar, lds_bytes=lds, workgroup_size=threads
    )
    assert found == expected


@pytest.mark.parametrize(
    ("vector", "lds", "threads", "message"),
    [
        (256, 0, 1024, "1024 threads with 256 vector registers a lane does not fit on gfx942"),
        (64, 65537, 256, "256 threads with 65537 bytes of LDS does not fit on gfx942"),
        (64, 0, 1025, "1 to 1024 threads, not 1025"),
        (64, 0, 0, "1 to 1024 threads, not 0"),
    ],
)
def test_what_does_not_fit_is_refused(vector: int, lds: int, threads: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        occupancy(
            get_target("gfx942"), vector_registers=vector, scalar_registers=32, lds_bytes=lds, workgroup_size=threads
        )
