"""Servers pass by pass: slow and plain, what the stations' jumps over many passes are held against.

Curves are straight lines: a pass takes `base + sequence b + context c`, b the mean of the fullest rank and the mean
one, c the mean context; a chunk adds `chunk_base + token n`, n likewise. A sequence of n tokens takes n GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Running:
    """A sequence in answer."""

    request: int
    rank: int
    tokens: int
    left: int


@dataclass(slots=True)
class Waiting:
    """A sequence or a prompt that waits: `fresh` tokens to take in, `redo` of them because it lost its place."""

    request: int
    tokens: int
    left: int
    fresh: float = 0.0
    redo: int = 0
    begun: bool = False


@dataclass(slots=True)
class Moments:
    """When what happened, of every request."""

    placed: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    preempted: list[tuple[float, int]] = field(default_factory=list)
    most_gb: float = 0.0


@dataclass(slots=True, kw_only=True)
class StepServer:
    """Times and room of a server."""

    ranks: int
    places: int
    free_gb: float
    base_ms: float
    sequence_ms: float
    context_ms: float
    redo_ms: float = 0.0
    budget: float = 0.0
    chunk_base_ms: float = 0.0
    token_ms: float = 0.0
    running: list[Running] = field(default_factory=list)
    moments: Moments = field(default_factory=Moments)

    def count(self, rank: int) -> int:
        return sum(sequence.rank == rank for sequence in self.running)

    def used_gb(self, rank: int) -> int:
        return sum(sequence.tokens for sequence in self.running if sequence.rank == rank)

    def pass_ms(self) -> float:
        if not self.running:
            return 0.0
        counts = [self.count(rank) for rank in range(self.ranks)]
        context = sum(sequence.tokens for sequence in self.running) / len(self.running)
        load = (max(counts) + len(self.running) / self.ranks) / 2
        return self.base_ms + self.sequence_ms * load + self.context_ms * context

    def step(self) -> None:
        for sequence in self.running:
            sequence.tokens += 1
            sequence.left -= 1

    def leave(self, now: float, held_gb: Sequence[float]) -> list[Running]:
        """Who has ended, and the youngest of ranks that outgrew their room; those are handed back, youngest first."""
        for sequence in self.running:
            if not sequence.left:
                self.moments.ended[sequence.request] = now
        self.running = [sequence for sequence in self.running if sequence.left]
        dropped = []
        for rank in range(self.ranks):
            while self.used_gb(rank) + held_gb[rank] > self.free_gb and self.count(rank) > 1:
                youngest = [sequence for sequence in self.running if sequence.rank == rank][-1]
                self.running.remove(youngest)
                self.moments.preempted.append((now, youngest.request))
                dropped.append(youngest)
            self.moments.most_gb = max(self.moments.most_gb, self.used_gb(rank) if self.count(rank) > 1 else 0)
        return dropped

    def decode(self, arrivals: list[tuple[float, int, int]]) -> Moments:
        """(moment, context, answer) of sequences that come to a server that answers alone."""
        now, following, queue = 0.0, 0, list[Waiting]()
        while following < len(arrivals) or queue or self.running:
            if not queue and not self.running:
                now = max(now, arrivals[following][0])
            while following < len(arrivals) and arrivals[following][0] <= now:
                queue.append(Waiting(following, *arrivals[following][1:]))
                following += 1
            for sequence in self.leave(now, [0.0] * self.ranks):
                queue.insert(0, Waiting(sequence.request, sequence.tokens, sequence.left, redo=sequence.tokens))
            now = self._admit(now, queue)
            length = self.pass_ms()
            for sequence in self.running:
                self.moments.placed.setdefault(sequence.request, now)
                self.moments.first.setdefault(sequence.request, now + length)
            now += length
            self.step()
            self.moments.ended |= {sequence.request: now for sequence in self.running if not sequence.left}
        return self.moments

    def _admit(self, now: float, queue: list[Waiting]) -> float:
        while queue:
            head = queue[0]
            ranks = [rank for rank in range(self.ranks) if self.count(rank) < self.places]
            fewest = min(ranks, key=self.count, default=None)
            if fewest is None:
                return now
            fits = [rank for rank in ranks if self.used_gb(rank) + head.tokens <= self.free_gb]
            if fewest not in fits and self.count(fewest):
                if not fits:
                    return now
                fewest = min(fits, key=self.used_gb)
            queue.pop(0)
            now += head.redo * self.redo_ms
            self.running.append(Running(head.request, fewest, head.tokens, head.left))
        return now

    def mixed(self, arrivals: list[tuple[float, int, int, int]]) -> Moments:
        """(moment, prompt, answer, rank) of requests to a server that does both."""
        now, following = 0.0, 0
        queues: list[list[Waiting]] = [[] for _ in range(self.ranks)]
        while following < len(arrivals) or any(queues) or self.running:
            if not any(queues) and not self.running:
                now = max(now, arrivals[following][0])
            while following < len(arrivals) and arrivals[following][0] <= now:
                _, prompt, answer, rank = arrivals[following]
                queues[rank].append(Waiting(following, prompt, answer, fresh=prompt))
                following += 1
            held_gb = [sum(prompt.tokens for prompt in queue if prompt.begun) for queue in queues]
            for sequence in self.leave(now, held_gb):
                emptiest = min(range(self.ranks), key=lambda rank: sum(prompt.fresh for prompt in queues[rank]))
                again = Waiting(sequence.request, sequence.tokens, sequence.left, fresh=sequence.tokens)
                queue = queues[emptiest]
                queue.insert(1 if queue and queue[0].begun else 0, again)
            taken = [self._take(rank, queue) for rank, queue in enumerate(queues)]
            loads = [tokens for tokens, _ in taken]
            length = self.pass_ms()
            if any(loads):
                length += self.chunk_base_ms + self.token_ms * (max(loads) + sum(loads) / self.ranks) / 2
            now += length
            self.step()
            for rank, (_, ending) in enumerate(taken):
                for begun in ending:
                    self.moments.first.setdefault(begun.request, now)
                    self.running.append(Running(begun.request, rank, begun.tokens, begun.left - 1))
            self.moments.ended |= {sequence.request: now for sequence in self.running if not sequence.left}
        return self.moments

    def _take(self, rank: int, queue: list[Waiting]) -> tuple[float, list[Waiting]]:
        """(tokens, prompts that end with them)."""
        budget, ending = self.budget, list[Waiting]()
        while queue and budget > 0:
            head = queue[0]
            coming = [*ending, *(prompt for prompt in queue if prompt.begun)]
            if not head.begun:
                taken = self.count(rank) + len(coming)
                used = self.used_gb(rank) + sum(prompt.tokens for prompt in coming)
                if taken >= self.places or (taken and used + head.tokens > self.free_gb):
                    break
                head.begun = True
            part = min(head.fresh, budget)
            head.fresh -= part
            budget -= part
            if not head.fresh:
                ending.append(queue.pop(0))
        return self.budget - budget, ending
