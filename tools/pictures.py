"""Take pictures of what a visitor sees: README as a code host renders it, and pages and searches of the built site.

uv run --group docs python tools/pictures.py pictures          README at 838 and at 390 px (needs chromium)
uv run --group docs python tools/pictures.py pictures site     and the site that `nox -s docs` has built into site/

Terminals and notebooks are drawn by tools/terminal.py, from their own.
"""

import subprocess
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, cast
from urllib.parse import quote_plus

ROOT = Path(__file__).parent.parent
WIDTHS = (838, 390)
WAIT, SECONDS = "/wait.png", 10  # for the search, which answers from a thread of its own
SEARCHES = (
    "freeze layers",
    "warmup",
    "batch size",
    "reproducible seed",
    "print metrics",
    "several GPUs",
    "docker",
    "confusion matrix",
    "class weights",
)
STYLE = """
body { box-sizing: border-box; margin: 0; padding: 32px; font: 16px/1.5 "Noto Sans", Helvetica, Arial, sans-serif }
@media (max-width: 500px) { body { padding: 16px } }
h1, h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: .3em }
pre { background: #f6f8fa; font-size: 85%; line-height: 1.45; overflow: auto; padding: 16px }
code { font-family: "DejaVu Sans Mono", Liberation Mono, monospace; font-size: 85% }
pre code { font-size: 100% }
table { border-collapse: collapse; display: block; overflow: auto }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
img { max-width: 100% }
"""


def readme() -> str:
    """Return README as a page, with the sizes of a code host's style."""
    body = cast("Any", import_module("markdown")).markdown(
        (ROOT / "README.md").read_text("utf-8"), extensions=["tables", "fenced_code"]
    )
    base = f"<meta charset=utf-8><base href={ROOT.as_uri()}/><meta name=viewport content='width=device-width'>"
    return f"<!doctype html>{base}<style>{STYLE}</style>{body}"


def shoot(address: str, target: Path, width: int, height: int, wait: str = "") -> None:
    """Write what a frame of this size shows at the address; chromium's own windows have a least width of 500.

    The picture is taken when the image at ``wait`` has come.
    """
    with TemporaryDirectory() as folder:
        frame = Path(folder, "frame.html")
        size = f'width={width} height={height} frameborder=0 style="background:white"'
        frame.write_text(
            f'<body style="margin:0;background:gray"><iframe src="{address}" {size}></iframe><img src="{wait}">'
        )
        command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--allow-file-access-from-files"]
        window = f"--window-size={max(width, 500)},{height}"
        subprocess.run(
            [*command, window, f"--screenshot={target}", frame.as_uri()], check=True, stderr=subprocess.DEVNULL
        )
    print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")


def shoot_readme(target: Path) -> None:
    """Take README from its top to its end, in both widths."""
    with TemporaryDirectory() as folder:
        page = Path(folder, "readme.html")
        page.write_text(readme(), "utf-8")
        for width in WIDTHS:
            shoot(page.as_uri(), target / f"readme-{width}.png", width, 9000 if width < 500 else 6500)


def shoot_site(target: Path, site: Path) -> None:
    """Take the home page, the mistakes on a phone, and the first results of searches."""

    class Site(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == WAIT:
                time.sleep(SECONDS)
            super().do_GET()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    for width in WIDTHS:
        shoot(f"{here}/", target / f"home-{width}.png", width, 1600)
    shoot(f"{here}/mistakes/", target / "mistakes-400.png", 400, 1600)
    for words in SEARCHES:
        shoot(
            f"{here}/?q={quote_plus(words)}", target / f"search-{words.replace(' ', '-')}.png", 1000, 700, here + WAIT
        )
    server.shutdown()


if __name__ == "__main__":
    pictures = Path(sys.argv[1])
    pictures.mkdir(parents=True, exist_ok=True)
    shoot_readme(pictures)
    if len(sys.argv) > 2:
        shoot_site(pictures, Path(sys.argv[2]))
