"""What parts of attention forward add to a step of 64 keys, in vector instructions: docs/testing.md has the figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ckmlir.compiler import compile_kernel
from ckmlir.ops import find_operator
from ckmlir.scheduling.machine_loop import MachineLoop, steady_loop
from ckmlir.sim.decode import Instruction, instruction_mix
from ckmlir.targets import get_target

PARTS: dict[str, tuple[dict[str, Any], int]] = {
    "soft cap": ({"soft_cap": 30}, 53),
    "soft cap between whose bounds f32 does not hold weights from the lowest exponents": ({"soft_cap": 50}, 58),
    "soft cap that is too large for weights that follow their sum": ({"soft_cap": 73}, 101),
    "soft cap that f16 needs no largest score for": ({"soft_cap": 9}, 41),
    "ALiBi": ({"alibi": "head"}, 61),
    "soft cap beside a sink's logit": ({"soft_cap": 9, "sink": 1}, 41),
    "bias": ({"bias": "head"}, 28),
    "dropout": ({"dropout": 0.2}, 142),
}
"""With the most that they add on any chip, in what waves execute that branch around what they can."""
MOST_OUTSTANDING = 63
"""Of loads; a wait for more of them waits for none (CDNA3 ISA, S_WAITCNT)."""


def way(loop: MachineLoop) -> list[Instruction]:
    """What a wave executes of a loop that branches around everything it can."""
    places = {one.address: place for place, one in enumerate(loop.instructions)}
    place, passed = 0, list[Instruction]()
    while not passed or place:
        passed.append(one := loop.instructions[place])
        target = one.branch_target
        place = place + 1 if target is None else places.get(target, place + 1)
    return passed


def steady(chip: str, name: str = "fmha_fwd", *, step: int = 64, **keys: Any) -> MachineLoop:
    """The loop of schedule `qr`, or another, whose steps take so many keys; nothing is spilled."""
    operator, target = find_operator(name), get_target(chip)
    problem = operator.problem(**{"b": 2, "h": 16, "sq": 4096, "sk": 4096, "d": 128, "schedule": "qr", **keys})
    spec = operator.spec(problem, target)
    kernel = compile_kernel(operator, spec, target)
    metadata = kernel.code_object.kernel(kernel.kernel_name).metadata
    assert (metadata.vgpr_spill_count, metadata.sgpr_spill_count) == (0, 0)
    assert spec.block[1] == step
    return steady_loop(kernel.code_object, kernel.kernel_name)


@pytest.mark.parametrize(
    "chip", ["gfx950", *(pytest.param(one, marks=pytest.mark.full) for one in ("gfx90a", "gfx942"))]
)
def test_what_a_part_adds(chip: str) -> None:
    """A bias is converted and added by one instruction, ALiBi takes magnitudes in the one that adds."""
    plain = steady(chip).mix
    for name, (keys, most) in PARTS.items():
        loop = steady(chip, **keys)
        assert loop.mix["mfma"] == plain["mfma"]
        assert instruction_mix(way(loop))["valu"] - plain["valu"] <= most, name
        names = [one.mnemonic for one in loop.instructions]
        assert names.count("v_fma_mix_f32") == (32 if name == "bias" else 0)
        assert not {"v_cvt_f32_f16", "v_and_b32"} & set(names)


@pytest.mark.parametrize(("chip", "most"), [("gfx942", 47), *(
    pytest.param(*one, marks=pytest.mark.full) for one in (("gfx90a", 44), ("gfx950", 55))
)])  # fmt: skip
def test_what_a_bias_of_bf16_adds(chip: str, most: int) -> None:
    """No instruction converts and adds there; keys of whole blocks are not compared."""
    added = steady(chip, bias="head", dtype="bf16").mix["valu"] - steady(chip, dtype="bf16").mix["valu"]
    assert added <= most


ROWS = {"gfx942": 386, "gfx950": 313}
"""Instructions of a step over sequences of any lengths in rows, at most; one moves the scale of scores, so that packed
arithmetic has it in one pair of registers."""


LENGTHS = {"mode": "group", "seqlens_q": (4096, 4000), "seqlens_k": (4096, 4000)}
PAGES = {"page_size": 128, "seqlens_k": (4096, 4000)}


@pytest.mark.parametrize(("chip", "name", "keys", "most"), [
    ("gfx950", "fmha_fwd", LENGTHS, 1.05), *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx90a", "fmha_fwd", LENGTHS, 1.05), ("gfx942", "fmha_fwd", LENGTHS, 1.05),
        ("gfx90a", "fmha_fwd_pagedkv", PAGES, 1.05), ("gfx942", "fmha_fwd_pagedkv", PAGES, 1.05),
        ("gfx950", "fmha_fwd_pagedkv", PAGES, 1.05),
    )),
])  # fmt: skip
def test_sequences_of_any_lengths_take_little_more(chip: str, name: str, keys: dict[str, Any], most: float) -> None:
    """By default, where it weaves: steps of whole blocks of keys, which are all but the last, compare none, and where K
    lies in a page V does."""
    plain, other = steady(chip, schedule=None), steady(chip, name, schedule=None, **keys)
    assert other.mix["mfma"] == plain.mix["mfma"]
    assert len(way(other)) <= most * len(way(plain))


@pytest.mark.parametrize(("chip", "keys", "most"), [
    ("gfx950", {}, 313), pytest.param("gfx942", {}, 378, marks=pytest.mark.full),
    pytest.param("gfx942", {"page_size": 128}, 391, marks=pytest.mark.full),
])  # fmt: skip
def test_what_lengths_and_pages_add_without_the_mask(chip: str, keys: dict[str, Any], most: int) -> None:
    """Buffers begin with a block of keys and end with the sequence: no lane compares rows, in neither form."""
    name = "fmha_fwd_pagedkv" if keys else "fmha_fwd"
    plain, rows = steady(chip), steady(chip, name, edge="qr", seqlens_k=(4096, 4000), **keys)
    assert len(rows.instructions) <= most
    names = [[one.mnemonic for one in loop.instructions] for loop in (plain, rows)]
    for one in ("v_add_u32", "v_and_b32", "v_and_or_b32", "v_or_b32", "v_subrev_u32", "v_cndmask_b32"):
        assert names[1].count(one) <= names[0].count(one), one


@pytest.mark.full
@pytest.mark.parametrize(("chip", "size", "most"), [
    ("gfx942", 128, 396), *(pytest.param(*one, marks=pytest.mark.full) for one in
                            (("gfx942", 64, 393), ("gfx950", 64, 320), ("gfx950", 128, 323), ("gfx942", 16, 435),
                             ("gfx950", 16, 338))),
])  # fmt: skip
def test_what_pages_add(chip: str, size: int, most: int) -> None:
    """To sequences of any lengths in rows, in instructions of all kinds: what is computed of K's page is V's too, and
    neither rows nor pages, nor K's keys in pages of 16, take conditions for what lies behind the last key."""
    rows = steady(chip, seqlens_k=(4096, 4000))
    pages = steady(chip, "fmha_fwd_pagedkv", page_size=size)
    assert pages.mix["mfma"] == rows.mix["mfma"]
    assert len(rows.instructions) <= ROWS[chip] and len(pages.instructions) <= most


