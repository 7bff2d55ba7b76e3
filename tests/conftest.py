"""Properties are checked on the same examples every time, and a laden machine does not fail them.

A property that names no number of its own is tried on 30 examples; `--hypothesis-profile thorough` tries 500.

What costs every test a little is done once. Every file of the planner is compiled once, not anew by each process that a
test starts nor by each worker that collects the tests. What collecting makes, ten thousand tests and the
libraries they load, lives to the end: the garbage collector does not look through it again and again.
"""

import gc
import os
import sys
from collections.abc import Generator, Iterator

import pytest
from cpu_seconds import Meter, slow_functions
from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=500)
settings.load_profile("steady")

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-seconds", action="store_true", help="measure the tests; write tests/slow.txt")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu-seconds"):
        config.pluginmanager.register(Meter(config.rootpath / "build" / "cpu-seconds"))


_FEW_DRAWS = 8


@pytest.fixture(scope="session", autouse=True)
def few_draws() -> Iterator[int]:
    """The odds of a promise take a fifth of a plan: tests that do not look at them are content with few draws. Gives
    the number that users get."""
    from planner.evaluation.doubts import odds

    with pytest.MonkeyPatch.context() as patch:
        usual = odds.DRAWS
        patch.setattr(odds, "DRAWS", _FEW_DRAWS)
        yield usual


@pytest.fixture(scope="module")
def all_draws(few_draws: int) -> Iterator[None]:
    """As many draws as users get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.evaluation.doubts.odds.DRAWS", few_draws)
        yield


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = slow_functions()
    for item in items:
        if slow.keys() & {item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}:
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()
