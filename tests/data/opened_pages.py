"""Pages opened in Debian's Chromium, and what came of it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
WIDE, NARROW = 1280, 390


@dataclass
class OpenedPage:
    """A page in the browser: `page` is playwright's; all that it complained of, and all that it asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Each chart as plotly holds it after drawing: name -> traces."""
        script = """() => Object.fromEntries(Array.from(document.querySelectorAll(".plot.js-plotly-plot"),
            place => [place.dataset.chart, place.data.map(trace => ({type: trace.type, name: trace.name, x: trace.x,
            y: trace.y}))]))"""
        return self.page.evaluate(script)

    def overflow(self) -> int:
        """Pixels by which the page is wider than the screen."""
        return self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")

    def hidden(self) -> list[int]:
        """Pixels of tables and drawings that are scrolled off, down or to the right."""
        script = """() => Array.from(document.querySelectorAll(".box"), box => [box.scrollWidth - box.clientWidth,
            box.scrollHeight - box.clientHeight]).flat().filter(pixels => pixels > 1)"""
        return self.page.evaluate(script)

    def interactive_ms(self) -> float:
        """From the navigation's start until the charts of the first two screens are drawn; the others follow."""
        return self.page.evaluate("() => window.interactiveMs")


@contextmanager
def started_browser() -> Iterator[Any]:
    """Chromium without a window. Fails where there is none: `apt-get install chromium`."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "these tests open pages in Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, path: Path, width: int = WIDE, **context: Any) -> Iterator[OpenedPage]:
    """The page from the disk, every chart drawn."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **context)
    watched = OpenedPage(page)
    page.on("console", lambda message: watched.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", lambda request: watched.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=charts]", state="attached", timeout=60_000)
    yield watched
    page.close()
