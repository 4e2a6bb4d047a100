"""A kernel of one's own: y = a * x + y by rows, and each row's largest result, from Python to the simulator.

    python examples/first_kernel.py

Shows what operator code is made of: arguments, views, windows, tiles with operators, a reduction; then the chain by
hand: trace, compile with the IR kept, launch on a device, compare.
"""

import numpy as np

from ckmlir.compiler import compile_traced
from ckmlir.dialect.distribution_builders import rows
from ckmlir.lang import Pointer, Window, f32, i32, kernel, load, ptr, reduce_max, store, view, workgroup_id
from ckmlir.runtime import open_device
from ckmlir.targets import get_target

ROWS, LENGTH = 4, 256  # of a workgroup's tile: four waves with a row each
TARGET = get_target("gfx942")


@kernel("row_axpy", target=TARGET, waves=4)
def row_axpy(x: ptr("f32"), y: ptr("f32"), largest: ptr("f32"), m: i32, n: i32, a: f32) -> None:
    """One workgroup computes four rows; rows beyond m and columns beyond n are neither read nor written."""
    first = workgroup_id(0) * ROWS

    def window(pointer: Pointer) -> Window:
        return view(pointer, (m, n), (n, 1)).pad(ROWS, LENGTH).window((ROWS, LENGTH), (first, 0))

    result = load(window(x), rows(ROWS, LENGTH, waves=4, vector=4)) * a + load(window(y))
    store(result, window(y))
    store(reduce_max(result, 1), view(largest, (m,), (1,)).pad(ROWS).window((ROWS,), (first,)))


def main() -> None:
    """Compile, launch, compare."""
    compiled = compile_traced(row_axpy, keep=("tile", "scheduled", "asm"))
    print(compiled.artifacts["tile"])

    m, n, a = 10, 250, 0.5
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal((m, n), dtype=np.float32) for _ in range(2))
    expected = a * x + y

    device = open_device("sim", TARGET)
    module = device.load(compiled.hsaco)
    buffers = [device.allocate(array.nbytes) for array in (x, y)] + [device.allocate(4 * m)]
    for buffer, array in zip(buffers[:2], (x, y)):
        device.write(buffer, array)
    arguments = [*buffers, np.int32(m), np.int32(n), np.float32(a)]
    device.launch(module, compiled.kernel_name, (-(-m // ROWS), 1, 1), (256, 1, 1), arguments)
    device.synchronize()

    largest = np.empty(m, np.float32)
    device.read(y, buffers[1])
    device.read(largest, buffers[2])
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    print("largest of every row:", largest)


if __name__ == "__main__":
    main()
