"""Serving against what is known from outside: queueing theory, hand-made timelines, the thesis' own figures."""

import numpy as np
import pytest
from serving_pools import actions_of, model, pool, requests, require_sound

from planner.studies.serving import warsaw
from planner.studies.serving.arrivals import ArrivalLaw, draw_counts, requests_of
from planner.studies.serving.measures import by_minute, figures_of
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import Action, InferenceKind, ServingRequest, ServingSettings
from planner.studies.serving.simulation.cluster import RequestBook, draw_sla
from planner.studies.serving.simulation.run import ServingRun, simulate_serving
from planner.studies.serving.simulation.times import Times

SERVICE_S = 0.1


def poisson(count: int, rate: float, seed: int) -> tuple[ServingRequest, ...]:
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))
    return tuple(ServingRequest(arrival_s=float(came), model=0) for came in arrivals)


def lindley(arrivals: list[float], service_s: float, free_s: float) -> list[float]:
    """When each request of one queue with one server begins."""
    starts = []
    for came in arrivals:
        starts.append(max(came, free_s))
        free_s = starts[-1] + service_s
    return starts


@pytest.mark.parametrize("policy", POLICIES)
def test_one_machine_is_lindleys_queue(policy: str) -> None:
    served = pool(model(seconds=SERVICE_S), slots=1)
    asked = poisson(1500, 0.8 / SERVICE_S, 7)
    run = simulate_serving(served, asked, policy, seed=1)
    loaded_s = next(row[5] for row in actions_of(run) if row[1] is Action.LOAD)
    starts = lindley([request.arrival_s for request in asked], SERVICE_S, loaded_s)
    assert run.requests.start_s == pytest.approx(starts, abs=1e-6)
    require_sound(run, served, asked)


def test_the_mean_wait_is_that_of_m_d_1() -> None:
    """W = rho D / (2 (1 - rho)), Pollaczek and Khinchine; within 2 % over 60,000 requests."""
    load = 0.3
    run = simulate_serving(
        pool(model(seconds=SERVICE_S), slots=1), poisson(60_000, load / SERVICE_S, 1), "baseline", seed=1
    )
    wait_s = float((run.requests.start_s - run.requests.arrival_s).mean())
    assert wait_s == pytest.approx(load * SERVICE_S / (2 * (1 - load)), rel=0.02)


def test_loads_take_the_published_seconds() -> None:
    times = Times(pool_of_warsaw())
    seconds = {name: round(times.load_s[place][0], 3) for place, (name, *_) in enumerate(warsaw.DNNS)}
    assert seconds == {
        "MobileNet-V1": 0.033,
        "SqueezeNet": 0.001,
        "VGG-19": 1.072,
        "DenseNet-169": 0.107,
        "Whisper": 2.93,
        "Resnet18": 0.264,
        "VGG16": 1.031,
        "VGG-16": 1.031,
        "Inception-ResNet-v2": 0.42,
    }
    llm = warsaw.llm_models()
    assert [round(one.size_mb * 8 / 4096) for one in llm if one.name.startswith("1-")] == [109, 109]


def pool_of_warsaw(machines: int = 20):
    from planner.studies.serving.records import ServingPool

    return ServingPool(types=warsaw.machines(machines), models=warsaw.dnn_models())


