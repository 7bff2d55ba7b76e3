"""Baseline once more, for machines alike and one request at a time: no heaps, no state but what it looks up each time.

It shares no code with the simulator: the clock goes to the next arrival, end or deadline of idleness, and what may
begin is sought from the beginning.
"""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Copy:
    model: int
    ready: bool = False
    used_s: float = 0.0
    passes: int = 0


@dataclass(eq=False)
class Box:
    copies: list[Copy] = field(default_factory=list)
    free_s: float = 0.0
    doing: tuple[str, Copy, int] | None = None
    inferred: bool = False
    since_s: float = 0.0


@dataclass(eq=False)
class Baseline:
    """`load_s`, `infer_s`: by model. `requests`: arrival and model, by arrival. `absence` as the reading says."""

    load_s: list[float]
    infer_s: list[float]
    requests: list[tuple[float, int]]
    boxes: list[Box]
    absence: str
    idle_s: float
    dispatch_s: float = 0.0
    late_s: float = 0.0
    slots: int = 2
    starts: dict[int, float] = field(default_factory=dict)
    loads: list[tuple[float, int, int]] = field(default_factory=list)

    def run(self) -> None:
        came, now = 0, 0.0
        turns = [0] * len(self.load_s)
        order: list[list[Box]] = [[] for _ in self.load_s]  # machines with a model, in the order of its loads
        asked = False
        while len(self.starts) < len(self.requests) or any(box.doing for box in self.boxes):
            arrival = max(self.late_s, self.requests[came][0]) if came < len(self.requests) else float("inf")
            busy = [box for box in self.boxes if box.doing]
            end = min((box.free_s for box in busy), default=float("inf"))
            woken = self.woken_s(now, came) if asked else float("inf")
            now = min(arrival, end, woken)
            if arrival == now:
                came += 1
                model = self.requests[came - 1][1]
                if len(self.waiting(came, model)) == 1:
                    holders = order[model]
                    rotated = [(turns[model] + step) % len(holders) for step in range(len(holders))]
                    for place in rotated:
                        if not holders[place].doing:
                            turns[model] = (place + 1) % len(holders)
                            self.serve(holders[place], now, came)
                            break
                if any(not box.doing for box in self.boxes) and (came - 1) not in self.starts:
                    self.plan(now, came, order)
                    asked = True
            elif end == now:
                box = next(box for box in busy if box.free_s == end)
                what, copy, _ = box.doing or ("", Copy(0), 0)
                box.doing, box.since_s, copy.used_s = None, now, now
                if what == "load":
                    copy.ready, box.inferred = True, False
                    order[copy.model].append(box)
                else:
                    copy.passes += 1
                    box.inferred = True
                self.serve(box, now, came)
                if not box.doing or (what == "load" and self.absence == "no-idle"):
                    self.plan(now, came, order)
                    asked = True
            else:
                self.plan(now, came, order)

    def waiting(self, came: int, model: int) -> list[int]:
        return [k for k in range(came) if k not in self.starts and self.requests[k][1] == model]

    def serve(self, box: Box, now: float, came: int) -> None:
        heads = [(self.waiting(came, copy.model)[:1], copy) for copy in box.copies if copy.ready]
        heads = [(waiting[0], copy) for waiting, copy in heads if waiting]
        if heads:
            request, copy = min(heads, key=lambda row: row[0])
            self.starts[request] = now
            box.doing = ("infer", copy, request)
            box.free_s = now + (self.dispatch_s + self.infer_s[copy.model])

    def short(self, model: int, came: int) -> bool:
        """Whether Baseline wants to load the model."""
        waiting = len(self.waiting(came, model))
        copies = [(box, copy) for box in self.boxes for copy in box.copies if copy.model == model]
        loading = sum(not copy.ready for _, copy in copies)
        if self.absence == "nowhere":
            return waiting > 0 and not copies
        idle = any(copy.ready and not box.doing for box, copy in copies)
        return not idle and (waiting if self.absence == "each" else min(1, waiting)) > loading

    def woken_s(self, now: float, came: int) -> float:
        if not any(self.short(model, came) for model in range(len(self.load_s))):
            return float("inf")
        waits = [box.since_s + self.idle_s for box in self.boxes if not box.doing and box.copies and not box.inferred]
        return min((at for at in waits if at > now), default=float("inf"))

    def plan(self, now: float, came: int, order: list[list[Box]]) -> None:
        while (chosen := self.choice(now, came)) is not None:
            box, model, victim = chosen
            if victim is not None:
                box.copies.remove(victim)
                order[victim.model].remove(box)
            copy = Copy(model, used_s=now)
            box.copies.append(copy)
            box.doing = ("load", copy, -1)
            box.free_s = now + self.load_s[model]
            self.loads.append((now, self.boxes.index(box), model))

    def choice(self, now: float, came: int) -> tuple[Box, int, Copy | None] | None:
        models = [model for model in range(len(self.load_s)) if self.short(model, came)]
        for model in sorted(models, key=lambda model: self.waiting(came, model)[0]):
            for box in self.boxes:
                if box.doing or any(copy.model == model for copy in box.copies):
                    continue
                if box.copies and not box.inferred and box.since_s + self.idle_s > now:
                    continue
                if len(box.copies) < self.slots:
                    return box, model, None
                free = [copy for copy in box.copies if copy.passes or not self.waiting(came, copy.model)]
                if free:
                    return box, model, min(free, key=lambda copy: copy.used_s)
        return None
