"""The engines' own routers, one program an interval of lengths: `vllm-router` and SGLang's model gateway. They pair
prefill with decode copies, or balance over copies that do both.

What each policy does, as installed (vllm-router 0.1.17, sglang-router 0.3.2):
power_of_two   of two workers drawn evenly the one with fewer requests in flight; vllm-router counts its own, and
               neither knows how fast a worker is
cache_aware    the worker whose earlier prompts share most of the text, until loads differ by 64 and by half; of a
               worker it knows as much text as --max-tree-size says

vllm-router starts without workers that are not there by its startup timeout and takes them in once they answer; the
gateway gives such workers up for good, so that its timeout is long. Both take requests meanwhile, answer 200 at
/readiness once a worker is there, and leave out workers that fail their health checks. vllm-router's /health is 503 as
soon as one worker is dead.

A dead worker has the fewest requests and draws all of them: it is left out after three failures, fewer than a request
has attempts. That is so for all but the requests that vllm-router pairs: it sends these once and answers 500 until two
checks a second apart have failed. HAProxy in front leaves it at that, as it cannot know that nothing was generated.
Where HAProxy stands behind the program, too, its one worker a phase is HAProxy, which sends on what a dead server
refuses; that worker is never left out for failures, as these are single servers'.

Sources: the help of both programs and requests that they were sent; src/policies of vllm-project/router; the pages on
service discovery of SGLang's model gateway (annotation sglang.ai/bootstrap-port).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from planner.domain import Plan, RouterPolicy
from planner.errors import InputError
from planner.export.engines.tiers import tier_tokens
from planner.export.objects.names import is_dns_label
from planner.export.options import api_key_of, chosen_image
from planner.export.routers.intervals_served import MIXED, SPLIT, ServedInterval, answer_timeout_s, chosen
from planner.export.seams import NAMESPACE, Deployment, Endpoint, RouterProcess

LABEL = "router.planner/interval-"
"""With an interval's number: the label of pods that take part in it; its value is what they do."""
BOOTSTRAP_ANNOTATION = "sglang.ai/bootstrap-port"
READY = "/readiness"
_FIRST_PORT, _FIRST_METRICS_PORT = 8100, 29100
_RETRIES, _STARTUP_PERIOD_S = 5, 5
_FAILURES, _LEFT_OUT_S = 3, 5
HEALTH_PERIOD_S, HEALTH_FAILURES = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProgram:
    """How an engine's router is called. `pairs`: its flag for pairing; `startup_s`: how long it waits for workers;
    `quiet`: the word for a log of warnings alone. `resends_pairs`: a paired request that meets a dead worker goes to
    another. `key_variable`: where it reads the engines' key, with `key_words` of its command; `gives_key`: it gives
    that to paired requests of whoever asks, where others must bring it. `tree`: characters of prompts that it knows of
    a worker unless it is told how many. `recipe`: the folder here that its image is
    built from; empty: it is published."""

    engine: str
    key: str
    image: str
    recipe: str
    program: tuple[str, ...]
    pairs: tuple[str, ...]
    startup_s: int
    tree: int
    quiet: str
    resends_pairs: bool
    key_variable: str
    key_words: tuple[str, ...] = ()
    gives_key: bool = False
    more: tuple[str, ...] = ()


VLLM_ROUTER = GatewayProgram(
    engine="vllm",
    key="VLLM-ROUTER",
    image="vllm-router:0.1.17",
    recipe="vllm_router_image",
    program=("python3", "-m", "vllm_router.launch_router"),
    pairs=("--vllm-pd-disaggregation", "--kv-connector", "nixl"),
    startup_s=30,
    tree=2**25,
    quiet="warning",
    resends_pairs=False,
    key_variable="OPENAI_API_KEY",
    gives_key=True,
)
MODEL_GATEWAY = GatewayProgram(
    engine="sglang",
    key="MODEL-GATEWAY",
    image="lmsysorg/sgl-model-gateway:v0.3.2",
    recipe="",
    program=("python3", "-m", "sglang_router.launch_router"),
    pairs=("--pd-disaggregation",),
    startup_s=86400,
    tree=2**26,
    quiet="warn",
    resends_pairs=True,
    key_variable="SGLANG_API_KEY",
    key_words=("--api-key", "$(SGLANG_API_KEY)"),
    more=("--shutdown-grace-period-secs", "{grace}"),
)
GATEWAYS: Mapping[str, GatewayProgram] = MappingProxyType(
    {program.engine: program for program in (VLLM_ROUTER, MODEL_GATEWAY)}
)


