"""Contexts with the ck dialect: new ones, and the one that a thread keeps."""

import threading

from ckmlir.dialect.context import ck_context, shared_context
from ckmlir.mlir import ir

FUNCTION = 'func.func private @f(!ck.tile<[64], f32, "?">)'


def test_every_context_knows_the_dialect() -> None:
    for context in [ck_context() for _ in range(3)]:
        assert str(ir.Module.parse(FUNCTION, context)).count("!ck.tile<[64], f32") == 1


def test_the_shared_context_is_one_per_thread() -> None:
    assert shared_context() is shared_context()
    others: list[ir.Context] = []
    thread = threading.Thread(target=lambda: others.append(shared_context()))
    thread.start()
    thread.join()
    assert others[0] is not shared_context()


def test_operations_have_no_classes_of_their_own() -> None:
    with shared_context():
        barrier = ir.Operation.create("ck.barrier", loc=ir.Location.unknown())
        assert type(barrier.opview) is ir.OpView
