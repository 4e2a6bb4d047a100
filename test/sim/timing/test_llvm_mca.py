"""Against an independent model: the throughput of straight-line blocks as LLVM's machine code analyser sees it.

llvm-mca knows one wave, issues an instruction a turn of four cycles, and has LLVM's scheduling models for units and
latencies of arithmetic. That is sound for blocks without memory, waits, barriers and branches. Where the two disagree,
`DISAGREEMENTS` says why.
"""

import re
import subprocess
from pathlib import Path

import installed_tools
import pytest
from synthetic_traces import issue_cycles, time_of

TARGETS = ("gfx90a", "gfx942", "gfx950")

LARGE = {"gfx90a": "v_mfma_f32_32x32x8f16", "gfx942": "v_mfma_f32_32x32x8_f16", "gfx950": "v_mfma_f32_32x32x16_f16"}
SMALL = {"gfx90a": "v_mfma_f32_16x16x16f16", "gfx942": "v_mfma_f32_16x16x16_f16", "gfx950": "v_mfma_f32_16x16x32_f16"}


def large(chip: str, d: int) -> str:
    last = 3 if chip == "gfx950" else 1
    return f"{LARGE[chip]} v[{d}:{d + 15}], v[200:{200 + last}], v[208:{208 + last}], v[{d}:{d + 15}]"


def small(chip: str, d: int) -> str:
    last = 3 if chip == "gfx950" else 1
    return f"{SMALL[chip]} v[{d}:{d + 3}], v[200:{200 + last}], v[208:{208 + last}], v[{d}:{d + 3}]"


def single(chip: str, d: int) -> str:
    name = "v_mfma_f32_32x32x2f32" if chip == "gfx90a" else "v_mfma_f32_32x32x2_f32"
    return f"{name} v[{d}:{d + 15}], v200, v208, v[{d}:{d + 15}]"


def double(chip: str) -> str:
    name = "v_mfma_f64_16x16x4f64" if chip == "gfx90a" else "v_mfma_f64_16x16x4_f64"
    return f"{name} v[0:7], v[200:201], v[208:209], v[0:7]"


def adds(count: int) -> list[str]:
    return [f"v_add_f32_e32 v{100 + 2 * n}, v{101 + 2 * n}, v{101 + 2 * n}" for n in range(count)]


def blocks(chip: str) -> dict[str, list[str]]:
    return {
        "matrix, independent": [large(chip, d) for d in (0, 16, 32, 48)],
        "matrix, one accumulator": [large(chip, 0)],
        "small matrix, independent": [small(chip, d) for d in (0, 4, 8, 12)],
        "matrix and a few VALU": [large(chip, 0), *adds(3), large(chip, 16), *adds(4)],
        "matrix and many VALU": [large(chip, 0), *adds(12)],
        "small matrix and as many VALU as fit": [small(chip, 0), *adds(3)],
        "f32 matrix": [single(chip, 0), single(chip, 16)],
        "f64 matrix": [double(chip)],
        "VALU": adds(8),
        "VALU, a chain": ["v_add_f32_e32 v100, v100, v101"],
        "packed and f64": [
            "v_pk_fma_f32 v[100:101], v[102:103], v[104:105], v[106:107]",
            "v_fma_f64 v[108:109], v[102:103], v[104:105], v[106:107]",
        ],
        "SALU": ["s_add_u32 s0, s1, s2", "s_mul_i32 s3, s4, s5"],
        "SALU and VALU": ["s_add_u32 s0, s1, s2", *adds(1)],
        "transcendental": ["v_exp_f32_e32 v100, v101", "v_exp_f32_e32 v102, v103"],
        "integer product": ["v_mul_lo_u32 v100, v101, v102", "v_mul_lo_u32 v103, v101, v102"],
        "f32 matrix and VALU": [single(chip, 0), *adds(3)],
    }


# Block -> why, and by how much (the model's cycles over llvm-mca's) on each chip.
DISAGREEMENTS = {
    "transcendental": (
        "LLVM's models give transcendental instructions the latency of four turns and the rate of additions; AMD "
        "publishes a quarter of that rate, and twice as much for CDNA4",
        {"gfx90a": 4, "gfx942": 4, "gfx950": 2},
    ),
    "f32 matrix and VALU": (
        "llvm-mca lets VALU run beside every matrix instruction; AMD's matrix instruction calculator has none beside "
        "f32 and f64 from CDNA3 on",
        {"gfx90a": 1, "gfx942": 76 / 64, "gfx950": 76 / 64},
    ),
}  # fmt: skip


def cycles_of_mca(chip: str, block: list[str], directory: Path) -> float:
    """Cycles of one repetition. llvm-mca counts turns."""
    file = directory / "block.s"
    file.write_text("\n".join(block) + "\n")
    command = [installed_tools.path_of("llvm-mca"), "-mtriple=amdgcn", f"-mcpu={chip}", "-iterations=500", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert found, done.stderr
    return 4 * int(found[1]) / 500


def cycles_of_model(chip: str, block: list[str]) -> float:
    """Cycles of one repetition, in the middle of twelve."""
    cycles = issue_cycles(time_of(chip, "\n".join(block * 12), "fetch.miss_cycles=0"))
    return (cycles[10 * len(block)] - cycles[4 * len(block)]) / 6


@installed_tools.needs("llvm-mca", "throughput is not compared with LLVM's model")
@pytest.mark.parametrize("chip", TARGETS)
@pytest.mark.parametrize("name", list(blocks("gfx942")))
def test_throughput_is_that_of_llvm(chip: str, name: str, tmp_path: Path) -> None:
    block = blocks(chip)[name]
    expected = cycles_of_mca(chip, block, tmp_path) * DISAGREEMENTS.get(name, ("", {chip: 1}))[1][chip]
    assert cycles_of_model(chip, block) == pytest.approx(expected, rel=0.02)
