"""What a proof is asked for, checked before anything connects: whom it may load, how much at most, and for how long."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain.arrivals import Requests
from planner.domain.workload import PromptBlocks
from planner.errors import InputError
from planner.runs.live.addresses import Secret, is_here, require_address, without_password
from planner.units import MS_PER_S

KEY = "PLANNER_ENDPOINT_KEY"
"""The environment's API key of the endpoint."""
SECRET = Secret(noun="key", variable=KEY, option="--key-file")
MOST_REQUESTS = 20_000
_MOST_MINUTES = 240.0
START_S, DRAIN_S = 15.0, 30.0
"""Of the time that a proof may take: until the generator sends, and what the last answers may take."""
_LAST_PORT_PATHS = ("", "/", "/v1", "/v1/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofSettings:
    """`url`: where requests go; `confirmed_host`: its host, said again, where that is another machine. `model`: the
    name that it serves (empty: the plan's). `rate_rps`, `requests`, `minutes`: none is exceeded; minutes are of the
    wall's time, start and last answers included. `router`: as of `planner replay`, empty: the plan's.
    `bytes_per_token`: of the prompts' texts (None: the plan's export option). `key`: that the endpoint asks for.
    `programs`: words that start the load generator, by its
    name."""

    url: str
    confirmed_host: str = ""
    model: str = ""
    router: str = ""
    rate_rps: float
    requests: int = 2000
    minutes: float = 10.0
    seed: int = 0
    warm_up: float = 0.1
    bytes_per_token: float | None = None
    key: str = field(default="", repr=False)
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """Scheme, host and port."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def limit_s(self) -> float:
        """Seconds after which the generator is ended whatever it does."""
        return 60 * self.minutes

    @property
    def sending_s(self) -> float:
        """Seconds from the first request within which the last one is to be sent."""
        return self.limit_s - START_S - DRAIN_S


def check_proof(settings: ProofSettings) -> None:
    """InputError names the value that cannot be, an address that is none, or a host that nobody confirmed."""
    _check_address(settings)
    if not 1 <= settings.requests <= MOST_REQUESTS:
        raise _fault("requests", f"must be from 1 to {MOST_REQUESTS:,}", settings.requests, "Try 2000.")
    if not 0 < settings.minutes <= _MOST_MINUTES:
        raise _fault("minutes", f"must be above 0 and at most {_MOST_MINUTES:g}", settings.minutes, "Try 10.")
    if settings.sending_s <= 0:
        spared_s = START_S + DRAIN_S
        raise _fault(
            "minutes",
            f"must be above {spared_s / 60:g}, as start and last answers may take {spared_s:g} s",
            f"{settings.minutes:g}",
            "Give --minutes 2.",
        )
    if not 0 <= settings.warm_up < 1:
        raise _fault("warm_up", "must be a share of the requests from 0 to below 1", settings.warm_up, "Try 0.1.")
    if settings.seed < 0:
        raise _fault("seed", "must be a whole number from 0 on", settings.seed, "Try 0.")
    bytes_per_token = settings.bytes_per_token
    if bytes_per_token is not None and not 0.5 <= bytes_per_token <= 16:
        raise _fault("bytes_per_token", "must be from 0.5 to 16", bytes_per_token, "Try 4.")


def _check_address(settings: ProofSettings) -> None:
    parts = require_address("--url", settings.url, "http://localhost:8000", SECRET, settings.key)
    if parts.path not in _LAST_PORT_PATHS:
        raise InputError(
            f"--url: must be an address as http://localhost:8000, got {without_password(settings.url)!r}.",
            hint="Give scheme, host and port of the router, without a path.",
        )
    host = parts.hostname or ""
    if settings.confirmed_host and settings.confirmed_host.lower() != host:
        raise InputError(
            f"--confirm: must be the host of --url, {host}, got {settings.confirmed_host!r}.",
            hint="Name the host whose engines are to be loaded.",
        )
    if not is_here(host) and not settings.confirmed_host:
        raise InputError(
            f"--url {settings.url}: must be on this machine unless its host is confirmed, got {host}: "
            f"{settings.requests:,} requests would load it.",
            hint=f"Add --confirm {host} where you may load it.",
        )


def within_bounds(requests: Requests, settings: ProofSettings) -> Requests:
    """The first of the requests: as many as may be sent, in the time that they may be sent in.

    Raises InputError where there is none.
    """
    sent = sum(arrival_ms <= settings.sending_s * MS_PER_S for arrival_ms in requests.arrival_ms[: settings.requests])
    if not sent:
        raise _fault(
            "minutes",
            f"must be enough for one request at {settings.rate_rps:.4g} requests/s",
            f"{settings.minutes:g}",
            "Give more --minutes.",
        )
    return replace(
        requests,
        arrival_ms=requests.arrival_ms[:sent],
        prompt_tokens=requests.prompt_tokens[:sent],
        answer_tokens=requests.answer_tokens[:sent],
        blocks=requests.blocks and _first_blocks(requests.blocks, sent),
        classes=requests.classes[:sent],
    )


def _first_blocks(blocks: PromptBlocks, count: int) -> PromptBlocks:
    ends = blocks.ends[:count]
    return replace(blocks, ids=blocks.ids[: ends[-1]], ends=ends)


def expected_s(requests: Requests) -> float:
    """Seconds of the wall's time that sending them takes about, with start and last answers."""
    return math.ceil(requests.arrival_ms[-1] / MS_PER_S) + START_S


def _fault(key: str, rule: str, shown: object, hint: str) -> InputError:
    return InputError(f"prove: {key}: {rule}, got {shown}.", hint=hint)
