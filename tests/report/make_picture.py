"""Paints the first screen of a report page for the README: `make pictures`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "data"))

from opened_pages import opened, started_browser  # noqa: E402
from PIL import Image  # noqa: E402

from planner import files, pipeline  # noqa: E402
from planner.runs.pages import plan_html  # noqa: E402
from planner.workload import summarize  # noqa: E402

SCENARIO = ROOT / "workloads" / "scenarios" / "mixed-fleet.yaml"
PICTURE = ROOT / "planner" / "cli" / "docs" / "pictures" / "report.png"
SIZE = {"x": 0, "y": 0, "width": 1280, "height": 830}
MOST_BYTES = 100_000
COLOURS = 64  # of text on one background: nobody sees the others, and the package is a tenth of a megabyte smaller


def main() -> None:
    """Plan, make the page, open it, and keep what is seen first."""
    plan = pipeline.plan(files.load_scenario(SCENARIO, summarize), odds=True)
    page = ROOT / "report-page-to-paint.html"
    page.write_bytes(plan_html(plan))
    try:
        with started_browser() as browser, opened(browser, page) as seen:
            PICTURE.parent.mkdir(exist_ok=True)
            seen.page.screenshot(path=PICTURE, clip=SIZE)
        with Image.open(PICTURE) as painted:
            few = painted.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(PICTURE, optimize=True)
    finally:
        page.unlink()
    size = PICTURE.stat().st_size
    assert size <= MOST_BYTES, f"{PICTURE}: must be at most {MOST_BYTES} bytes, got {size}"
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
