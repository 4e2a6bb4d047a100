"""The kernels that another version lists, beside what this version makes of them: counts, time to compile, and results.

    python benchmarks/beside_version.py OTHER_CHECKOUT --every 7 --run-every 4 --save rows.json

Two processes, one for each checkout, take turns kernel by kernel, so that both see the same machine. Compile time is
processor time, children included, of each kernel the least of `--repeats`. One kernel in `--every` is compiled, chosen
by its name, and one in `--run-every` of these run on the simulator, on the same inputs: few rows or blocks of the
problem that lists it. Bits are compared; where they differ, both versions with this one's reference and tolerance.

The other checkout may want packages that this one's environment lacks: `--path FOLDER` puts them on its path.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COUNTS = ("vgprs", "sgprs", "vector_spills", "scalar_spills", "lds", "code", "loop", "loop_valu", "loop_salu")
FEW = {"m": 256, "b": 1, "h": 2}
PRODUCTS = {"m": 256, "n": 256, "k": 512}
"""What of a listed problem is run: its kernels stay the same, as these sizes are multiples of what they promise."""
MOST = 1 << 22
"""Elements of a problem's arrays that the simulator is given."""


def main() -> None:
    parser = argparse.ArgumentParser(description="another version's kernels beside this one's")
    parser.add_argument("other", type=Path, help="a checkout of the other version")
    parser.add_argument("--path", type=Path, action="append", default=[], help="more to import from there")
    parser.add_argument("--every", type=int, default=7, metavar="N", help="one kernel in N, by name")
    parser.add_argument("--run-every", type=int, default=4, metavar="N", help="one in N of these is run, 0 for none")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="compilations of each, the least counts")
    parser.add_argument("--operators", default="", metavar="NAME,…", help="by default all that the other lists")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what was measured, kernel by kernel")
    options = parser.parse_args()
    then, now = Side([options.other, *options.path]), Side([Path(__file__).resolve().parents[1]])
    wanted = set(options.operators.split(",")) - {""}
    listed = [one for one in then("listed") if not wanted or one["operator"] in wanted]
    chosen = [one for one in listed if not zlib.crc32(f"{one['chip']} {one['name']}".encode()) % options.every]
    here = {(one["chip"], one["operator"], one["name"]) for one in now("listed")}
    found = []
    for place, one in enumerate(chosen):
        one["renamed"] = (one["chip"], one["operator"], one["name"]) not in here
        if one["renamed"] and not one["keys"]:
            continue
        both = [side("compiled", one) for side in (then, now)]
        for _ in range(options.repeats - 1):
            for had, side in zip(both, (then, now), strict=True):
                had["seconds"] = min(had["seconds"], side("compiled", one)["seconds"])
        one["then"], one["now"] = both
        if options.run_every and one["keys"] and not place % options.run_every:
            one["results"] = same_results(one, then("ran", one), now("ran", one), now)
        found.append(one)
        if options.save:
            options.save.write_text(json.dumps(found))
    report(found, len(listed))


def same_results(one: dict[str, Any], before: Any, after: Any, now: Side) -> str:
    """`bits`, `tolerance` where other bits are within it, or what is wrong."""
    if isinstance(before, str) or isinstance(after, str):
        return f"not run: {before if isinstance(before, str) else after}"
    if before["inputs"] != after["inputs"]:
        return "not run: other inputs"
    if before["outputs"] == after["outputs"]:
        return "bits"
    return str(now("compared", one, before["outputs"], after["outputs"]))


