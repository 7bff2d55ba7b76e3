"""How busy a server is: sums over the time that counts."""

from math import inf


class Usage:
    """Sums between the moments `since` and `until` (ms).

    `busy_ms`: with a step under way. `tokens`, `steps`: prompt tokens of a rank, of steps that begin in this time.
    `batch_ms`, `kv_ms`: sequences of a rank, and the share of its room for caches, times how long; `most_kv`.
    `preempted`: sequences."""

    __slots__ = ("batch_ms", "busy_ms", "kv_ms", "most_kv", "preempted", "since", "steps", "tokens", "until")

    def __init__(self) -> None:
        self.since, self.until = 0.0, inf
        self.busy_ms = self.tokens = self.batch_ms = self.kv_ms = self.most_kv = 0.0
        self.steps = self.preempted = 0

    def step(self, start: float, length_ms: float, tokens: float) -> None:
        """A step that takes so many prompt tokens a rank in."""
        self.busy_ms += self._inside(start, length_ms)
        if self.since <= start < self.until:
            self.tokens += tokens
            self.steps += 1

    def passes(self, start: float, length_ms: float, batch: float, kv: tuple[float, float]) -> None:
        """Passes of `batch` sequences a rank; `kv`: share of the room for caches in use before and after them."""
        inside = self._inside(start, length_ms)
        if inside > 0:
            self.busy_ms += inside
            self.batch_ms += batch * inside
            self.kv_ms += (kv[0] + kv[1]) / 2 * inside
            self.most_kv = max(self.most_kv, kv[1])

    def preemption(self, now: float) -> None:
        """A sequence gives up its place."""
        if self.since <= now < self.until:
            self.preempted += 1

    def _inside(self, start: float, length_ms: float) -> float:
        """What of a span of time counts (ms)."""
        if start >= self.since and start + length_ms <= self.until:
            return length_ms
        return max(0.0, min(start + length_ms, self.until) - max(start, self.since))