@pytest.mark.parametrize(("chip", "size", "keys", "most"), [
    ("gfx950", 16, {}, 1.25), *(pytest.param(*one, marks=pytest.mark.full) for one in (
        ("gfx90a", 16, {}, 1.25), ("gfx942", 16, {}, 1.25), ("gfx90a", 1, {}, 1.25), ("gfx942", 1, {}, 1.25),
        ("gfx950", 1, {}, 1.47), ("gfx950", 1, {"edge": "qr"}, 1.25), ("gfx950", 16, {"edge": "qr"}, 1.25),
    )),
])  # fmt: skip
def test_what_small_pages_take(chip: str, size: int, keys: dict[str, Any], most: float) -> None:
    """Of the instructions of whole blocks in batches: no lane compares the row that a page's number comes to."""
    plain, pages = steady(chip), steady(chip, "fmha_fwd_pagedkv", page_size=size, seqlens_k=(4096, 4000), **keys)
    assert pages.mix["mfma"] == plain.mix["mfma"]
    assert len(way(pages)) <= most * len(way(plain))


@pytest.mark.parametrize(("chip", "mask", "most"), [
    ("gfx950", "window:600,0,4", 223), *(
        pytest.param(*one, marks=pytest.mark.full)
        for one in (("gfx950", "window:600,0", 217), ("gfx942", "window:600,0", 263), ("gfx942", "window:600,0,4", 269))
    ),
])  # fmt: skip
def test_what_a_step_under_a_window_takes(chip: str, mask: str, most: int) -> None:
    """In vector instructions: two limits, and a third for sink tokens, become bits once, of which each score takes two
    instructions, whatever its mask, and no pair of scalar registers."""
    loop = steady(chip, mask=mask)
    names = [one.mnemonic for one in loop.instructions]
    assert names.count("v_bfe_i32") == 32 and sum(name.startswith("v_cmp") for name in names) <= 2
    assert loop.mix["valu"] <= most


