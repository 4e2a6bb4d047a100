"""The ck dialect: tensor descriptors, distributions, tiles, loops of stages, and the fragments that tiles split into.

Plain Python objects (`transforms`, `descriptor`, `distribution`, `mma`, `schedule`, `lds_layout`) hold the
mathematics and can be evaluated on integers; the other modules define the types and operations whose parameters they
are. Of the plain objects `schedule` needs no MLIR, so importing this package does not load it.
"""
