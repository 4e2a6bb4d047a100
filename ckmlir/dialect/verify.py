"""How a ck operation verifies itself: a method `check` that raises ValueError or TypeError in the user's words.

The bindings ask for a function that returns a bool and say nothing of their own when it is False; `verified` turns a
raised sentence into a diagnostic at the operation's location.
"""

from collections.abc import Callable
from typing import Any


def verified(check: Callable[[Any], None]) -> Callable[[Any], bool]:
    """A `verify_invariants` that runs `check(op)` and reports what it raises."""

    def verify_invariants(op: Any) -> bool:
        try:
            check(op)
        except (ValueError, TypeError) as problem:
            operation = op.operation
            operation.location.emit_error(f"'{operation.name}' {problem}")
            return False
        except Exception as problem:  # an exception would pass through the C++ code that called
            operation = op.operation
            what = f"{type(problem).__name__}: {problem}"
            operation.location.emit_error(f"'{operation.name}' cannot be verified: {what}; this is a defect of ckmlir")
            return False
        return True

    return verify_invariants


def expect(condition: bool, message: str) -> None:
    """Raise ValueError(message) unless the condition holds.

    Python makes the message first. Where it writes types, and kernels have many such operations, an `if` around
    `raise ValueError(…)` is quicker: views and tiles are long as text.
    """
    if not condition:
        raise ValueError(message)