@pytest.mark.parametrize(("chip", "size", "most"), [
    ("gfx950", 64, 350), *(pytest.param(*one, marks=pytest.mark.full) for one in
                           (("gfx950", 16, 352), ("gfx942", 64, 429), ("gfx942", 16, 430))),
])  # fmt: skip
def test_what_pages_of_vectors_add(chip: str, size: int, most: int) -> None:
    """Waves branch around the zeros behind a sequence's last key, and around the mask, in all steps but its last."""
    keys = {"page_size": size, "kv_layout": "vectorised"}
    loop = steady(chip, "fmha_batch_prefill", seqlens_q=(4096, 4000), seqlens_k=(4096, 4000), **keys)
    assert len(way(loop)) <= most
    zeros = {one.address for one in loop.instructions} - {one.address for one in way(loop)}
    assert zeros


SCALARS: list[tuple[str, str, dict[str, Any]]] = [
    ("gfx90a", "fmha_fwd", {"mask": "window:233,286,52", "bias": "one"}),
    ("gfx950", "fmha_fwd", {"d": 256, "dtype": "fp4", "mask": "window_bottom_right:17,17,1", "seqlens_q": (1, 7, 0),
                            "bias": "batch", "scales": "mx"}),
    ("gfx942", "fmha_fwd", {"h": 16, "sq": 4096, "mask": "top_left", "bias": "one", "dropout": 0.2, "randval": 1}),
    ("gfx950", "fmha_fwd", {"h": 8, "hk": 2, "mask": "window:20,16", "seqlens_q": (1, 170), "seqlens_k": (189, 65),
                            "bias": "batch"}),
    ("gfx950", "fmha_fwd", {"sq": 4096, "d": 192, "dv": 80, "dtype": "bf16", "mask": "bottom_right",
                            "v_layout": "columns", "bias": "batch"}),
    ("gfx950", "fmha_fwd", {"h": 16, "sq": 1023, "d": 176, "dtype": "fp8", "mask": "window:16,0", "seqlens_q": (0, 64),
                            "bias": "head", "dropout": 0.1, "randval": 1, "scales": "mx"}),
    ("gfx950", "fmha_fwd", {"b": 2, "h": 16, "sq": 1024, "sk": 1000, "d": 128, "dtype": "fp8", "alibi": "batch",
                            "dropout": 0.2, "randval": 1, "scales": "mx"}),
    ("gfx950", "fmha_fwd", {"h": 16, "dtype": "fp4", "d": 64, "dv": 128, "mode": "group", "seqlens_q": (4096, 40),
                            "seqlens_k": (4096, 40), "alibi": "head", "dropout": 0.5, "scales": "mx"}),
    ("gfx90a", "fmha_fwd", {"b": 17, "h": 1, "sq": 1, "d": 256, "dropout": 0.1, "randval": 1}),
    ("gfx942", "fmha_fwd", {"seqlens_q": (100, 200), "seqlens_k": (100, 200), "mode": "group", "mask": "window:30,5,4",
                            "bias": "head", "sink": 1, "dropout": 0.2}),
    ("gfx950", "fmha_fwd_splitkv", {"sq": 1, "sk": 512, "seqlens_k": (189,), "d": 136, "dtype": "f32",
                                    "mask": "window:20,16,5"}),
    ("gfx90a", "hstu_attention", {"h": 16, "sq": 1, "d": 144, "dtype": "bf16", "context": 16, "dropout": 0.1,
                                  "randval": 1}),
    ("gfx942", "fmha_batch_prefill", {"h": 32, "d": 64, "page_size": 16, "alibi": "batch", "dropout": 0.2, "randval": 1,
                                      "lse": 1}),
    ("gfx950", "fmha_batch_prefill", {"dtype": "fp8", "mask": "top_left", "sink": 1, "dropout": 0.2, "page_size": 16,
                                      "kv_layout": "vectorised", "scales": "page", "out": "fp8"}),
    ("gfx90a", "fmha_fwd", {"h": 8, "hk": 1, "seqlens_q": (63, 100), "seqlens_k": (1, 300), "mask": "window:0,65,17",
                            "v_layout": "columns", "soft_cap": 30, "dropout": 0.2, "seeds": "memory"}),
    ("gfx942", "fmha_fwd", {"b": 2, "h": 16, "sq": 4096, "sk": 4001, "d": 128, "soft_cap": 9, "sink": 1}),
    ("gfx950", "fmha_fwd", {"b": 2, "h": 16, "sq": 1024, "sk": 1000, "d": 64, "dtype": "fp8", "alibi": "batch",
                            "dropout": 0.2, "randval": 1, "scales": "mx"}),
    ("gfx950", "fmha_fwd", {"sq": 300, "sk": 512, "d": 128, "dtype": "fp4", "mask": "window:20,16", "dropout": 0.2,
                            "randval": 1, "scales": "mx", "v_layout": "columns"}),
    ("gfx950", "fmha_fwd_pagedkv", {"b": 4, "h": 2, "sq": 1, "sk": 512, "d": 160, "dtype": "f32", "page_size": 16}),
]
"""What kept up to 66 scalar registers in lanes of vector registers, or soft cap 9 beside a sink a vector register in
memory."""


