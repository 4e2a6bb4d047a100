"""What a kernel is called, and what tells it from others: signature, algorithm, identifier and JSON.

The signature is what a kernel computes, the algorithm is how (`ckmlir.ops.spec.Algorithm`); an operator's kernels of
one signature may stand for each other where their algorithms allow. The identifier names one kernel for one chip:

    gemm/gfx942/gemm_f16_f16_rcr_64x64x64_waves2x2_mfma32x32x8_cshuffle_compv4_align8x8x8#0f5b3c62a91d7e84

An operator, a chip, the specification's name for people, and a digest of all fields but those that have their defaults.
It depends on the specification alone, not on the compiler: two versions that call a kernel by one identifier were asked
for the same. A field that a later version adds changes no identifier, since its default is what was there before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

from msgspec import Struct

from ckmlir.digests import digest_of
from ckmlir.dispatch.reading import SCHEMA, check_schema, fields_of
from ckmlir.errors import as_annotated, as_json, check_fields
from ckmlir.ops import find_operator
from ckmlir.ops.operator import Operator, require_kinds, require_valid
from ckmlir.ops.request import RequestError, show
from ckmlir.ops.spec import Reason, Spec
from ckmlir.targets import Target, UnsupportedTarget, get_target

DIGITS = 16
"""Of the digest, in hexadecimal: of a million kernels two have the same with a probability of 3e-8."""
_HEXADECIMAL = frozenset("0123456789abcdef")
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

Find = Callable[[str], Operator[Any, Any]]
"""Finds operators by name."""


class Identifier(Struct, frozen=True):
    """The parts of an identifier.

    Attributes:
        operator, target: names of the operator and the chip.
        name: of the specification, for people.
        digest: of the operator, the chip and every field that has not its default.
    """

    operator: str
    target: str
    name: str
    digest: str

    def __post_init__(self) -> None:
        check_fields(self, RequestError)

    def __str__(self) -> str:
        return f"{self.operator}/{self.target}/{self.name}#{self.digest}"

    @staticmethod
    def parse(text: object) -> Identifier:
        """The inverse of `str`. Raises RequestError for other texts."""
        path, _, digest = text.partition("#") if isinstance(text, str) else ("", "", "")
        names = path.split("/")
        are_words = len(names) == 3 and all(name.replace("_", "a").isalnum() for name in names)
        if not are_words or len(digest) != DIGITS or not _HEXADECIMAL.issuperset(digest):
            raise RequestError(f"{as_json(text)} is not an identifier of a kernel: expected op/arch/name#digest")
        operator, target, name = names
        return Identifier(operator, target, name, digest)


class Kernel(Struct, frozen=True, eq=False, dict=True):
    """A kernel that can be compiled: an operator, a specification and a chip. Equal if these have equal names and
    fields. RequestError for a specification of another operator, and for what is none of these.
    """

    operator: Operator[Any, Any]
    spec: Spec
    target: Target

    def __post_init__(self) -> None:
        require_kinds(self.operator, self.spec, self.target)

    @cached_property
    def key(self) -> tuple[str, Spec, str]:
        """What equality looks at."""
        return self.operator.name, self.spec, self.target.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def identifier(self) -> str:
        """What the kernel is called: operator, chip, name for people, and a digest of its specification."""
        parts = {"op": self.operator.name, "arch": self.target.name, "spec": self.spec.distinctive()}
        text = _COMPACT.encode(parts)
        digest = digest_of(text, DIGITS)
        return str(Identifier(self.operator.name, self.target.name, self.spec.name, digest))

    def __str__(self) -> str:
        return self.identifier

    def against(self, problem: Any) -> list[Reason]:
        """Why it does not compute a problem of its operator; empty when it does."""
        return self.operator.mismatches(problem, self.spec, self.target)

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types: schema, identifier, operator, chip, and the fields of signature and algorithm apart."""
        fields, roles = self.spec.to_dict(), self.spec.roles()
        return {
            "schema": SCHEMA,
            "identifier": self.identifier,
            "op": self.operator.name,
            "arch": self.target.name,
            "signature": {name: value for name, value in fields.items() if roles[name] is not None},
            "algorithm": {name: value for name, value in fields.items() if roles[name] is None},
        }

    @staticmethod
    @as_annotated(RequestError)
    def from_dict(values: object, find: Find = find_operator, *, older: bool = False) -> Kernel:
        """The inverse of `to_dict`; the identifier may be missing.

        Args:
            find: finds operators by name, where they are not those of `ckmlir.ops`.
            older: an earlier version may have written it: fields that have defaults may be missing.

        Raises:
            RequestError: a field is missing, unknown, wrongly typed or in the wrong part; a newer schema; an
                identifier of another kernel; names that no identifier has.
        """
        parts = {"schema": int, "op": str, "arch": str, "signature": dict, "algorithm": dict}
        found = fields_of(values, "kernel", parts, {"identifier": str})
        check_schema(found["schema"], "kernel")
        operator = find(found["op"])
        target = _target(found["arch"])
        roles = operator.spec_type.roles()
        for part, own in (("signature", True), ("algorithm", False)):
            for name in found[part]:
                if name in roles and (roles[name] is not None) is not own:
                    other = "algorithm" if own else "signature"
                    raise RequestError(f"kernel of {operator.name}: {part}.{name} belongs to its {other}")
        try:
            spec = operator.spec_type.from_dict({**found["signature"], **found["algorithm"]}, older=older)
        except RequestError as error:
            raise RequestError(f"kernel of {operator.name}: {error}") from None
        kernel = Kernel(operator, spec, target)
        if found.get("identifier", kernel.identifier) != kernel.identifier:
            raise RequestError(
                f"kernel of {operator.name}: identifier={found['identifier']}: that of these fields is "
                f"{kernel.identifier}"
            )
        try:
            Identifier.parse(kernel.identifier)
        except RequestError:
            require_valid(operator, spec, target)  # says which field no kernel has
            raise
        return kernel


def _target(name: str) -> Target:
    try:
        return get_target(name)
    except UnsupportedTarget as error:
        raise RequestError(f"kernel: arch={show(name)}: {error}") from None
