"""The chips that are simulated."""

from typing import Final

TARGETS: Final = ("gfx90a", "gfx942", "gfx950")