AROUND = ("gfx950", "fmha_batch_prefill", {"h": 2, "sq": 300, "sk": 512, "d": 64, "dtype": "fp8", "page_size": 1,
                                           "scales": "page", "dropout": 0.2, "randval": 1, "lse": 1})  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("chip", "name", "keys"), [
    *(one if number < 2 else pytest.param(*one, marks=pytest.mark.full) for number, one in enumerate(SCALARS)),
    pytest.param(*AROUND, marks=pytest.mark.full),
])  # fmt: skip
def test_parts_together_spill_nothing(chip: str, name: str, keys: dict[str, Any]) -> None:
    operator, target = find_operator(name), get_target(chip)
    spec = operator.spec(operator.problem(**{"h": 2, **keys, "lse": 1} if name == "fmha_fwd" else keys), target)
    metadata = compile_kernel(operator, spec, target).code_object.kernel().metadata
    counts = metadata.vgpr_spill_count, metadata.sgpr_spill_count, metadata.private_segment_size
    assert counts == (0, 0, 0), spec.name


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950"])
def test_a_step_does_not_wait_for_what_it_has_just_asked_for(chip: str) -> None:
    """Places of rows in small pages follow from numbers that the step before loaded: behind its last load a step waits
    for nothing that memory has."""
    loop = steady(chip, "fmha_fwd_pagedkv", page_size=16, mask="none").instructions
    last = max(at for at, one in enumerate(loop) if one.mnemonic.startswith("buffer_load"))
    waits = [one for one in loop[last:] if one.mnemonic == "s_waitcnt" and one.modifiers["vmcnt"] < MOST_OUTSTANDING]
    assert not waits, [one.text for one in waits]


@pytest.mark.parametrize("keys", [2048, pytest.param(2000, marks=pytest.mark.full)])
def test_splats_wait_for_no_bytes_that_lie_beside_them(keys: int) -> None:
    """A woven step loads 16 bytes of V one by one, and K. It waits for those of the step before alone: the first of
    them are joined when ten of its own are on their way, and no packed instruction takes a pair of registers, one of
    which a load fills."""
    loop = steady("gfx942", b=1, h=32, sq=2048, sk=keys, dtype="fp8", schedule="qr_woven_bytes").instructions
    waits = [one.modifiers["vmcnt"] for one in loop if one.mnemonic == "s_waitcnt"]
    assert min(waits) >= 10, waits


@pytest.mark.parametrize(("schedule", "step", "loads"), [("qr_woven_deep", 64, 4), ("qr_woven_async_deep", 128, 16)])
def test_chips_that_turn_bytes_in_lds_load_them_by_16(schedule: str, step: int, loads: int) -> None:
    """No step loads single bytes of V, and none joins them."""
    loop = steady("gfx950", step=step, sk=2048, dtype="fp8", schedule=schedule)
    names = Counter(one.mnemonic for one in loop.instructions)
    assert {name: count for name, count in names.items() if name.startswith("buffer_load")} == {
        "buffer_load_dwordx4": loads
    }  # of two steps, K and V
    assert names["ds_read_b64_tr_b8"] == step // 2 and not names["v_perm_b32"]