def report(found: list[dict[str, Any]], listed: int) -> None:
    """Tables by operator, and the kernels that got worse in anything."""
    print(f"{len(found)} of {listed} listed kernels; {sum(one['renamed'] for one in found)} have another kernel now\n")
    heads = ["kernels", *COUNTS, "compile time", "bits", "within tolerance", "other"]
    print(f"| operator | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    names = list(dict.fromkeys(one["operator"] for one in found))
    for name in [*names, "all"]:
        ours = [one for one in found if name in (one["operator"], "all")]
        sums = [tuple(sum(one[side][key] for one in ours) for side in ("then", "now")) for key in (*COUNTS, "seconds")]
        ratios = [f"{now / then:.3f}" if then else f"{then:g} → {now:g}" for then, now in sums]
        results = [one["results"] for one in ours if not one.get("results", "not run").startswith("not run")]
        told = [str(results.count(kind)) for kind in ("bits", "tolerance")]
        other = str(sum(kind not in ("bits", "tolerance") for kind in results))
        print(f"| {name} | {' | '.join([str(len(ours)), *ratios, *told, other])} |")
    print()
    for one in found:
        more = [
            f"{key} {one['then'][key]:g} → {one['now'][key]:g}" for key in COUNTS if one["now"][key] > one["then"][key]
        ]
        ratio = one["now"]["seconds"] / one["then"]["seconds"]
        if ratio > 1:
            more.append(f"compile time {ratio:.2f}")
        if one.get("results", "bits") not in ("bits", "tolerance"):
            more.append(one["results"])
        if more:
            print(f"{one['chip']} {one['name']}: {', '.join(more)}")


class Side:
    """A process of one version: `side(name, *given)` calls a function of `WORK` there."""

    def __init__(self, paths: list[Path]) -> None:
        path = os.pathsep.join(str(one.resolve()) for one in paths)
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME", "/tmp"), f"beside-{zlib.crc32(path.encode()):x}")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=paths[0],
            env={**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": cache},
        )

    def __call__(self, name: str, *given: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump((name, given), self.process.stdin)
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)


# -- in the processes: only what both versions have


def work() -> None:
    """Answer calls until nobody asks any more; what is printed goes to the standard error."""
    answers, asked = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    while True:
        try:
            name, given = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(WORK[name](*given), answers)
        answers.flush()


SPECS: dict[tuple[str, str, str], Any] = {}


def listed() -> list[dict[str, Any]]:
    """What `list` names, each with the keys of a problem that it was chosen for (none where it was not)."""
    from ckmlir.ops import OPERATORS, find_operator
    from ckmlir.targets import all_targets

    found = []
    for target in all_targets():
        for operator in map(find_operator, OPERATORS):
            with noted(operator) as keys:
                specs = operator.kernels(target)
            for spec in specs:
                SPECS[target.name, operator.name, spec.name] = spec
                found.append(
                    {"chip": target.name, "operator": operator.name, "name": spec.name, "keys": keys.get(spec.name)}
                )
    return found


@contextmanager
def noted(operator: Any) -> Iterator[dict[str, Mapping[str, object]]]:
    """The keys of the first problem for which each kernel is chosen meanwhile."""
    kind: Any = type(operator)
    asked: list[tuple[Any, Mapping[str, object]]] = []
    found: dict[str, Mapping[str, object]] = {}
    problem_of, spec_of = kind.problem, kind.spec

    def problem(self: Any, **keys: object) -> Any:
        made = problem_of(self, **keys)
        asked.append((made, keys))
        return made

    def spec(self: Any, problem: Any, target: Any) -> Any:
        chosen = spec_of(self, problem, target)
        keys = next((keys for made, keys in asked if made is problem), None)
        if keys is not None:
            found.setdefault(chosen.name, keys)
        return chosen

    kind.problem, kind.spec = problem, spec
    try:
        yield found
    finally:
        kind.problem, kind.spec = problem_of, spec_of


def _found(one: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    from ckmlir.ops import find_operator
    from ckmlir.targets import get_target

    operator, target = find_operator(one["operator"]), get_target(one["chip"])
    spec = SPECS.get((one["chip"], one["operator"], one["name"]))
    return operator, target, spec or operator.spec(operator.problem(**one["keys"]), target)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def compiled(one: Mapping[str, Any]) -> dict[str, float]:
    """The costs of a kernel."""
    from ckmlir.compiler import compile_kernel
    from ckmlir.scheduling.machine_loop import steady_loop

    operator, target, spec = _found(one)
    start = processor_seconds()
    kernel = compile_kernel(operator, spec, target)
    seconds = processor_seconds() - start
    about = kernel.code_object.kernel(kernel.kernel_name)
    loop = steady_loop(kernel.code_object, kernel.kernel_name)
    return {
        "vgprs": about.metadata.vgpr_count,
        "sgprs": about.metadata.sgpr_count,
        "vector_spills": about.metadata.vgpr_spill_count,
        "scalar_spills": about.metadata.sgpr_spill_count,
        "lds": about.metadata.group_segment_size,
        "code": about.size,
        "loop": len(loop.instructions),
        "loop_valu": loop.mix["valu"] + loop.mix["vmov"],
        "loop_salu": loop.mix["salu"],
        "seconds": seconds,
    }


def _problem(one: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
    operator, target, spec = _found(one)
    few = PRODUCTS if one["operator"] == "gemm" else FEW
    keys = {name: min(few[name], value) if name in few else value for name, value in one["keys"].items()}
    problem = operator.problem(**keys)
    return operator, target, spec, problem, operator.inputs(problem, target, seed=1)


def ran(one: Mapping[str, Any]) -> Any:
    """Digests of the inputs, and the outputs; or why it was not run."""
    from ckmlir.errors import CkmlirError
    from ckmlir.runtime import open_device, run_operator

    try:
        operator, target, spec, problem, arrays = _problem(one)
        if sum(array.elements for array in operator.arrays(problem)) > MOST:
            return "large"
        kind = type(operator)
        chosen = kind.spec
        kind.spec = lambda self, problem, target: spec  # an earlier run_operator asks for it
        try:
            outputs = run_operator(operator, problem, arrays, target, open_device("sim", target)).outputs
        finally:
            kind.spec = chosen
    except CkmlirError as error:
        return str(error).splitlines()[0]
    inputs = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
    return {"inputs": inputs, "outputs": {name: array.tobytes() for name, array in outputs.items()}}


def compared(one: Mapping[str, Any], *outputs: Mapping[str, bytes]) -> str:
    """`tolerance` if all outputs of both versions are within the tolerance of the reference."""
    import numpy as np

    from ckmlir.ops.dtypes import numpy_dtype
    from ckmlir.runtime import check_outputs

    operator, target, _, problem, arrays = _problem(one)
    specs = {array.name: array for array in operator.arrays(problem)}
    for version, results in zip(("then", "now"), outputs, strict=True):
        shaped = {
            name: np.frombuffer(data, numpy_dtype(specs[name].dtype, target)).reshape(specs[name].shape)
            for name, data in results.items()
        }
        for comparison in check_outputs(operator, problem, arrays, shaped, target):
            if not comparison.ok:
                return f"{version}: {comparison.name} {comparison.mismatches} out of tolerance"
    return "tolerance"


WORK: dict[str, Callable[..., Any]] = {"listed": listed, "compiled": compiled, "ran": ran, "compared": compared}


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--worker"] else main()