def test_the_trace_has_the_published_totals() -> None:
    models = warsaw.dnn_models()
    law = ArrivalLaw(totals=warsaw.TOTALS)
    asked = requests_of(models, draw_counts(models, law, 422), law, 422)
    counts = np.bincount([request.model for request in asked])
    assert dict(zip([one.name for one in models], counts.tolist(), strict=True)) == dict(warsaw.TOTALS)
    assert len(asked) == 54_831
    assert [request.arrival_s for request in asked] == sorted(request.arrival_s for request in asked)
    by_minutes = np.bincount([int(request.arrival_s // 60) for request in asked], minlength=30)
    spikes = by_minutes[[9, 10, 20]]
    others = np.delete(by_minutes, [9, 10, 20])
    assert len(by_minutes) == 30
    assert spikes.mean() / others.mean() == pytest.approx(law.spike_factor, rel=0.05)


def test_slas_lie_where_the_thesis_has_them() -> None:
    """U(0.5, 1.0) + 2 * inference: 0.52 to 2.02 s over the nine models, one for each model."""
    served = pool_of_warsaw()
    asked = tuple(ServingRequest(arrival_s=float(k), model=k % 9) for k in range(90))
    book = RequestBook(served, asked, seed=422, starved_share=0.6)
    for place, (_, _, seconds, _) in enumerate(warsaw.DNNS):
        of_model = {round(book.sla_s[k], 9) for k in range(90) if k % 9 == place}
        assert len(of_model) == 1
        assert 0.5 <= of_model.pop() - 2 * seconds <= 1.0
    assert 0.518 <= min(book.sla_s) <= max(book.sla_s) <= 2.014
    assert len(set(draw_sla(9, 422))) == 9
    starved_s = [came + 0.6 * sla for came, sla in zip(book.arrival_s, book.sla_s, strict=True)]
    assert book.starved_s == pytest.approx(starved_s)


def timeline(kind: InferenceKind, *rows: tuple[float, int, int, int], batch: int = 4) -> list[float]:
    """When requests are answered whose model was loaded at once; s(1) = 0.01, s(2) = 0.015, s(4) = 0.025, p = 0.1 s."""
    points = ((1, 0.01), (2, 0.015), (4, 0.025))
    one = model(kind=kind, points=points, prompt_s=0.1, batch=batch, size_mb=1e-9, sla_s=100.0)
    served, asked = pool(one), requests(*rows)
    run = simulate_serving(served, asked, "baseline", seed=1)
    require_sound(run, served, asked)
    return [float(value) for value in run.requests.finish_s]


def test_single_and_autoregressive_requests_come_one_after_the_other() -> None:
    rows = ((1.0, 0, 5, 10), (1.0, 0, 5, 20))
    assert timeline(InferenceKind.SINGLE, *rows) == pytest.approx([1.01, 1.02])
    assert timeline(InferenceKind.AUTOREGRESSIVE, *rows) == pytest.approx([1.2, 1.5])


def test_batches_share_a_pass() -> None:
    """The first goes alone, the two that came meanwhile together."""
    rows = ((1.0, 0, 5, 10), (1.001, 0, 5, 10), (1.002, 0, 5, 20))
    assert timeline(InferenceKind.BATCHED, *rows) == pytest.approx([1.01, 1.025, 1.025])


def test_a_static_batch_ends_with_its_longest_answer() -> None:
    rows = ((1.0, 0, 5, 10), (1.001, 0, 5, 10), (1.002, 0, 5, 20))
    assert timeline(InferenceKind.STATIC_BATCH, *rows) == pytest.approx([1.2, 1.7, 1.7])


def test_a_continuous_batch_is_joined_and_left_at_any_step() -> None:
    """Alone 10 steps of 10 ms after the prompt; a second prompt stops it at 1.15 s for 0.1 s; then steps of 15 ms."""
    assert timeline(InferenceKind.CONTINUOUS_BATCH, (1.0, 0, 5, 10)) == pytest.approx([1.2])
    rows = ((1.0, 0, 5, 10), (1.15, 0, 5, 20))
    # 5 tokens by 1.15; both decode from 1.25: 5 tokens more by 1.325; then 15 more alone
    assert timeline(InferenceKind.CONTINUOUS_BATCH, *rows) == pytest.approx([1.325, 1.325 + 0.15])
    # no room for a second: it waits for the first
    assert timeline(InferenceKind.CONTINUOUS_BATCH, *rows, batch=1) == pytest.approx([1.2, 1.2 + 0.3])


def test_the_llm_branch_takes_13_9_ms_a_token() -> None:
    llm = warsaw.llm_models()
    assert [one.name for one in llm] == [
        *("0.5-llama_7B-code", "0.5-llama_7B-conv", "1-llama_7B-code", "1-llama_7B-conv"),
        *("1.5-llama_7B-code", "1.5-llama_7B-conv"),
    ]
    request = ServingRequest(arrival_s=0, model=5, prompt_tokens=900, output_tokens=100)
    from planner.studies.serving.records import ServingPool

    served = ServingPool(types=warsaw.machines(30), models=llm)
    assert Times(served).alone_s(request) == pytest.approx(100 * 0.0139 * 1.5)
    batched = ServingPool(types=warsaw.machines(30), models=warsaw.llm_models(InferenceKind.STATIC_BATCH))
    rows = [ServingRequest(arrival_s=0, model=2, output_tokens=100)] * 128
    assert Times(batched).batch_s(2, 0, rows) == pytest.approx(100 * 128 * 0.762e-3)


def test_figures_of_a_hand_made_run() -> None:
    """Load 1 s at 0.5 s; requests at 0.5, 0.6 and 70 s of 0.1 s each, an SLA of 1 s: the first two are late."""
    served = pool(model(size_mb=512.0, sla_s=1.0), machines=2)
    asked = requests((0.5, 0), (0.6, 0), (70.0, 0))
    run: ServingRun = simulate_serving(served, asked, "baseline", seed=1)
    figures = figures_of(run, served)
    assert (figures.loads, figures.load_s) == (1, pytest.approx(1.0))
    assert run.requests.finish_s.tolist() == pytest.approx([1.6, 1.7, 70.1])
    assert figures.misses_per_100 == pytest.approx(200 / 3)
    assert figures.misses_per_minute == pytest.approx(1.0)
    assert figures.wait_max_s == pytest.approx(1.0)
    assert figures.completion_mean_s == pytest.approx((1.1 + 1.1 + 0.1) / 3)
    assert figures.throughput_per_minute == pytest.approx(3 / (70.1 / 60))
    assert figures.machine_h == pytest.approx(2 * 70.1 / 3600)
    assert figures.infer_percent == pytest.approx(100 * 0.3 / (2 * 70.1))
    assert [(row.minute, row.requests, row.missed) for row in by_minute(run.requests)] == [(0, 2, 2), (1, 1, 0)]


def test_clockworks_priorities_are_the_formula() -> None:
    """Two models on two machines: demand 1.0 s on both, 0.4 s on the second; H = 0.5 s."""
    from planner.studies.serving.policies.clockwork import Priorities
    from planner.studies.serving.simulation.cluster import Cluster, Place

    served = pool(model("a", 0.5), model("b", 0.4), model("c", 0.3), machines=2)
    asked = requests((0.0, 0), (0.0, 0), (0.0, 1), (0.0, 2))
    book = RequestBook(served, asked, seed=1, starved_share=0.6)
    cluster = Cluster(served, book, ServingSettings(horizon_s=0.5))
    first, second = cluster.machines
    places = {}
    for machine, place in ((first, 0), (second, 0), (second, 1)):
        places[machine.number, place] = Place(place, 0.0)
        cluster.add(machine, places[machine.number, place])
    for request in range(4):
        cluster.push(request)
    board = Priorities(cluster)
    assert board.load_s == pytest.approx([0.5, 0.9])
    assert board.priority(0) == pytest.approx(1.0 - 0.5 * (1 + 0.5 / 0.9))
    assert board.priority(1) == pytest.approx(0.4 - 0.4 * 0.5 / 0.9)
    assert board.priority(2) == pytest.approx(0.3)
    assert board.without(places[1, 0], second) == pytest.approx(1.0 - 1.0 * 1)
    assert board.without(places[1, 1], second) == pytest.approx(0.4)
