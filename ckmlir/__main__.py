"""`python -m ckmlir`: the command, where its script is not on the path."""

from ckmlir.tools.scripts import status_of

raise SystemExit(status_of("ckmlir", "ckmlir.tools.cli"))
