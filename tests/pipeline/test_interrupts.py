"""Ctrl-C and SIGTERM: noted while work is recorded, never lost, and held back from steps that belong together."""

import gc
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from planner.processes.interrupts import SAME_KEY_S, check, deferred, heeded, held_back

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@contextmanager
def _in_a_gc_callback(act: Callable[[], object]) -> Iterator[None]:
    """`act` is called once, where what it raises is lost: as jax's callback is interrupted."""
    left = [act]

    def callback(_phase: str, _info: dict[str, int]) -> None:
        if left:
            left.pop()()

    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)


@BOTH
def test_an_interrupt_that_is_lost_is_raised_again(number: int) -> None:

    def work() -> None:
        gc.collect()
        time.sleep(10)

    with heeded() as interrupts, _in_a_gc_callback(lambda: signal.raise_signal(number)):
        with pytest.raises(KeyboardInterrupt):
            work()
        assert interrupts.status == 128 + number


class Dying:
    """Interrupted in its finaliser."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("fragile", ["finaliser", "weak reference"])
def test_nor_is_one_lost_that_comes_while_an_object_dies(fragile: str) -> None:
    def work() -> None:
        if fragile == "finaliser":
            Dying()
        else:
            thing = type("Thing", (), {})()
            remembered = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
            del thing
            assert remembered() is None
        time.sleep(10)

    with heeded(), pytest.raises(KeyboardInterrupt):
        work()


@BOTH
def test_a_deferred_interrupt_is_raised_by_the_next_check_and_once(number: int) -> None:
    with heeded():
        with deferred():
            check()
            with _in_a_gc_callback(lambda: signal.raise_signal(number)):
                gc.collect()
            with pytest.raises(KeyboardInterrupt):
                check()
            check()
        check()


def test_a_deferred_interrupt_that_nobody_checked_for_is_raised_at_the_end() -> None:
    steps: list[str] = []

    def work() -> None:
        with heeded(), deferred():
            signal.raise_signal(signal.SIGINT)
            steps.append("last")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["last"]


def test_pythons_own_handler_is_deferred_too_and_put_back() -> None:
    steps: list[str] = []

    def work() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                check()
            time.sleep(2 * SAME_KEY_S)
            steps.append("last")
            signal.raise_signal(signal.SIGINT)  # a second one acts at once
            steps.append("one too many")

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["last"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_elses_is_left_alone() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    try:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_leaves_and_an_echo_of_the_first_does_not() -> None:
    left: list[str] = []

    def work() -> None:
        with heeded(lambda: left.append("left")), deferred():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            assert left == []
            time.sleep(2 * SAME_KEY_S)
            os.kill(os.getpid(), signal.SIGTERM)
            assert left == []
            os.kill(os.getpid(), signal.SIGINT)
            assert left == ["left"]

    with pytest.raises(KeyboardInterrupt):
        work()


@BOTH
def test_steps_that_belong_together_are_not_cut_in_two(number: int) -> None:
    left: list[str] = []

    def work() -> None:
        with heeded(lambda: left.append("left")), held_back():
            signal.raise_signal(number)
            time.sleep(2 * SAME_KEY_S)
            signal.raise_signal(signal.SIGINT)
            assert left == []

    with pytest.raises(KeyboardInterrupt):
        work()
    assert left == ["left"]


@BOTH
def test_handlers_of_others_are_held_back_and_put_back(number: int) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    heard: list[int] = []
    handler = signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        with held_back():
            signal.raise_signal(number)
            assert heard == []
        assert heard == [number]
    finally:
        signal.signal(number, handler)
    assert {one: signal.getsignal(one) for one in before} == before
