"""The products of a layer of experts by kernels of their own, what is between them in memory: two of `moe_gemm`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ckmlir.ops.contraction.contraction_spec import ContractionSpec
from ckmlir.ops.moe.between import INTER
from ckmlir.ops.moe.layer_problem import OF_SECOND, LayerProblem
from ckmlir.ops.moe.moe_gemm import OPERATOR as MOE_GEMM
from ckmlir.ops.operator import Launch, Run, Step
from ckmlir.ops.spec import Reason
from ckmlir.ops.steps import OWN_KERNEL, Workspace
from ckmlir.targets import Target


class Apart:
    """Each product has a kernel of its own; the layer's own is the first. `ckmlir.ops.moe.chained` is the other way."""

    def proposals(self, layer: LayerProblem, target: Target) -> Iterator[ContractionSpec]:
        """Candidates, the best first."""
        return MOE_GEMM.proposals(layer.first, target)

    def others(self, layer: LayerProblem, target: Target) -> Iterator[ContractionSpec]:
        """What is tried behind them."""
        return MOE_GEMM.others(layer.first, target)

    def mismatches(self, layer: LayerProblem, spec: ContractionSpec, target: Target) -> list[Reason]:
        """Why a kernel does not compute the first products."""
        return MOE_GEMM.mismatches(layer.first, spec, target)

    def launch(self, layer: LayerProblem, spec: ContractionSpec, target: Target) -> Launch:
        """That of the first products."""
        found, names = MOE_GEMM.launch(layer.first, spec, target), layer.first_names
        return replace(
            found, arguments=tuple(names.get(one, one) if isinstance(one, str) else one for one in found.arguments)
        )

    def steps(self, layer: LayerProblem) -> tuple[Step, ...]:
        """The products of gate and up, what becomes of their rows, and those of down with their sums."""
        second = Run(MOE_GEMM, layer.second, layer.second_names, OF_SECOND)
        return (OWN_KERNEL, *layer.between.behind, second)

    def workspaces(self, layer: LayerProblem) -> tuple[Workspace, ...]:
        """What is between the products."""
        return (Workspace(INTER, layer.inter.nbytes), *layer.between.workspaces)
