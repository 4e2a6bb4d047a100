"""`python -m ckmlir`: the command, where its script is not on the path."""

import sys

from ckmlir.tools.cli import main

raise SystemExit(main(sys.argv[1:]))