def resends_pairs(engine: str) -> bool:
    """Whether the engine's router sends a paired request again that met a dead worker."""
    return GATEWAYS.get(engine, VLLM_ROUTER).resends_pairs


def opens_to_all(engine: str, way: str) -> bool:
    """Whether the engine's router brings requests of anybody to engines that ask for a key (requests that it was sent,
    vllm-router 0.1.17: a pair's carry the key of its own variable, others the client's)."""
    return way == SPLIT and GATEWAYS.get(engine, VLLM_ROUTER).gives_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What one program serves: its interval's `way` (`split`, `mixed`). `number`: among the plan's programs, for their
    ports; `pool`: which of the interval's pools it takes (None: all); `share` of the interval's requests that go to it;
    `alone`: nothing stands in front. `labels`: role -> the label's value of its pods, where they are found so.
    `reached`: role -> URL of who balances its servers; none: it does."""

    interval: ServedInterval
    way: str
    number: int = 0
    pool: int | None = None
    share: float = 1.0
    alone: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, str] = field(default_factory=dict)

    @property
    def answering(self) -> tuple[str, ...]:
        """The islands whose servers answer its requests to the end."""
        return next(reversed(self.interval.roles(self.way).values()))

    @property
    def suffix(self) -> str:
        """What its name ends in."""
        if self.alone:
            return ""
        pool = "" if self.pool is None else f"-{self.pool}"
        return f"-{self.interval.number}-{self.way}{pool}"


def program_name(deployment: Deployment, suffix: str = "") -> str:
    """The name of a router's program.

    Raises:
        InputError: an island has it already, or it is too long for a Service.
    """
    name = f"{deployment.name}-router{suffix}"
    taken_names = {island.name for island in deployment.islands}
    if name in taken_names or not is_dns_label(name):
        raise InputError(
            f"Router's program {name!r}: must be a DNS label that no island has.",
            hint="Rename the island, or set deploy.name.",
        )
    return name


def gateway_process(deployment: Deployment, endpoints: Sequence[Endpoint], gateway: Gateway) -> RouterProcess:
    """The program that serves an interval's split or mixed share."""
    program = GATEWAYS[deployment.engine.name]
    interval, way, number = gateway.interval, gateway.way, gateway.number
    groups = _worker_groups(interval, way, endpoints)
    watches = not gateway.reached and not all(endpoint.addresses for group in groups.values() for endpoint in group)
    timeout, api_key = answer_timeout_s(deployment.plan), api_key_of(deployment.options)
    command = (
        *program.program,
        *("--host", "0.0.0.0"),  # noqa: S104  # the pod's own address, which the Service reaches
        *("--port", str(_FIRST_PORT + number)),
        *("--policy", policy_word(deployment.plan)),
        *_remembered(deployment, program.tree, groups),
        *(program.pairs if way == SPLIT else ()),
        *(_watching(gateway, groups) if watches else _workers(gateway, groups)),
        *("--request-timeout-secs", str(timeout)),
        *("--worker-startup-timeout-secs", str(program.startup_s)),
        *("--worker-startup-check-interval", str(_STARTUP_PERIOD_S)),
        *("--health-check-interval-secs", str(HEALTH_PERIOD_S)),
        *("--health-failure-threshold", str(HEALTH_FAILURES), "--health-success-threshold", "1"),
        *("--retry-max-retries", str(_RETRIES)),
        *_left_out(gateway),
        *("--prometheus-host", "0.0.0.0"),  # noqa: S104  # as above
        *("--prometheus-port", str(_FIRST_METRICS_PORT + number)),
        *(word.format(grace=timeout) for word in program.more),
        *(program.key_words if api_key else ()),
        *("--log-level", program.quiet),
    )
    return RouterProcess(
        name=program_name(deployment, gateway.suffix),
        image=chosen_image(deployment.options, program.key, program.image) or program.image,
        command=command,
        port=_FIRST_PORT + number,
        health_path=READY,
        replicas=2,
        watches_pods=watches,
        # as many as programs of a pool each would have
        cpus=max(1, len(interval.prefill)) if gateway.reached else 1,
        grace_s=timeout,
        secrets=((program.key_variable, api_key),) if api_key else (),
        notes=(f"Prompts of {interval.title}: {_way_words(interval, way)}.",),
    )


