"""The control-flow graph: branches, calls, returns, and jumps whose target cannot be known."""

from __future__ import annotations

from assembly import flow_of

CALL = """
s_getpc_b64 s[0:1]
s_add_u32 s0, s0, 20
s_addc_u32 s1, s1, 0
s_swappc_b64 s[30:31], s[0:1]
s_swappc_b64 s[30:31], s[0:1]
s_endpgm
"""
"""Two calls of the function at address 24 with one computed address."""


def test_branches_and_loops() -> None:
    flow = flow_of(
        "top:\ns_nop 0\ns_cbranch_scc1 out\ns_nop 1\ns_cbranch_scc0 top\ns_branch out\ns_nop 2\nout:", "gfx942"
    )
    assert {start: sorted(block.successors) for start, block in flow.blocks.items()} == {
        0: [8, 24],
        8: [0, 16],
        16: [24],
        24: [],
    }
    assert not flow.unresolved and 20 not in flow.blocks, "what nothing reaches is not part of the kernel"
    assert sorted(flow.blocks[24].predecessors) == [0, 16]


def test_a_function_returns_to_all_its_callers() -> None:
    flow = flow_of(CALL + "s_setpc_b64 s[30:31]", "gfx942")
    assert not flow.unresolved
    assert flow.blocks[24].successors == [16, 20]


def test_an_address_that_the_function_overwrites_is_not_known() -> None:
    flow = flow_of(CALL + "s_mov_b32 s0, 0\ns_setpc_b64 s[30:31]", "gfx942")
    assert list(flow.unresolved) == [16] and "s_swappc_b64 s[30:31], s[0:1]" in flow.unresolved[16]


def test_an_address_in_lanes_survives_a_call() -> None:
    text = """
    s_getpc_b64 s[0:1]
    s_add_u32 s0, s0, 52
    s_addc_u32 s1, s1, 0
    v_writelane_b32 v5, s0, 3
    v_writelane_b32 v5, s1, 4
    s_swappc_b64 s[30:31], s[0:1]
    v_readlane_b32 s2, v5, 3
    v_readlane_b32 s3, v5, 4
    s_swappc_b64 s[30:31], s[2:3]
    s_endpgm
    s_mov_b32 s0, 0
    s_setpc_b64 s[30:31]
    """
    assert not flow_of(text, "gfx942").unresolved
    assert flow_of(text.replace("v_readlane_b32 s2, v5, 3", "v_readlane_b32 s2, v5, 6"), "gfx942").unresolved


def test_a_register_that_the_function_does_not_write_survives_a_call() -> None:
    """Whatever its other callers have in it."""
    text = """
    s_getpc_b64 s[0:1]
    s_add_u32 s0, s0, 36
    s_addc_u32 s1, s1, 0
    s_swappc_b64 s[30:31], s[0:1]
    s_getpc_b64 s[2:3]
    s_add_u32 s2, s2, 20
    s_addc_u32 s3, s3, 0
    s_swappc_b64 s[30:31], s[2:3]
    s_swappc_b64 s[30:31], s[2:3]
    s_endpgm
    s_mov_b32 s0, 0
    s_setpc_b64 s[30:31]
    """
    assert not flow_of(text, "gfx942").unresolved
    assert flow_of(text.replace("s_mov_b32 s0, 0", "s_mov_b32 s2, 0"), "gfx942").unresolved


def test_a_register_that_an_inner_function_writes_does_not_survive_a_call() -> None:
    text = """
    s_getpc_b64 s[2:3]
    s_add_u32 s2, s2, 20
    s_addc_u32 s3, s3, 0
    s_swappc_b64 s[30:31], s[2:3]
    s_swappc_b64 s[30:31], s[2:3]
    s_endpgm
    s_mov_b64 s[34:35], s[30:31]
    s_getpc_b64 s[4:5]
    s_add_u32 s4, s4, 20
    s_addc_u32 s5, s5, 0
    s_swappc_b64 s[30:31], s[4:5]
    s_mov_b64 s[30:31], s[34:35]
    s_setpc_b64 s[30:31]
    s_mov_b32 s6, 0
    s_setpc_b64 s[30:31]
    """
    assert not flow_of(text, "gfx942").unresolved
    assert flow_of(text.replace("s6", "s2"), "gfx942").unresolved


def test_unknown_jumps_are_named() -> None:
    flow = flow_of("s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_setpc_b64 s[4:5]", "gfx942")
    [reason] = flow.unresolved.values()
    assert reason == "s_setpc_b64 s[4:5] jumps to an address that is not known"


def test_running_out_of_the_code_is_named() -> None:
    flow = flow_of("s_branch out\nout:\ns_nop 0\ns_cbranch_scc0 far\nfar:\ns_nop 1", "gfx942")
    assert not flow.unresolved
    from ckmlir.sim.analysis.control_flow import control_flow_of_code

    assert list(control_flow_of_code(b"\0\0\x80\xbf", 0, "gfx942").unresolved) == [4]
