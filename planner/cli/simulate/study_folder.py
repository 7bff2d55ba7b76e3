"""The folder of a study: its tables, its page, its figures."""

from collections.abc import Callable, Mapping

SUMMARY_FILE, FIGURES_FOLDER = "summary.md", "figures"
ACRONYMS = frozenset({"grar"})


def study_files(
    tables: Mapping[str, bytes], page: Callable[[Mapping[str, str]], str], drawn: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Every file by its path. `drawn`: PNGs by name; `page` is handed their paths by title."""
    paths = {name: f"{FIGURES_FOLDER}/{name}.png" for name in drawn}
    titles = {name.upper() if name in ACRONYMS else name.replace("_", " ").capitalize(): paths[name] for name in drawn}
    return {**tables, SUMMARY_FILE: page(titles).encode(), **{paths[name]: png for name, png in drawn.items()}}
