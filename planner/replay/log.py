"""What every request went through: one column a moment (ms; nan: not reached), written by the stations."""

import math
from array import array

NEVER = math.nan


class RequestLog:
    """Columns over requests. `started`: its prefill began; `prefilled`: ended; `arrived`: its cache is with the decode
    server; `placed`: it has a place in a batch; `first`, `ended`: first and last token. All are those of the last try.
    `prefill`, `decode`: numbers of the pools that served it (-1: none yet). `hits`: tokens found in a prefix cache.
    `tries`: how often it began anew after losses.
    """

    __slots__ = (
        "arrived",
        "decode",
        "ended",
        "first",
        "hits",
        "placed",
        "preempted",
        "prefill",
        "prefilled",
        "started",
        "tries",
    )

    def __init__(self, requests: int) -> None:
        self.started, self.prefilled, self.arrived, self.placed, self.first, self.ended = (
            array("d", [NEVER]) * requests for _ in range(6)
        )
        self.prefill, self.decode = (array("i", [-1]) * requests for _ in range(2))
        self.hits = array("i", [0]) * requests
        self.tries, self.preempted = (array("H", [0]) * requests for _ in range(2))

    def begin_anew(self, request: int) -> None:
        """What was done of a request is lost."""
        for moments in (self.started, self.prefilled, self.arrived, self.placed, self.first, self.ended):
            moments[request] = NEVER
        self.prefill[request] = self.decode[request] = -1
        self.hits[request] = 0
        self.tries[request] += 1
