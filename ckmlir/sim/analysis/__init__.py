"""Reading machine code without running it: proofs that a kernel waits for what it uses and keeps the chip's distances.

    from ckmlir.codeobject import CodeObject
    from ckmlir.sim.analysis import check_hazards, check_waits
    for finding in check_waits(CodeObject.parse("kernel.hsaco")):
        print(finding)

`control_flow.py` finds the blocks of a kernel, `effects.py` says what each instruction reads, writes and starts,
`waits.py` follows the counters (`pending.py`) and `lds_addresses.py` the addresses of LDS, `hazards.py` applies the
table in `hazard_rules.py`; `report.py` makes findings of the results.
"""

from ckmlir.sim.analysis.report import check_copy_order, check_hazards, check_waits, missing_states

__all__ = ["check_copy_order", "check_hazards", "check_waits", "missing_states"]
