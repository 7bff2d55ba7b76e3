"""How busy a server is: sums over the time that counts."""


class Usage:
    """`busy_ms`: with a step under way. `tokens`, `steps`: prompt tokens of a rank. `batch_ms`, `kv_ms`: sequences of a
    rank, and the share of its room for caches, times how long; `most_kv`. `preempted`: sequences."""

    __slots__ = ("batch_ms", "busy_ms", "kv_ms", "most_kv", "preempted", "since", "steps", "tokens")

    def __init__(self) -> None:
        self.since = 0.0
        self.clear(0.0)

    def clear(self, now: float) -> None:
        """Nothing before `now` counts."""
        self.since = now
        self.busy_ms = self.tokens = self.batch_ms = self.kv_ms = self.most_kv = 0.0
        self.steps = self.preempted = 0

    def step(self, start: float, length_ms: float, tokens: float) -> None:
        """A prefill step of so many tokens a rank."""
        if start >= self.since:
            self.busy_ms += length_ms
            self.tokens += tokens
            self.steps += 1
