"""The event loop: guaranteed jobs come, lend out and take back; spot jobs fill what is free and give way.

At one time first evicted pods are gone, then spot jobs finish, guaranteed jobs finish, lend out or take back, start or
resume, at last jobs come; waiting guaranteed jobs are tried where one has finished, waiting spot jobs once, after all
that. A guaranteed job takes free GPUs if it can, pod by pod, else it claims GPUs of spot jobs and starts when they are
gone; where other guaranteed jobs are in the way it waits, and may be passed by those that fit. A spot job that was
evicted queues by its first submission and goes on from its last checkpoint.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

import numpy as np

from planner.studies.spot.records import EvictionLaw, JobClass, SpotAction, SpotEvent, SpotJob, SpotNode, SpotPolicy
from planner.studies.spot.simulation.fleet import NOWHERE, SpotFleet
from planner.studies.spot.simulation.meters import Accounts, HpGuest, Meters, SpotGuest
from planner.studies.spot.simulation.policies import eviction_times
from planner.studies.spot.simulation.victims import Choice, VictimBoard, since_checkpoint

Watch = Callable[[SpotEvent], None]


class _Kind(IntEnum):
    """Kinds of events, in the order in which they happen at one time."""

    GONE = 0
    SPOT_DONE = 1
    HP_NEXT = 2
    HP_READY = 3
    SUBMIT = 4


class SpotSimulation:
    """Everything that changes. `queue`: waiting spot jobs by submission; `hp_queue`: guaranteed jobs without nodes."""

    def __init__(
        self,
        nodes: Sequence[SpotNode],
        jobs: Sequence[SpotJob],
        policy: SpotPolicy,
        *,
        law: EvictionLaw,
        seed: int,
        meters: Meters,
        accounts: Accounts,
        watch: Watch | None = None,
    ) -> None:
        self.policy, self.meters, self.accounts, self._watch = policy, meters, accounts, watch
        self.fleet = SpotFleet(nodes, jobs, policy, meters)
        self.board = VictimBoard(nodes, np.random.default_rng([seed, 3]))
        self._grace = eviction_times(law, np.random.default_rng([seed, 2]))
        order = sorted(range(len(jobs)), key=lambda k: jobs[k].submit_s)
        self.guests: list[SpotGuest | HpGuest] = [
            HpGuest(number, jobs[k])
            if jobs[k].kind is JobClass.HP
            else SpotGuest(number, jobs[k], left_s=jobs[k].duration_s)
            for number, k in enumerate(order)
        ]
        self._coming = [(jobs[k].submit_s, _Kind.SUBMIT, number, 0) for number, k in enumerate(order)][::-1]
        self._events: list[tuple[float, _Kind, int, int]] = []
        self._ending: dict[tuple[int, int], tuple[int, ...]] = {}
        self.queue: list[int] = []
        self.hp_queue: list[int] = []
        self._freed = self._hp_freed = False
        self._fresh = 0
        self.now_s = 0.0

    def run(self, end_s: float, progress: Callable[[float], None] | None = None) -> None:
        """Everything that happens up to `end_s`. `progress` hears the time now and then."""
        for rounds, time_s in enumerate(self._times(end_s)):
            self.meters.advance(time_s)
            self.now_s = time_s
            for kind, number, run in self._due(time_s):
                self._happen(kind, number, run)
            if self._hp_freed:
                self._retry_hp()
            if self._freed or self._fresh:
                self._retry()
            if progress is not None and rounds % 512 == 0:
                progress(time_s)
        self.meters.advance(end_s)
        self.meters.finish()
        self.now_s = end_s
        for guest in self.guests:
            if isinstance(guest, SpotGuest) and guest.runs:
                self.accounts.ran(guest.job.total_gpus, guest.started_s, end_s - guest.started_s, end_s)

    def _times(self, end_s: float) -> Iterator[float]:
        while True:
            heads = [pile[at][0] for pile, at in ((self._events, 0), (self._coming, -1)) if pile]
            if not heads or min(heads) > end_s:
                return
            yield min(heads)

    def _due(self, time_s: float) -> Iterator[tuple[_Kind, int, int]]:
        """Events of this time in their order, also such as come up meanwhile."""
        while True:
            if self._events and self._events[0][0] == time_s:
                yield heapq.heappop(self._events)[1:]
            elif self._coming and self._coming[-1][0] == time_s:
                yield self._coming.pop()[1:]
            else:
                return

    def _happen(self, kind: _Kind, number: int, run: int) -> None:
        guest = self.guests[number]
        if isinstance(guest, SpotGuest):
            if kind is _Kind.SUBMIT:
                self._enqueue(guest)
                self._fresh += 1
            elif kind is _Kind.GONE:
                self._gone(guest, run)
            elif run == guest.run:
                self._finish_spot(guest)
        elif kind is _Kind.SUBMIT:
            self._submit_hp(guest)
        elif kind is _Kind.HP_READY:
            self._ready(guest)
        else:
            self._next(guest)

    def _tell(self, action: SpotAction, job: SpotJob, places: Sequence[int]) -> None:
        if self._watch is not None:
            self._watch(SpotEvent(time_s=self.now_s, action=action, job=job, nodes=tuple(places)))

    # guaranteed jobs

    def _submit_hp(self, guest: HpGuest) -> None:
        if not self._claim(guest):
            self.hp_queue.append(guest.number)

    def _retry_hp(self) -> None:
        self._hp_freed = False
        self.hp_queue = [number for number in self.hp_queue if not self._claim(self._hp(number))]

    def _hp(self, number: int) -> HpGuest:
        guest = self.guests[number]
        assert isinstance(guest, HpGuest), "only guaranteed jobs are asked for"
        return guest

    def _claim(self, guest: HpGuest) -> bool:
        """Nodes for all pods, or none. Pods are alike, so that each takes one of the places that were counted."""
        job = guest.job
        if not self.fleet.claimable(job):
            return False
        guest.claimed_s = self.now_s
        for _ in range(job.pods):
            place = self.fleet.best(job)
            if place == NOWHERE:
                choice = self._victims(job)
                place = choice.place
                self._end(choice)
            self.fleet.take(job, guest.number, place)
            guest.places.append(place)
        self._tell(SpotAction.CLAIM, job, guest.places)
        self._await(guest)
        return True

    def _victims(self, job: SpotJob) -> Choice:
        choice = (
            self.board.cheapest(self.fleet, job, self.now_s) if self.policy.by_cost else self.board.any(self.fleet, job)
        )
        assert choice is not None, "claimable() has counted the places"
        return choice

    def _await(self, guest: HpGuest) -> None:
        """It is ready when all that is ending on its nodes, and stands in its way, is gone."""
        waits = [self.fleet.ended_by[place] for place in guest.places if self.fleet.waits(place)]
        heapq.heappush(self._events, (max([self.now_s, *waits]), _Kind.HP_READY, guest.number, 0))

    def _ready(self, guest: HpGuest) -> None:
        if guest.started_s is None:
            guest.started_s = guest.offset_s = self.now_s
            self._tell(SpotAction.START, guest.job, guest.places)
        else:
            waited_s = self.now_s - guest.claimed_s
            guest.offset_s += waited_s
            guest.resume_s += waited_s
            self.accounts.resumed(self.now_s, waited_s)
            self._tell(SpotAction.RESUME, guest.job, guest.places)
        self._schedule(guest)

    def _schedule(self, guest: HpGuest) -> None:
        heapq.heappush(self._events, (guest.next_s(), _Kind.HP_NEXT, guest.number, 0))

    def _next(self, guest: HpGuest) -> None:
        """A window begins or ends, or the job does."""
        windows = guest.job.standby
        if guest.window == len(windows):
            self._finish_hp(guest)
        elif not guest.lent:
            for place in guest.places:
                self.fleet.lend(guest.job, place)
            guest.lent = self._freed = True
            self._tell(SpotAction.STANDBY, guest.job, guest.places)
            self._schedule(guest)
        elif windows[guest.window].end_s >= guest.job.duration_s:
            self._finish_hp(guest)
        else:
            self._reclaim(guest)

    def _reclaim(self, guest: HpGuest) -> None:
        guest.window, guest.lent, guest.claimed_s = guest.window + 1, False, self.now_s
        for place in guest.places:
            self.fleet.reclaim(guest.job, place)
        for place in sorted(set(guest.places)):
            if self.fleet.short(place):
                by_cost = self.policy.by_cost
                self._end(
                    self.board.cheapest_on(self.fleet, place, self.now_s)
                    if by_cost
                    else self.board.any_on(self.fleet, place)
                )
        self._tell(SpotAction.RECLAIM, guest.job, guest.places)
        self._await(guest)

    def _finish_hp(self, guest: HpGuest) -> None:
        for place in guest.places:
            self.fleet.give_back(guest.job, guest.number, place, lent=guest.lent)
        guest.finished_s, self._freed, self._hp_freed = self.now_s, True, True
        self._tell(SpotAction.FINISH, guest.job, guest.places)
        guest.places = []

    # spot jobs

    def _end(self, choice: Choice) -> None:
        """Victims are told to end, wherever their pods are; the node where they were in the way remembers them."""
        for number in choice.victims:
            guest = self.guests[number]
            assert isinstance(guest, SpotGuest), "guaranteed jobs are never evicted"
            self.fleet.evictions[choice.place] += 1
            self._evict(guest)

    def _evict(self, guest: SpotGuest) -> None:
        job, ran_s, lasts_s = guest.job, self.now_s - guest.started_s, next(self._grace)
        assert job.checkpoint_s is not None, "spot jobs have checkpoints"
        kept_s = ran_s - since_checkpoint(ran_s, job.checkpoint_s)
        self.accounts.ran(job.total_gpus, guest.started_s, kept_s, self.now_s)
        self.accounts.evicted(job.total_gpus, self.now_s, lasts_s)
        guest.left_s -= kept_s
        guest.evictions += 1
        self.meters.evictions += 1
        for place in guest.places:
            self.fleet.tell(job, guest.number, place, self.now_s + lasts_s)
        self._unseat(guest)
        guest.run += 1
        self._ending[guest.number, guest.run] = tuple(guest.places)
        heapq.heappush(self._events, (self.now_s + lasts_s, _Kind.GONE, guest.number, guest.run))
        self._tell(SpotAction.EVICT, job, guest.places)
        guest.places = []

    def _unseat(self, guest: SpotGuest) -> None:
        for place in sorted(set(guest.places)):
            self.board.leave(guest.number, place)

    def _gone(self, guest: SpotGuest, run: int) -> None:
        places = self._ending.pop((guest.number, run))
        for place in places:
            self.fleet.gone(guest.job, place)
        self._freed = True
        self._tell(SpotAction.GONE, guest.job, places)
        self._enqueue(guest)

    def _finish_spot(self, guest: SpotGuest) -> None:
        ran_s = self.now_s - guest.started_s
        self.accounts.ran(guest.job.total_gpus, guest.started_s, ran_s, self.now_s)
        for place in guest.places:
            self.fleet.give_back(guest.job, guest.number, place)
        self._unseat(guest)
        guest.left_s, guest.finished_s, self._freed = 0.0, self.now_s, True
        guest.run += 1
        self._tell(SpotAction.FINISH, guest.job, guest.places)
        guest.places = []

    def _enqueue(self, guest: SpotGuest) -> None:
        insort(self.queue, guest.number)
        self.meters.waiting_jobs += 1
        self.meters.waiting_gpus += guest.job.total_gpus

    def _retry(self) -> None:
        """The queue from its head until `window` jobs did not fit; where nothing became free, only those that came."""
        begin = 0 if self._freed else max(0, len(self.queue) - self._fresh)
        self._freed, self._fresh = False, 0
        full: set[tuple[int, int, int, str]] = set()
        failed = at = begin
        while at < len(self.queue) and failed < self.policy.window:
            guest = self.guests[self.queue[at]]
            assert isinstance(guest, SpotGuest), "only spot jobs queue here"
            job = guest.job
            request = job.gpus, job.cpus, job.pods, job.gpu_model
            if request not in full and self._start(guest):
                del self.queue[at]
            else:
                full.add(request)
                failed, at = failed + 1, at + 1

    def _start(self, guest: SpotGuest) -> bool:
        """All pods on free GPUs, or none."""
        job = guest.job
        if not self.fleet.room(job):
            return False
        for _ in range(job.pods):
            place = self.fleet.best(job)
            if place == NOWHERE:
                for earlier_place in guest.places:
                    self.fleet.give_back(job, guest.number, earlier_place)
                guest.places = []
                return False
            self.fleet.take(job, guest.number, place)
            guest.places.append(place)
        for place in sorted(set(guest.places)):
            pods = guest.places.count(place)
            self.board.seat(guest.number, job, place, pods, self.now_s)
        guest.started_s = self.now_s
        guest.first_s = self.now_s if guest.first_s is None else guest.first_s
        guest.run += 1
        heapq.heappush(self._events, (self.now_s + guest.left_s, _Kind.SPOT_DONE, guest.number, guest.run))
        self.meters.waiting_jobs -= 1
        self.meters.waiting_gpus -= job.total_gpus
        self._tell(SpotAction.START, job, guest.places)
        return True
