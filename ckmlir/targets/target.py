"""What a chip is and has, and the questions that the rest of the compiler asks it.

A number comes with its source in the chip's module; one that no public source gives is marked assumed. Asking a chip
for what it lacks raises a `TargetError` that says so in words, and what has it: the backend would abort the process
instead.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from ckmlir.errors import CkmlirError
from ckmlir.targets.features import FEATURES, TRANSPOSED

if TYPE_CHECKING:
    from ckmlir.targets.mfma import MfmaInstruction


class TargetError(CkmlirError, ValueError):
    """The chip lacks what was asked of it."""


class UnsupportedTarget(CkmlirError, ValueError):
    """There is no such chip here."""


class LdsAccess(Struct, frozen=True):
    """How one LDS instruction of a wave goes to the banks.

    The lanes of one phase are served together; within a phase, two different dwords of one bank conflict and are served
    one after the other. `bytes` is the width of a lane's access.
    """

    kind: str
    bytes: int
    banks: int
    phases: tuple[tuple[int, ...], ...]
    source: str

    @property
    def assumed(self) -> bool:
        """Whether no public source confirms the phases."""
        return self.source.startswith("assumed")


class Registers(Struct, frozen=True):
    """Register files of one SIMD, as a wave can use them."""

    vector_total: int
    """32-bit vector registers of a lane, shared by the waves of a SIMD."""
    vector_granule: int
    """Vector registers are allocated in multiples of this."""
    vector_per_wave: int
    """Most vector registers of a wave, architectural and accumulation registers together."""
    arch_per_wave: int
    accumulation_per_wave: int


class Target(Struct, frozen=True, dict=True):
    """A chip. `product` names the one that `compute_units` counts (for an MI250X: of one of its two dies)."""

    name: str
    product: str
    compute_units: int
    wave_size: int
    simds: int
    """SIMDs of a compute unit."""
    waves_per_simd: int
    workgroup_size: int
    """Most threads of a workgroup."""
    registers: Registers
    lds_bytes: int
    """Most LDS of a workgroup, which is that of a compute unit."""
    memory_bytes: float
    """Bytes that memory gives all compute units in a cycle, at most."""
    l2_bytes: float
    """Bytes that the L2 caches of all dies give them in a cycle, at most."""
    memory_latency: int
    """Cycles until memory gives what was asked for, with no other request on its way."""
    lds_granule: int
    """LDS is allocated in multiples of this many bytes."""
    lds_accesses: tuple[LdsAccess, ...]
    buffer_immediate: int
    """Largest immediate offset of a buffer instruction, in bytes."""
    lds_immediate: int
    """Largest immediate offset of an LDS instruction, in bytes."""
    kernarg_preload: int
    """Most dwords of kernel arguments that the hardware loads into scalar registers beforehand."""
    fp8: str | None
    """Format of fp8 and bf8: "fnuz", "ocp", or None without them."""
    direct_to_lds: tuple[int, ...]
    """Bytes that one lane of a load straight to LDS may move."""
    transcendental_cycles: int
    """Cycles in which a SIMD does one transcendental instruction for 64 lanes."""
    features: frozenset[str]
    mfma_cycles: Mapping[str, int]
    """The matrix instructions of the chip by name, with the cycles that one occupies its SIMD's matrix core."""

    def __hash__(self) -> int:
        return hash((self.name, self.compute_units))

    @cached_property
    def _mfmas(self) -> "dict[tuple[str, str, bool], tuple[MfmaInstruction, ...]]":
        """Those of types that were asked for: kernels are chosen from hundreds, each of which asks."""
        return {}

    def __str__(self) -> str:
        return self.name

    def has(self, feature: str) -> bool:
        """Whether the chip has a feature of `features.FEATURES`; KeyError for a name that is none."""
        FEATURES[feature]
        return feature in self.features

    def require(self, feature: str, what_for: str) -> None:
        """Refuse with a diagnostic unless the chip has the feature.

        Raises:
            TargetError: "`what_for`: gfx90a has no …; … start with gfx942".
        """
        if not self.has(feature):
            raise TargetError(f"{what_for}: {self.lacks(feature)}")

    def transposed_elements(self, bits: int) -> int:
        """How many elements of so many bits a lane reads, and gets, by a transposing LDS read; 0: there is none."""
        return TRANSPOSED.get(bits, 0) if self.has("lds_transpose_read") else 0

    def lacks(self, feature: str) -> str:
        """The sentence that says that this chip has no such feature, and which ones do."""
        from ckmlir.targets import all_targets

        owners = [target.name for target in all_targets() if feature in target.features]
        who = f"{', '.join(owners) or 'no chip here'} {'have' if len(owners) > 1 else 'has'}"
        return f"{self.name} has no {FEATURES[feature].words}; {who}"

    def require_direct_to_lds(self, width: int, what_for: str) -> None:
        """Refuse a load straight to LDS of `width` bytes a lane that the chip cannot do.

        Raises:
            TargetError: naming the widths that it can.
        """
        if width not in self.direct_to_lds:
            able = ", ".join(map(str, self.direct_to_lds))
            raise TargetError(f"{what_for}: {self.name} loads {able} bytes a lane straight to LDS, not {width}")

    def lds_access(self, kind: str, width: int) -> LdsAccess:
        """The phases of an LDS "read" or "write" of `width` bytes a lane (1 and 2 behave as 4).

        Raises:
            TargetError: no instruction of that width.
        """
        for access in self.lds_accesses:
            if access.kind == kind and access.bytes == max(width, 4):
                return access
        raise TargetError(f"{self.name} has no LDS {kind} of {width} bytes a lane; it has 1, 2, 4, 8, 12 and 16")

    # -- matrix instructions

    # Their table is imported when it is asked: running a kernel takes none of it.

    def mfma(self, name: str) -> "MfmaInstruction":
        """The matrix instruction called `name`, e.g. `f32.32x32x8f16`.

        Raises:
            TargetError: no such instruction, or not on this chip.
        """
        from ckmlir.targets.mfma import INSTRUCTIONS

        if name not in INSTRUCTIONS:
            raise TargetError(
                f"there is no matrix instruction '{name}'; {self.name} has e.g. {', '.join(self._some())}"
            )
        if name not in self.mfma_cycles:
            instruction = INSTRUCTIONS[name]
            raise TargetError(
                f"{self.name} has no {name}; its matrix instructions for {instruction.a} x {instruction.b} are "
                f"{', '.join(i.name for i in self.mfmas(instruction.a, instruction.b)) or 'none'}"
            )
        return INSTRUCTIONS[name]

    def mfmas(self, a: str, b: str | None = None, *, sparse: bool = False) -> "tuple[MfmaInstruction, ...]":
        """The single-block matrix instructions for dtypes `a` and `b` (default: the same), fastest first; of a sparse A
        or of a dense one.
        """
        types = a, b or a, sparse
        if types not in self._mfmas:
            single = self._single_block()
            found = [one for one in single if (one.a, one.b, one.sparse) == types]
            found.sort(key=lambda i: (self.mfma_cycles[i.name] / i.operations, i.scaled, -i.m))
            self._mfmas[types] = tuple(found)
        return self._mfmas[types]

    def find_mfma(self, shape: str, a: str, b: str | None = None, *, sparse: bool = False) -> "MfmaInstruction":
        """The matrix instruction of `shape` ("32x32x8") for operands of dtypes `a` and `b` (default: the same).

        Raises:
            TargetError: the chip has none for these types, or not of this shape; the message lists those it has.
        """
        b = b or a
        able = self.mfmas(a, b, sparse=sparse)
        if not able:
            raise TargetError(self._no_types(a, b, sparse))
        for instruction in able:
            if instruction.shape == shape:
                return instruction
        shapes = ", ".join(dict.fromkeys(instruction.shape for instruction in able))
        which = "sparse MFMA" if sparse else "MFMA"
        raise TargetError(f"{self.name} has no {shape} {which} for {a} x {b}; it has {shapes}")

    def mfma_rate(self, instruction: "MfmaInstruction") -> float:
        """Operations that a compute unit does in a cycle with this instruction."""
        return self.simds * instruction.operations / self.mfma_cycles[instruction.name]

    def _single_block(self) -> "list[MfmaInstruction]":
        from ckmlir.targets.mfma import INSTRUCTIONS

        return [INSTRUCTIONS[name] for name in self.mfma_cycles if INSTRUCTIONS[name].blocks == 1]

    def _some(self) -> list[str]:
        return [one.name for one in self._single_block()[:4]]

    def _no_types(self, a: str, b: str, sparse: bool) -> str:
        from ckmlir.targets import all_targets
        from ckmlir.targets.matrix_names import NARROW

        owners = [target.name for target in all_targets() if target.mfmas(a, b, sparse=sparse)]
        kind = f"{a} x {b}" if a != b else a
        if sparse:
            able = f"they start with {owners[0]}" if owners else "no chip has; operands are f16, bf16, i8, fp8, bf8"
            return f"{self.name} has no sparse matrix instructions for {kind}; {able}"
        if not owners:
            return f"no chip has an MFMA for {kind}; operands are f16, bf16, f32, f64, xf32, i8, {', '.join(NARROW)}"
        where = f"start with {owners[0]}" if owners[-1] == "gfx950" else f"exist on {', '.join(owners)} only"
        return f"{self.name} has no {kind} MFMA ({kind} matrix instructions {where})"
