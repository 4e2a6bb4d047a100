"""Checkers that watch a kernel run: `finding.py` has the common form of what they find and their names."""

from ckmlir.sim.checks.finding import CHECKERS, Checker, Finding, parse_checks

__all__ = ["CHECKERS", "Checker", "Finding", "parse_checks"]