def _left_out(gateway: Gateway) -> Iterator[str]:
    """When a worker that fails requests is left out. One that stands for all servers never: a dead one of them would
    take the others along."""
    if gateway.reached:
        yield "--disable-circuit-breaker"
        return
    yield from ("--cb-failure-threshold", str(_FAILURES), "--cb-success-threshold", "1")
    yield from ("--cb-timeout-duration-secs", str(_LEFT_OUT_S))


def policy_word(plan: Plan) -> str:
    """The policy of both programs that comes nearest to what the plan counts on."""
    return "cache_aware" if plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE else "power_of_two"


def _remembered(deployment: Deployment, tree: int, groups: Mapping[str, Sequence[Endpoint]]) -> Iterator[str]:
    """A tree of prompts as large as the tiers of a worker, where prefixes are looked for and the program's is
    smaller."""
    if deployment.plan.scenario.routing.policy is not RouterPolicy.PREFIX_AWARE:
        return
    tokens = max(tier_tokens(endpoint.island) for group in groups.values() for endpoint in group)
    if (characters := int(tokens * deployment.options.bytes_per_token)) > tree:
        yield from ("--max-tree-size", str(characters))


def _way_words(interval: ServedInterval, way: str) -> str:
    if way == MIXED:
        return f"over {', '.join(name for name, _ in interval.mixed)}"
    return f"a prefill copy of {', '.join(interval.prefill)} and a decode copy of {', '.join(interval.decode)}"


def _worker_groups(
    interval: ServedInterval, way: str, endpoints: Sequence[Endpoint]
) -> dict[str, tuple[Endpoint, ...]]:
    """Role -> where its islands answer."""
    return {role: chosen(names, endpoints) for role, names in interval.roles(way).items()}


def _workers(gateway: Gateway, groups: Mapping[str, Sequence[Endpoint]]) -> Iterator[str]:
    if gateway.reached:
        for role, url in gateway.reached.items():
            yield from (f"--{role}", url)
        return
    if "mixed" in groups:
        yield "--worker-urls"
        yield from (f"http://{address}" for endpoint in groups["mixed"] for address in endpoint.addresses)
        return
    for endpoint in groups["prefill"]:
        for number, address in enumerate(endpoint.addresses):
            yield from ("--prefill", f"http://{address}")
            if endpoint.bootstrap_ports:
                yield str(endpoint.bootstrap_ports[number])
    for endpoint in groups["decode"]:
        for address in endpoint.addresses:
            yield from ("--decode", f"http://{address}")


SELECTORS: Mapping[str, str] = MappingProxyType(
    {"mixed": "--selector", "prefill": "--prefill-selector", "decode": "--decode-selector"}
)


def _watching(gateway: Gateway, groups: Mapping[str, Sequence[Endpoint]]) -> Iterator[str]:
    """Leaders by label: the interval's, and what the selectors of its Services have in common. The program looks at one
    port."""
    ports = {endpoint.port for group in groups.values() for endpoint in group}
    yield from ("--service-discovery", "--service-discovery-namespace", f"$({NAMESPACE})")
    yield from ("--service-discovery-port", str(max(ports)))
    for role, group in groups.items():
        common = dict.fromkeys([f"{LABEL}{gateway.interval.number}={gateway.labels.get(role, role)}"])
        rows = [dict(endpoint.selector).items() for endpoint in group]
        common |= dict.fromkeys(f"{key}={value}" for key, value in rows[0] if all((key, value) in row for row in rows))
        yield from (SELECTORS[role], *common)


def interval_labels(gateways: Sequence[Gateway], island: str) -> dict[str, str]:
    """Labels of an island's pods: in which intervals they take part, and as what."""
    labels: dict[str, str] = {}
    for gateway in gateways:
        for role, names in gateway.interval.roles(gateway.way).items():
            if island in names:
                labels[f"{LABEL}{gateway.interval.number}"] = gateway.labels.get(role, role)
    return labels
