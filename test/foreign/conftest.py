"""Where tests of other compilers' kernels find what they share with benchmarks and operators' tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("benchmarks", "test/ops", "test/sim", "test/foreign", "test")]
