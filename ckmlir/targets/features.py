"""The instructions that not every gfx9 chip has, by the name that the compiler asks for.

Source of the words and of who has what: LLVM, llvm/lib/Target/AMDGPU (AMDGPU.td, GCNSubtarget.h); a test asks LLVM's
assembler for each. The chips' modules say who has what.
"""



from msgspec import Struct


class Feature(Struct, frozen=True):
    """What a diagnostic calls the feature."""

    words: str


TRANSPOSED = {16: 4, 8: 8, 4: 16}
"""Bits of an element -> how many elements a transposing LDS read takes, and gives, for a lane (ds_read_b64_tr_b16, _b8,
_b4)."""

FEATURES: dict[str, Feature] = {
    "mfma_denormals": Feature("matrix instruction that keeps f16 and bf16 denormals"),
    "fp8_convert": Feature("conversion between f32 and fp8 or bf8 (v_cvt_pk_fp8_f32)"),
    "scaled_convert": Feature("scaled conversion to and from fp8, fp6 and fp4 (v_cvt_scalef32_*)"),
    "packed_f16_convert": Feature("packed rounding conversion to f16 (v_cvt_pk_f16_f32)"),
    "packed_bf16_convert": Feature("conversion to bf16 (v_cvt_pk_bf16_f32)"),
    "packed_f32_math": Feature("packed f32 arithmetic (v_pk_fma_f32)"),
    "lds_transpose_read": Feature("transposing LDS read (ds_read_b64_tr_b16, _b8, _b4)"),
    "permlane_swap": Feature("lane swap (v_permlane32_swap_b32)"),
    "bitop3": Feature("three-operand bit operation (v_bitop3_b32)"),
    "maximum3": Feature("NaN-propagating maximum of three (v_maximum3_f32)"),
    "lshl_add_u64": Feature("64-bit shift and add (v_lshl_add_u64)"),
    "prng": Feature("random number instruction (v_prng_b32)"),
    "global_atomic_add_f32": Feature("global f32 atomic add (global_atomic_add_f32)"),
    "global_atomic_pk_add_f16": Feature("global packed f16 atomic add (global_atomic_pk_add_f16)"),
    "global_atomic_pk_add_bf16": Feature("global packed bf16 atomic add (global_atomic_pk_add_bf16)"),
    "buffer_atomic_add_f32": Feature("buffer f32 atomic add (buffer_atomic_add_f32)"),
    "buffer_atomic_pk_add_f16": Feature("buffer packed f16 atomic add (buffer_atomic_pk_add_f16)"),
    "buffer_atomic_pk_add_bf16": Feature("buffer packed bf16 atomic add (buffer_atomic_pk_add_bf16)"),
    "lds_atomic_add_f32": Feature("LDS f32 atomic add (ds_add_f32)"),
    "lds_atomic_pk_add_f16": Feature("LDS packed f16 atomic add (ds_pk_add_f16)"),
    "lds_atomic_pk_add_bf16": Feature("LDS packed bf16 atomic add (ds_pk_add_bf16)"),
    "kernarg_preload": Feature("kernel arguments preloaded into scalar registers"),
}
