"""Opens a page in headless Chromium and reads back what its scripts say in the attributes of the document."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "Chromium is not installed (Debian package chromium): the page is not opened"

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1600,900",
)  # fmt: skip

TIMED_FRAMES = "window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 1);"
"""Under virtual time Chromium soon makes no more frames of its own."""


def run_chromium(folder: Path, *arguments: str) -> str:
    """What Chromium prints; it keeps its own files in `folder`. It has no network and needs none."""
    assert CHROMIUM is not None
    profile = folder / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    command = [CHROMIUM, *FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def open_page(folder: Path, page: str, address: str = "", script: str = "", wait: int = 0) -> dict[str, str]:
    """The attributes data-* of the document after it was loaded, without the prefix.

    `script` runs after the page's own; `wait` lets so many milliseconds (of virtual time) pass before the end.
    """
    file = folder / "page.html"
    if script:
        page = page.replace("<head>", f"<head><script>{TIMED_FRAMES}</script>")
        page = page.replace("</body>", f"<script>{script}</script></body>")
    file.write_text(page, encoding="utf-8")
    budget = [f"--virtual-time-budget={wait}"] if wait else []
    text = run_chromium(folder, *budget, "--dump-dom", f"file://{file}{address}")
    opening = re.search(r"<html[^>]*>", text)
    assert opening, text[:200]
    return {name: unescape(value) for name, value in re.findall(r' data-([\w-]+)="([^"]*)"', opening[0])}
