"""Simulated servers over HTTP: what engines tell of themselves, answers in one piece and as events, caches handed over
in either engine's way, a port a rank, and a death."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fleets import decode_pool, fleet, mixed_pool, prefill_pool
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPResponse

from planner.domain.arrivals import Requests
from planner.domain.fleet import ReplayFleet
from planner.export.objects.operating.queries import engine_metrics
from planner.files import catalog
from planner.replay.stations.decode import DecodeServer
from planner.runs.rehearsal.attempts import AttemptTable
from planner.runs.rehearsal.clock import PlanClock
from planner.runs.rehearsal.servers import Fleet, SimulatedServer
from planner.runs.rehearsal.stations import ClockedStations
from planner.runs.rehearsal.wire import HAND_OVERS

ANSWER = 5
REQUESTS = Requests(name="some", arrival_ms=[0.0] * 8, prompt_tokens=[100] * 8, answer_tokens=[ANSWER] * 8)
SPLIT = fleet([prefill_pool(sent_ms=1.0), decode_pool()])
ALIKE = fleet([mixed_pool(ranks=3)])


class Site:
    """Servers of a fleet that answer, the first of each pool."""

    def __init__(self, of: ReplayFleet, engine: str, ranks: int = 1) -> None:
        stations = ClockedStations(of, AttemptTable(REQUESTS, of.lengths), PlanClock(0.2))
        self.fleet = Fleet(
            stations=stations,
            hand_over=HAND_OVERS[engine],
            metrics=engine_metrics(catalog.engine(engine)),
            model="some/model",
        )
        self.servers = [SimulatedServer(f"s-{k}", pool[0], self.fleet) for k, pool in enumerate(stations.servers)]
        self.ports = [server.open(ranks) for server in self.servers]

    async def get(self, path: str, server: int = 0) -> HTTPResponse:
        url = f"http://127.0.0.1:{self.ports[server][0]}{path}"
        return await AsyncHTTPClient().fetch(url, raise_error=False)

    async def post(self, path: str, number: int, server: int = 0, rank: int = 0, **more: Any) -> HTTPResponse:
        text = f"some words #{number}"
        prompt = {"prompt": text} if path == "/v1/completions" else {"messages": [{"role": "user", "content": text}]}
        url = f"http://127.0.0.1:{self.ports[server][rank]}{path}"
        body = json.dumps({"model": "some/model", **prompt, **more})
        return await AsyncHTTPClient().fetch(url, method="POST", body=body, raise_error=False)


def on(site: Callable[[], Site], play: Callable[[Site], Awaitable[Any]]) -> Any:
    async def played() -> Any:
        opened = site()
        try:
            return await play(opened)
        finally:
            opened.fleet.stations.close()
            for server in opened.servers:
                await server.close()

    return asyncio.run(played())


@pytest.mark.parametrize(
    ("engine", "name"), [("vllm", "vllm:num_requests_running"), ("sglang", "sglang:num_running_reqs")]
)
def test_servers_tell_of_themselves_in_the_engines_words(engine: str, name: str) -> None:
    async def play(site: Site) -> tuple[int, Any, str]:
        await site.post("/v1/completions", 0)
        models = json.loads((await site.get("/v1/models")).body)
        return (await site.get("/health")).code, models, (await site.get("/metrics")).body.decode()

    health, models, metrics = on(lambda: Site(ALIKE, engine), play)
    assert health == 200
    assert [row["id"] for row in models["data"]] == ["some/model"]
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines())
    assert values[f'{name}{{model_name="some/model"}}'] == "0"
    assert values[f'{engine}:generation_tokens_total{{model_name="some/model"}}'] == str(ANSWER)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_answers_have_all_tokens_in_one_piece_or_as_events(path: str) -> None:
    async def play(site: Site) -> tuple[HTTPResponse, HTTPResponse, HTTPResponse]:
        return await site.post(path, 1), await site.post(path, 2, stream=True), await site.post(path, 99)

    whole, events, unknown = on(lambda: Site(ALIKE, "vllm"), play)
    answer = json.loads(whole.body)
    (choice,) = answer["choices"]
    text = choice["text"] if path == "/v1/completions" else choice["message"]["content"]
    assert (len(text.split()), answer["usage"]["completion_tokens"], choice["finish_reason"]) == (
        ANSWER,
        ANSWER,
        "stop",
    )
    *pieces, end = [line.removeprefix("data: ") for line in events.body.decode().split("\n\n") if line]
    parts = [json.loads(piece)["choices"][0] for piece in pieces]
    texts = [part["text"] if path == "/v1/completions" else part["delta"]["content"] for part in parts]
    assert end == "[DONE]"
    assert [len(part.split()) for part in texts] == [1, ANSWER - 1]
    assert unknown.code == 400


def test_vllm_hands_a_cache_over_by_what_the_prefill_server_says() -> None:
    async def play(site: Site) -> tuple[dict[str, Any], HTTPResponse, HTTPResponse]:
        first = json.loads((await site.post("/v1/completions", 3, max_tokens=1)).body)
        offered = first["kv_transfer_params"]
        return (
            first,
            await site.post("/v1/completions", 3, 1, kv_transfer_params=offered),
            await site.post("/v1/completions", 4, 1),
        )

    first, second, alone = on(lambda: Site(SPLIT, "vllm"), play)
    assert first["usage"]["completion_tokens"] == 1
    assert first["kv_transfer_params"]["remote_engine_id"] == "s-0"
    assert json.loads(second.body)["usage"]["completion_tokens"] == ANSWER
    assert alone.code == 400  # nobody took its prompt in


def test_sglang_meets_in_a_room_whoever_comes_first() -> None:
    async def play(site: Site) -> tuple[HTTPResponse, HTTPResponse]:
        room = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": 77}
        decode = asyncio.create_task(site.post("/v1/completions", 5, 1, **room))
        await asyncio.sleep(0.05)
        return await site.post("/v1/completions", 5, 0, **room), await decode

    prefill, decode = on(lambda: Site(SPLIT, "sglang"), play)
    assert json.loads(prefill.body)["usage"]["completion_tokens"] == 1
    assert json.loads(decode.body)["usage"]["completion_tokens"] == ANSWER


def test_a_port_of_a_rank_queues_there_and_a_port_of_a_server_takes_them_in_turn() -> None:
    async def by_rank(site: Site) -> list[int]:
        station = site.servers[0].station
        assert not isinstance(station, DecodeServer)
        tasks = [asyncio.create_task(site.post("/v1/completions", n, rank=2 % len(site.ports[0]))) for n in range(4)]
        while len(site.fleet.stations.table.numbers) < 4:
            await asyncio.sleep(0.001)
        counts = [len(queue) for queue in station.queues]
        await asyncio.gather(*tasks)
        return counts

    waiting = on(lambda: Site(fleet([mixed_pool(ranks=3, chunk_base_ms=500.0)]), "vllm", ranks=3), by_rank)
    assert waiting[:2] == [0, 0]
    assert waiting[2] >= 3  # the first may have begun
    in_turn = on(lambda: Site(fleet([mixed_pool(ranks=3, chunk_base_ms=500.0)]), "vllm"), by_rank)
    assert max(in_turn) <= 2


def test_a_death_cuts_what_is_there_and_closes_the_port_until_it_is_back() -> None:
    async def play(site: Site) -> tuple[tuple[int, ...], list[int], int]:
        asked = asyncio.create_task(site.post("/v1/completions", 6))
        while not site.fleet.stations.table.numbers:
            await asyncio.sleep(0.001)
        lost = await site.servers[0].die()
        refused = 0
        for attempt in (asked, site.get("/health")):
            try:
                await attempt
            except (OSError, HTTPClientError):
                refused += 1
        site.servers[0].come_back()
        return lost, [refused], (await site.get("/health")).code

    slow = fleet([mixed_pool(chunk_base_ms=60_000.0)])
    assert on(lambda: Site(slow, "vllm"), play) == ((6,), [2], 200)
