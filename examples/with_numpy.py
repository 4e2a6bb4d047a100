"""An operator on NumPy arrays, on whatever device there is: a GPU of the chip, else the simulator.

    python examples/with_numpy.py [--arch gfx942]

`CKMLIR_DEVICE=sim` or `=hip` decides for one. NumPy's arrays are copied to the device and back; for arrays that stay
there see with_torch.py, or the second half of this example.
"""

import argparse

import numpy as np

from ckmlir.ops import find_operator
from ckmlir.runtime.executable import Executable
from ckmlir.runtime.selection import select_device
from ckmlir.targets import get_target


def main() -> None:
    """A product of matrices, checked against NumPy's."""
    parser = argparse.ArgumentParser(description="a GEMM on NumPy arrays")
    parser.add_argument("--arch", default="gfx942", help="gfx90a, gfx942 or gfx950")
    target = get_target(parser.parse_args().arch)
    selection = select_device("auto", target)
    device = selection.device
    print(f"on the {device.properties.name}: {selection.reason}")

    m, n, k = 200, 136, 96
    operator = find_operator("gemm")
    gemm = Executable(device, operator, operator.problem(m=m, n=n, k=k, dtype="f16", out="f32", layout="RRR"))
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.empty((m, n), np.float32)
    gemm(a=a, b=b, c=c)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    print("largest error:", np.abs(c - expected).max())
    assert np.allclose(c, expected, atol=1e-3)

    # The same with memory of the device: nothing is copied but what the program copies, and calls return at once.
    stream = device.create_stream()
    memory = {name: device.allocate(array.nbytes) for name, array in (("a", a), ("b", b), ("c", c))}
    device.write(memory["a"], a, stream)
    device.write(memory["b"], b, stream)
    for _ in range(3):
        gemm(stream=stream, **memory)
    again = np.empty_like(c)
    device.read(again, memory["c"], stream)
    assert (again == c).all()
    gemm.close()
    device.close()
    print("the same from memory of the device")


if __name__ == "__main__":
    main()
