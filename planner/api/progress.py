"""How far a search or a replay is: a bar with the time left, in notebooks and on terminals; nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Any

from planner.domain import FrontierPoint, ReportProgress
from planner.errors import InputError

Listener = ReportProgress | bool | None
"""What callers say: None or True, a bar where somebody looks; False, nothing; or what hears of each round."""


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook; False in a terminal's IPython and in plain Python."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and "IPKernelApp" in shell.config


def search_bar(name: str, progress: Listener) -> AbstractContextManager[ReportProgress]:
    """What a search tells of its rounds; the bar opens with the first, so that a plan that is solved for has none.

    Raises InputError where `progress` is neither a word for yes or no nor can be called.
    """
    return _listener(
        name, "layouts", progress, lambda n, total, best_rps: (n, total, f"best {best_rps:.1f} requests/s")
    )


def share_bar(
    name: str, progress: Callable[[float], None] | bool | None
) -> AbstractContextManager[Callable[[float], None]]:
    """The same of work that tells the share that is done."""
    return _listener(name, "%", progress, lambda share: (round(100 * share), 100, ""))


def budget_bar(
    name: str, progress: Callable[[int, int, FrontierPoint | None], None] | bool | None
) -> AbstractContextManager[Callable[[int, int, FrontierPoint | None], None]]:
    """The same of a frontier's budgets."""
    return _listener(
        name,
        "budgets",
        progress,
        lambda n, total, point: (n, total, f"{point.rate_rps:.1f} requests/s" if point else ""),
    )


def point_bar(
    name: str, progress: Callable[[Any], None] | bool | None
) -> AbstractContextManager[Callable[[Any], None]]:
    """The same of a sweep's points, each of which says how many have ended of how many."""
    return _listener(name, "points", progress, lambda point: (point.ended, point.total, ""))


@contextmanager
def _listener(
    name: str, unit: str, progress: object, state_of: Callable[..., tuple[int, int, str]]
) -> Iterator[Callable[..., None]]:
    """`progress` where it can be called; nothing where it is False; else a bar that shows the `state_of` what is told:
    how many are done of how many, and words beside them."""
    if callable(progress):
        yield progress
    elif not _is_shown(progress):
        yield lambda *_: None
    else:
        with _bar(name, unit) as update:
            yield lambda *news: update(*state_of(*news))


def _is_shown(progress: object) -> bool:
    if progress is not None and not isinstance(progress, bool):
        raise InputError(
            f"progress: must be True, False or a function, got {progress!r}.",
            hint="Leave it out for a bar where somebody looks, False for none.",
        )
    return progress is not False


@contextmanager
def _bar(name: str, unit: str) -> Iterator[Callable[[int, int, str], None]]:
    """tqdm's bar: with widgets in a notebook that has them, else text; closed when the block is left."""
    bars: list[Any] = []

    def update(done: int, total: int, words: str) -> None:
        if not bars and done >= total:  # done in one step: nothing to wait for
            return
        if not bars:
            bars.append(_bar_kind()(total=total, desc=name, unit=f" {unit}", leave=False, disable=_unwatched()))
        bar = bars[0]
        bar.total = total
        bar.set_postfix_str(words, refresh=False)
        bar.n = done
        bar.refresh()

    try:
        yield update
    finally:
        for bar in bars:
            bar.close()


def _unwatched() -> bool | None:
    """None leaves it to tqdm: no bar where standard error is no terminal."""
    return False if in_notebook() else None


def _bar_kind() -> Any:
    if in_notebook() and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget_bar

        return widget_bar
    from tqdm import tqdm

    return tqdm
