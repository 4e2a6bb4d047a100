"""Who has which instruction, as LLVM's assembler sees it."""

import subprocess

import installed_tools
import pytest

from ckmlir.targets import all_targets
from ckmlir.targets.features import FEATURES

NO_INSTRUCTION = {"kernarg_preload", "mfma_denormals"}
FORMS = {
    "fp8_convert": "v_cvt_pk_fp8_f32 v0, v1, v2",
    "scaled_convert": "v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3",
    "packed_f16_convert": "v_cvt_pk_f16_f32 v0, v1, v2",
    "packed_bf16_convert": "v_cvt_pk_bf16_f32 v0, v1, v2",
    "packed_f32_math": "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]",
    "lds_transpose_read": "ds_read_b64_tr_b16 v[0:1], v2",
    "permlane_swap": "v_permlane32_swap_b32 v0, v1",
    "bitop3": "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x96",
    "maximum3": "v_maximum3_f32 v0, v1, v2, v3",
    "lshl_add_u64": "v_lshl_add_u64 v[0:1], v[2:3], 1, v[4:5]",
    "prng": "v_prng_b32 v0, v1",
    "global_atomic_add_f32": "global_atomic_add_f32 v0, v1, s[0:1]",
    "global_atomic_pk_add_f16": "global_atomic_pk_add_f16 v0, v1, s[0:1]",
    "global_atomic_pk_add_bf16": "global_atomic_pk_add_bf16 v0, v1, s[0:1]",
    "buffer_atomic_add_f32": "buffer_atomic_add_f32 v0, v1, s[0:3], 0 offen",
    "buffer_atomic_pk_add_f16": "buffer_atomic_pk_add_f16 v0, v1, s[0:3], 0 offen",
    "buffer_atomic_pk_add_bf16": "buffer_atomic_pk_add_bf16 v0, v1, s[0:3], 0 offen",
    "lds_atomic_add_f32": "ds_add_f32 v0, v1",
    "lds_atomic_pk_add_f16": "ds_pk_add_f16 v0, v1",
    "lds_atomic_pk_add_bf16": "ds_pk_add_bf16 v0, v1",
}


def test_every_feature_has_a_form():
    assert set(FORMS) | NO_INSTRUCTION == set(FEATURES)


@pytest.mark.one_in(4)
@installed_tools.needs("llvm-mc", "which chip has which instruction is not cross-checked")
@pytest.mark.parametrize("feature", FORMS)
@pytest.mark.parametrize("target", all_targets(), ids=str)
def test_the_assembler_agrees(target, feature):
    command = [installed_tools.path_of("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={target.name}"]
    done = subprocess.run(command, input=FORMS[feature] + "\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == target.has(feature), done.stderr
