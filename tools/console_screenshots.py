"""Take the screenshots of the console in the documentation, from the demo; or of every page, to look at them.

python -m tools.console_screenshots              # docs/console*.png, apart from those of traffic that the demo does not have
python -m tools.console_screenshots --all DIR    # every page at 1280 and 390 px, light and dark, into a folder

Needs Chromium and the requirements of `make test-browser`.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

_DOCS: Final = Path(__file__).parents[1] / "docs"
_CONVERSATION: Final = "/conversation?id=lyon-family-1.1.0-3&environment=demo"
Scheme: TypeAlias = Literal["light", "dark"]
#: A page, width and height, px, and the colour scheme.
Picture: TypeAlias = tuple[str, tuple[int, int], Scheme]
#: The pictures of the documentation, by file.
_PICTURES: Final[dict[Path, Picture]] = {
    _DOCS / "console.png": ("/", (1200, 760), "light"),
    _DOCS / "console-conversation.png": (_CONVERSATION, (1200, 760), "light"),
    _DOCS / "console-review.png": ("/review", (1200, 760), "light"),
    _DOCS / "console-phone.png": (_CONVERSATION, (390, 844), "dark"),
}
_ALL: Final = (
    "/", "/numbers", "/tools", "/conversations", _CONVERSATION, "/review", "/cases", "/case?case_id=lyon-family",
    "/case?id=lyon-family-1.1.0-3&environment=demo", "/matches", "/match?id=lyon-family-1.1.0-3&environment=demo", "/monitors", "/tail",
    "/sql?q=SELECT+42", "/collector",
)  # fmt: skip
_WIDTHS: Final = (1280, 390)
_SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
_TIMEOUT_MS: Final = 120_000
_LINK: Final = re.compile(rb"http://\S+/login\?ticket=[\w.~-]+")


def main() -> None:
    """Run the demo, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, metavar="DIR", help="take pictures of every page into this folder instead")
    folder: Path | None = parser.parse_args().all
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 — installed by `make test-browser` only

    with _demo() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(_TIMEOUT_MS)
        page.goto(link)
        page.wait_for_url(lambda url: "login" not in url)
        url = page.url.rstrip("/")
        for file, (path, size, scheme) in (_PICTURES if folder is None else dict(_all(folder))).items():
            file.parent.mkdir(parents=True, exist_ok=True)
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.emulate_media(color_scheme=scheme)
            page.goto(url + path)
            page.screenshot(path=file, full_page=folder is not None)
        browser.close()


def _all(folder: Path) -> Iterator[tuple[Path, Picture]]:
    """Yield the file and the picture of every page in every variant."""
    for at, path in enumerate(_ALL):
        for width in _WIDTHS:
            for scheme in _SCHEMES:
                name = path.partition("?")[0].strip("/") or "reliability"
                yield folder / f"{at:02}-{name}-{width}-{scheme}.png", (path, (width, 900), scheme)


@contextmanager
def _demo() -> Iterator[str]:
    """Run the demo on a terminal, because it serves the console only there; yield its link."""
    master, slave = pty.openpty()
    command = (sys.executable, "-m", "otel_agentic.cli", "demo")
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave) as process:  # noqa: S603 — our own command
        os.close(slave)
        output = b""
        while (link := _LINK.search(output)) is None:
            output += os.read(master, 4096)
        yield link[0].decode()
        process.terminate()


if __name__ == "__main__":
    main()
