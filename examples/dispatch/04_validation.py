"""What is wrong with a request, a kernel or a file is said in a line, before anything is compiled.

    python examples/dispatch/04_validation.py
"""


from ckmlir.dispatch import Dispatcher, Kernel, NoKernel, Registry
from ckmlir.ops import find_operator
from ckmlir.ops.request import RequestError
from ckmlir.records import replace
from ckmlir.targets import get_target


def main() -> None:
    gemm, gfx942, gfx90a = find_operator("gemm"), get_target("gfx942"), get_target("gfx90a")
    for request in ({"m": -1}, {"layout": "RCX"}, {"k": 64, "lda": 8}, {"rows": 3}):
        try:
            gemm.problem(**request)
        except RequestError as error:
            print(error)
    spec = gemm.spec(gemm.problem(m=1024, n=1024, k=1024), gfx942)
    for change in ({"waves": (3, 2)}, {"mfma": (32, 32, 9)}, {"block": (512, 512, 64)}, {"schedule": "compv9"}):
        print(" | ".join(map(str, gemm.validate(replace(spec, **change), gfx942))))
    try:
        Dispatcher(Registry(), gfx90a).select("gemm", dtype="fp8")
    except RequestError as error:
        print(error)
    try:
        registry = Registry([Kernel(gemm, spec, gfx942)], name="one")
        Dispatcher(registry, gfx942, strict=True).select("gemm", m=1000, n=1024, k=1024)
    except NoKernel as error:
        print(error)


if __name__ == "__main__":
    main()
