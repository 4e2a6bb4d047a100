"""Proofs about scheduled fragments, independent of everything that makes them.

Nothing in here imports the passes that pipeline loops, allocate LDS or place barriers, nor a scheduler: what they
believe is what is in question. `ckmlir.passes.check_schedule` is the pass and the entry for Python.
"""
