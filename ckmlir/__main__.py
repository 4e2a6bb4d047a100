"""`python -m ckmlir`: the command, where its script is not on the path."""

from ckmlir.tools.cli import main

raise SystemExit(main())
