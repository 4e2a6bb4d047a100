"""Which kernels of `ssd_fwd` there are: the specification, and which of them a chip runs."""

from __future__ import annotations

from collections.abc import Iterator

from ckmlir.ops.dtypes import find_dtype
from ckmlir.ops.schedules import SSD as SCHEDULES
from ckmlir.ops.schedules import parse as parse_schedule
from ckmlir.ops.spec import Algorithm, Reason, Spec, by, not_a_choice
from ckmlir.ops.state_space.problem import LAYOUTS, SKIPS
from ckmlir.targets import Target

DTYPES = ("f16", "bf16", "f32")
STATE_TILES = (32, 64, 128, 256)
"""Channels of B and C that a state's tile may have."""
BLOCKS = ((64, 64), (64, 32), (32, 64), (32, 32), (32, 16))
"""Places of a step, and channels of X that a workgroup takes."""
WAVES = (4, 2)
ROWS = 16
"""Of the matrix instruction."""
PLAIN = "unpipelined"
"""The schedule of kernels that have few registers left."""
LEAST_AHEAD = 8
"""Bytes of a load from which on blocks may be loaded ahead."""
MOST_BYTES = 1 << 15
"""Of a block of C or of the state, in the dtype: f32 with n = 256 and blocks of 64 places, or of 64 channels, spilled
up to 354 vector registers on gfx950, whose LDS has room for them."""
ASIDE = 4096
"""Bytes of LDS that are left to sums over places, and to what exchanges go through."""


class SsdFwdSpec(Spec):
    """What the kernel's code depends on.

    Attributes:
        dtype, layout, skip, gate, initial, final: see `problem.Problem`.
        block: places of a step, and channels of X and Y of a workgroup.
        n_tile: channels of B and C, padded.
        waves: of a workgroup.
        schedule: of the loop over blocks of places.
        align: elements of the dtype that rows and states are whole multiples of.
        pad: channels need not fill the tiles.
    """

    dtype: str
    layout: str
    skip: str
    gate: bool
    initial: bool
    final: bool
    block: Algorithm[tuple[int, int]]
    n_tile: Algorithm[int]
    waves: Algorithm[int]
    schedule: Algorithm[str]
    align: Algorithm[int]
    pad: Algorithm[bool]

    @property
    def name(self) -> str:
        options = [name for name in ("gate", "initial", "final") if getattr(self, name)]
        parts = ["ssd_fwd", self.dtype, self.layout, f"skip_{self.skip}", *options, by(self.block), f"n{self.n_tile}"]
        how = [f"waves{self.waves}", self.schedule, f"align{self.align}", *["pad"] * self.pad]
        return "_".join([*parts, *how])

    def fills(self, d: int, n: int) -> bool:
        """Whether so many channels are whole tiles."""
        return n == self.n_tile and d % self.d_tile == 0

    @property
    def columns(self) -> bool:
        """Whether places are contiguous."""
        return self.layout == "bhds"

    @property
    def places(self) -> int:
        """Of a step."""
        return self.block[0]

    @property
    def d_tile(self) -> int:
        """Channels of X and Y of a workgroup."""
        return self.block[1]

    @property
    def over_places(self) -> tuple[int, int]:
        """Waves along places, and along what they are multiplied with."""
        return split_waves(self.waves, self.places)

    @property
    def over_state(self) -> tuple[int, int]:
        """Waves along channels of X, and along those of B."""
        return split_waves(self.waves, self.d_tile)

    @property
    def turned(self) -> bool:
        """Whether LDS has a block of B once, and columns of it are read element by element. Elements of two bytes have
        a second block with columns as rows, since four of them are read at a time."""
        return find_dtype(self.dtype).bytes > 2

    @property
    def schedule_text(self) -> str:
        """The schedule of the loop in the language of `ckmlir.dialect.schedule`."""
        return SCHEDULES[self.schedule]

    @property
    def lds_bytes(self) -> int:
        """What a workgroup takes of LDS at most."""
        schedule = parse_schedule(self.schedule_text)
        sizes = {"b": self.places * self.n_tile, "x": self.places * self.d_tile, "state": self.d_tile * self.n_tile}
        if not self.turned:
            sizes["b_across"] = sizes["b"]
        elements = sum(size * schedule.buffers_of(name) for name, size in sizes.items())
        return find_dtype(self.dtype).bytes * elements + ASIDE


def split_waves(waves: int, rows: int) -> tuple[int, int]:
    """As many waves along rows as there are instructions, the rest along columns."""
    along = min(waves, rows // ROWS)
    return along, waves // along


def proposed_blocks(d: int, n: int) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Blocks, tiles of n and waves for a problem, the best first: the largest that fit, of channels of X no more than
    there are."""
    n_tile = min(tile for tile in STATE_TILES if tile >= n)
    for block in BLOCKS:
        if block[1] // 2 < d or block[1] <= min(one for _, one in BLOCKS):
            for waves in WAVES:
                yield block, n_tile, waves


def invalid_fields(spec: SsdFwdSpec, target: Target) -> list[Reason]:
    """Why a chip cannot run a kernel."""
    return list(_wrong_choices(spec)) or list(_unfit(spec, target))


def _wrong_choices(spec: SsdFwdSpec) -> Iterator[Reason]:
    widest = find_dtype("f16").widest if spec.dtype not in DTYPES else find_dtype(spec.dtype).widest
    aligned = tuple(1 << power for power in range(widest.bit_length()))
    yield from not_a_choice(
        spec, dtype=DTYPES, layout=LAYOUTS, skip=SKIPS, block=BLOCKS, n_tile=STATE_TILES, waves=WAVES,
        schedule=tuple(SCHEDULES), align=aligned,
    )  # fmt: skip


def _unfit(spec: SsdFwdSpec, target: Target) -> Iterator[Reason]:
    for field, (rows, columns), waves in (
        ("block", (spec.places, min(spec.places, spec.d_tile)), spec.over_places),
        ("n_tile", (spec.d_tile, spec.n_tile), spec.over_state),
    ):
        if rows % (ROWS * waves[0]) or columns % (ROWS * waves[1]):
            right = f"expected a multiple of {ROWS * waves[0]}x{ROWS * waves[1]}"
            yield Reason("waves", spec.waves, f"they share {rows}x{columns} elements of {field}", right)
            return
    size = find_dtype(spec.dtype).bytes * spec.align
    if spec.schedule != PLAIN and size < LEAST_AHEAD:
        why = f"loads of {size} bytes ahead of their block take more registers than there are"
        yield Reason("schedule", spec.schedule, why, f"expected {PLAIN}, or rows of multiples of {LEAST_AHEAD} bytes")
    largest = find_dtype(spec.dtype).bytes * max(spec.block) * spec.n_tile
    if largest > MOST_BYTES:
        why = f"vector registers have no room for {largest} bytes of C or of a state"
        yield Reason("block", spec.block, why, f"expected at most {MOST_BYTES}")
        return
    if spec.lds_bytes > target.lds_bytes:
        why = f"blocks take {spec.lds_bytes} bytes of LDS, and {target.name} has {target.lds_bytes}"
        yield Reason("block", spec.block, why, "expected smaller ones")
