"""Step times between the points of their curves. Times in ms; built once, asked millions of times."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from planner.domain.fleet import AnswerCurve, ChunkCurve, KvRoom, PromptCurve, Row


def nearest_rows(lengths: Row, tokens: Sequence[int]) -> list[int]:
    """For each number of tokens the place of the length that is nearest in proportion."""
    edges = [(a * b) ** 0.5 for a, b in pairwise(lengths)]
    return [bisect_right(edges, n) for n in tokens]


def between(points: Row, values: Row, at: float) -> float:
    """The value at `at`, on lines between the points and beyond them."""
    if len(points) == 1:
        return values[0]
    cell = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    low = points[cell]
    return values[cell] + (at - low) / (points[cell + 1] - low) * (values[cell + 1] - values[cell])


class PromptTimes:
    """Prefill steps of mixed prompts: the mean of their curves, weighted by tokens."""

    __slots__ = ("_last", "_rows", "_tokens")

    def __init__(self, curve: PromptCurve) -> None:
        self._tokens = curve.tokens
        self._rows = curve.step_ms
        self._last = len(curve.tokens) - 2

    def step_ms(self, tokens: float, parts: Sequence[tuple[int, float]], together: float) -> float:
        """A step of `tokens` on a rank; `parts`: (row of a curve, tokens) of all ranks' prompts, in sum `together`."""
        points = self._tokens
        cell = bisect_right(points, tokens) - 1
        # Compared by hand: this runs for every step, where calls of min and max would show.
        if cell > self._last:
            cell = self._last
        elif cell < 0:
            cell = 0
        share = (tokens - points[cell]) / (points[cell + 1] - points[cell])
        sum_ms = 0.0
        for row, part in parts:
            times = self._rows[row]
            low = times[cell]
            sum_ms += part * (low + share * (times[cell + 1] - low))
        return sum_ms / together


class AnswerTimes:
    """Decode passes of mixed contexts: they take as long as with the mean one."""

    __slots__ = ("_batches", "_contexts", "_last_batch", "_last_context", "_rows", "gain")

    def __init__(self, curve: AnswerCurve) -> None:
        self._contexts = curve.contexts
        self._batches = curve.batches
        self._rows = curve.pass_ms
        self._last_context = len(curve.contexts) - 2
        self._last_batch = len(curve.batches) - 2
        self.gain = curve.gain

    def pass_ms(self, context: float, batch: float) -> tuple[float, float]:
        """(time of a pass, what one more cached token of every sequence adds to it)."""
        contexts, batches = self._contexts, self._batches
        i = bisect_right(contexts, context) - 1
        i = 0 if i < 0 else min(i, self._last_context)
        k = bisect_right(batches, batch) - 1
        k = 0 if k < 0 else min(k, self._last_batch)
        share = (batch - batches[k]) / (batches[k + 1] - batches[k])
        below, above = self._rows[i], self._rows[i + 1]
        low = below[k] + share * (below[k + 1] - below[k])
        slope = (above[k] + share * (above[k + 1] - above[k]) - low) / (contexts[i + 1] - contexts[i])
        return low + slope * (context - contexts[i]), slope


class ChunkTimes:
    """What chunks of prompts add to passes."""

    __slots__ = ("_batches", "_chunks", "_rows")

    def __init__(self, curve: ChunkCurve) -> None:
        self._batches = curve.batches
        self._chunks = curve.chunks
        self._rows = curve.added_ms

    def added_ms(self, batch: float, chunk: float, parts: Sequence[tuple[int, float]], together: float) -> float:
        """Of `chunk` tokens a rank to a pass of `batch` sequences; `parts` as of `PromptTimes`."""
        batches, chunks = self._batches, self._chunks
        j = min(max(bisect_right(batches, batch) - 1, 0), len(batches) - 2)
        k = min(max(bisect_right(chunks, chunk) - 1, 0), len(chunks) - 2)
        u = (batch - batches[j]) / (batches[j + 1] - batches[j])
        v = (chunk - chunks[k]) / (chunks[k + 1] - chunks[k])
        sum_ms = 0.0
        for row, part in parts:
            below, above = self._rows[row][j], self._rows[row][j + 1]
            low = below[k] + v * (below[k + 1] - below[k])
            high = above[k] + v * (above[k + 1] - above[k])
            sum_ms += part * (low + u * (high - low))
        return max(0.0, sum_ms / together)


def cache_gb(room: KvRoom, tokens: float) -> float:
    """KV cache of a sequence of so many tokens (GB)."""
    return between(room.lengths, room.cache_gb, tokens)
