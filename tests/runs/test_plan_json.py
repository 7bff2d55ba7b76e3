"""plan.json: what is saved is what is loaded, and what breaks the schema is refused by name."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from edited_documents import of_before_digests, resealed, unverified
from placed_plans import placed_by_hand

from planner.domain import LengthProfile, Plan, PoolDrafts
from planner.domain.serving.caches.tiers import TierHits, TierOutlook, TierSize
from planner.domain.serving.promise import PromiseOdds, ReplayedChoice, ReplayedRates, SureRate
from planner.errors import InputError
from planner.files import encode_plan, load_run, plan_document, plan_schema, write_run
from planner.files.plan.plan_schemas import schema_text
from planner.report import islands_frame
from planner.runs.publication import publish

Document = dict[str, Any]


@pytest.fixture
def document(plan: Plan) -> Document:
    fresh: Document = json.loads(encode_plan(plan))
    return fresh


def _load(folder: Path, document: object) -> Plan:
    path = folder / "plan.json"
    path.write_text(json.dumps(document))
    return load_run(path)


def test_loading_gives_back_the_plan(plan: Plan, tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"plan.json": encode_plan(plan)})
    assert load_run(tmp_path / "run") == plan
    assert load_run(tmp_path / "run" / "plan.json") == plan
    assert encode_plan(load_run(tmp_path / "run")) == encode_plan(plan)


def test_a_whole_run_is_loaded_and_published_alike(run_files: dict[str, bytes], tmp_path: Path, painted: None) -> None:
    write_run(tmp_path / "run", run_files)
    assert publish(load_run(tmp_path / "run")).files == run_files
    written = {p.relative_to(tmp_path / "run").as_posix() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert written == set(run_files)


def test_a_plan_of_a_trace_needs_no_trace(plan_of_a_trace: Plan, tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"plan.json": encode_plan(plan_of_a_trace)})
    assert not (tmp_path / "mine.csv").exists()
    loaded = load_run(tmp_path / "run")
    assert loaded == plan_of_a_trace
    assert loaded.scenario.workload.name == "mine"
    assert loaded.scenario.workload.requests == 200
    assert isinstance(loaded.scenario.workload, LengthProfile)
    assert encode_plan(loaded) == encode_plan(plan_of_a_trace)
    assert "mine.csv" in dict(loaded.provenance.input_hashes)


def test_figures_of_plan_json_are_the_plan(plan: Plan, document: Document) -> None:
    assert document["throughput_rps"] == pytest.approx(min(document["prefill_rps"], document["decode_rps"]))
    assert document["price_usd_per_hour"] == pytest.approx(32 * 3.7 + 32 * 1)
    rent_per_token = document["price_usd_per_hour"] / 3600 / document["tokens_per_s"]
    assert document["price_usd_per_million_tokens"] == pytest.approx(rent_per_token * 1e6)
    sizes = [island["size"] for key in ("islands", "idle_islands") for island in document[key]]
    assert sum(sizes) <= 64
    for island in document["islands"]:
        assert island["tp"] * island["dp"] * island["pp"] * island["replicas"] == island["size"]
        served = [r["rate_rps"] for r in document["routing"] if r["island"] == island["id"]]
        assert island["rate_rps"] == pytest.approx(sum(served))
    best = document["search"]["trials"][document["search"]["best_trial"]]
    assert best["throughput_rps"] == pytest.approx(document["throughput_rps"])
    assert document["search"]["best_by_iteration_rps"][-1] == best["throughput_rps"]


def test_one_line_an_island_a_route_a_trial(plan: Plan) -> None:
    lines = encode_plan(plan).decode().splitlines()
    assert sum('"tp":' in line for line in lines) == sum(island.phase is not None for island in plan.islands)
    assert sum('"assigned_rps":' in line for line in lines) == len(plan.routing)
    assert sum('"generator":' in line for line in lines) == len(plan.search.trials)


def _objects(schema: Document, value: object, where: str) -> Iterator[tuple[str, Document, Document]]:
    """Every object of the document with the schema that stands for it."""
    if isinstance(value, dict) and "properties" in schema:
        yield where, schema, value
        for key, below in schema["properties"].items():
            yield from _objects(below, value.get(key), f"{where}.{key}")
    if isinstance(value, list) and "properties" in schema.get("items", {}):
        yield from _objects(schema["items"], value[0] if value else None, f"{where}[0]")


@pytest.fixture(scope="session")
def eventful(plan: Plan, pooled: Plan) -> Plan:
    """The plan with all that can befall a search, on nodes, and with the pools of another."""
    trial, *trials = plan.search.trials
    trial = replace(trial, failed=True, goals=(("rate", 3.5), ("price", 0.1 + 0.2)), replayed_rps=1 / 3)
    told = replace(plan.search.rounds[0], hypervolume=1 / 3, note="drawn by chance")
    record = replace(
        plan.search, trials=(trial, *trials), rounds=(told,), interrupted=True, frontier=(plan.search.best_trial, 0)
    )
    first, *others = plan.islands
    islands = (
        replace(first, tokens_per_step=8192, overlapped=True, cached_share=0.25, context=9000, drafted=2),
        *others,
    )
    pools = tuple(
        replace(pool, context=9000, per_node=2, server=replace(pool.server, drafted=2)) for pool in pooled.buckets.pools
    )
    drafts = PoolDrafts(island=pools[0].island, tokens=2, tokens_per_pass=2.2, gain=1 / 3, carried_over=True)
    buckets = replace(
        pooled.buckets,
        replayed=_replayed(),
        pools=pools,
        drafts=(drafts,),
        least_work_rps=7.0,
        odds=_odds(),
        tiers=_tiers(),
    )
    placed = placed_by_hand(unverified(replace(plan, search=record, buckets=buckets, islands=islands)))
    assert placed.placement is not None
    part, *parts = placed.placement.parts
    vague = (replace(part, gpus_assumed=True), *parts)
    return unverified(replace(placed, placement=replace(placed.placement, parts=vague)))


def _tiers() -> TierOutlook:
    hits = (TierHits(island="one", tier="host", share=0.5, gb_per_s_per_gpu=1.0),)
    return TierOutlook(hits=hits, sizes=(TierSize(host_gb_per_node=0.0, value=None, why="nothing serves"),))


def _odds() -> PromiseOdds:
    return PromiseOdds(odds=1 / 3, sure=(SureRate(sure=0.8, rate_rps=1.5), SureRate(sure=0.5, rate_rps=2.5)))


def _replayed() -> ReplayedChoice:
    rates = ReplayedRates(analytic_rps=2.0, search_rps=1.5, fresh_rps=1 / 3)
    return ReplayedChoice(
        arrivals="poisson",
        requests=5000,
        fresh_requests=10000,
        search_seeds=(0, 1),
        fresh_seeds=(100, 101),
        replayed=3,
        solved=rates,
        candidate=replace(rates, search_rps=1.6),
        chosen=True,
    )


def test_the_published_schema_is_the_one_that_plans_are_held_against() -> None:
    published = resources.files("planner.files").joinpath("plan_schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "write plan_schemas.schema_text() to planner/files/plan_schema.json"


def test_the_schema_is_a_schema_and_its_keys_are_all_there(eventful: Plan) -> None:
    schema = dict(plan_schema())
    document = json.loads(encode_plan(eventful))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    found = list(_objects(schema, document, "plan"))
    assert {where for where, _, _ in found} >= {"plan", "plan.islands[0]", "plan.routing[0]", "plan.search.trials[0]"}
    for where, part, value in found:
        optional = {key for key, below in part["properties"].items() if "default" in below}
        assert set(value) == set(part["properties"]), where
        assert set(part["properties"]) == set(part["required"]) | optional, where
        assert part["additionalProperties"] is False, where


def test_tables_hold_the_rows_of_the_plan(plan: Plan, run_files: dict[str, bytes]) -> None:
    tables = {name: content.decode() for name, content in run_files.items() if name.endswith(".csv")}
    rows = {name: list(csv.DictReader(io.StringIO(text))) for name, text in tables.items()}
    assert [row["id"] for row in rows["islands.csv"]] == [island.id for island in plan.islands]
    assert [float(row["share"]) for row in rows["routing.csv"]] == [route.share for route in plan.routing]
    assert [float(row["throughput_rps"]) for row in rows["trials.csv"]] == [
        trial.throughput_rps for trial in plan.search.trials
    ]
    assert len(islands_frame(plan)) == len(plan.islands)


Change = Callable[[Document], object]


def _set(*path: str | int, to: object) -> Change:
    def change(document: Document) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _drop(*path: str | int) -> Change:
    def change(document: Document) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def _repeat(key: str, index: int) -> Change:
    return lambda document: document[key].insert(index, document[key][index])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop("routing"), ("routing", "required")),
        (_drop("islands", 0, "gpu"), ("islands.0", "'gpu'", "required")),
        (_drop("assignment", "optimal"), ("assignment", "'optimal'")),
        (_drop("scenario", "inventory"), ("scenario: inventory", "missing")),
        (_set("throughput_rps", to="fast"), ("throughput_rps", "'fast'", "number")),
        (_set("throughput_rps", to=True), ("throughput_rps", "number")),
        (_set("throughput_rps", to=-1), ("throughput_rps", "minimum")),
        (_set("routing", 1, "share", to=1.5), ("routing.1.share", "1.5", "maximum")),
        (_set("routing", 0, "phase", to="both"), ("routing.0.phase", "'both'")),
        (_set("islands", to={}), ("islands", "array")),
        (_set("islands", to=[]), ("islands",)),
        (_set("search", "trials", to=[]), ("search.trials",)),
        (_set("search", "trials", 0, "layout", 0, 1, to=0), ("search.trials.0.layout.0.1",)),
        (_set("islands", 0, "tp", to=None), ("islands.0.tp", "integer")),
        (_set("islands", 0, "pp", to=0), ("islands.0.pp", "minimum")),
        (_set("islands", 0, "pp", to=2), ("islands.0", "tp, dp, pp and replicas must multiply to size")),
        (_set("schema_version", to=3), ("schema_version", "must be 2", "3")),
        (_set("schema_version", to="2"), ("schema_version", "must be 2", "'2'")),
        (_drop("digests"), ("'digests'", "required")),
        (_drop("bound_rps"), ("'bound_rps'", "dependency of 'objective'")),
        (_drop("schema_version"), ("schema_version", "None")),
        (_set("colour", to="red"), ("'colour'", "unexpected")),
        (_set("islands", 0, "color", to="red"), ("islands.0", "'color'", "unexpected")),
        (_set("scenario", "serach", to={}), ("scenario: serach", "not a known key")),
        (_set("scenario", "search", "seed", to=-1), ("scenario: search.seed", "-1")),
        (_set("scenario", "inventory", to={"H100X": 4}), ("scenario: inventory.H100X",)),
        (_set("scenario", to=[]), ("scenario", "object")),
        (_set("islands", 0, "size", to=31), ("islands.0", "multiply", "31")),
        (_set("islands", 0, "gpu", to="A100"), ("islands.0.gpu", "'A100'", "inventory")),
        (_repeat("islands", 0), ("islands.1.id", "unique")),
        (_repeat("idle_islands", 0), ("idle_islands.1.id", "unique")),
        (_set("routing", 0, "island", to="nobody"), ("routing.0.island", "'nobody'")),
        (_set("search", "best_trial", to=99), ("search.best_trial", "99")),
        (_set("search", "frontier", to=[0, 99]), ("search.frontier.1", "99")),
        (_set("search", "rounds", 0, "note", to=3), ("search.rounds.0.note", "string")),
    ],
)
def test_what_breaks_the_schema_is_named(
    document: Document, tmp_path: Path, change: Change, words: tuple[str, ...]
) -> None:
    change(document)
    with pytest.raises(InputError) as caught:
        _load(tmp_path, resealed(document))
    assert str(tmp_path / "plan.json") in caught.value.message
    assert [word for word in words if word not in caught.value.message] == [], caught.value.message
    assert caught.value.hint
    assert len(str(caught.value)) < 600
    assert "\n" not in caught.value.message


def test_the_unchanged_document_is_read(document: Document, plan: Plan, tmp_path: Path) -> None:
    assert _load(tmp_path, document) == plan


def test_plans_of_before_pipeline_stages_are_read(document: Document, plan: Plan, tmp_path: Path) -> None:
    assert all(island.pop("pp") == 1 for island in document["islands"])
    assert _load(tmp_path, of_before_digests(document)) == unverified(plan)


def test_pipeline_stages_are_kept(plan: Plan, tmp_path: Path) -> None:
    """An island whose replicas are taken for stages: what is read is what was written."""
    first = next(island for island in plan.islands if island.parallel and island.parallel.dp > 1)
    staged = replace(first, parallel=replace(first.parallel, dp=1, pp=first.parallel.dp))
    changed = replace(plan, islands=tuple(staged if island is first else island for island in plan.islands))
    (tmp_path / "plan.json").write_bytes(encode_plan(changed))
    assert load_run(tmp_path) == changed


def test_all_that_befell_a_search_is_kept(eventful: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(eventful))
    assert load_run(tmp_path) == eventful
    assert encode_plan(load_run(tmp_path)) == encode_plan(eventful)


def test_an_uneventful_search_has_no_keys_for_events(document: Document) -> None:
    assert set(document["search"]) == {"best_trial", "best_by_iteration_rps", "rounds", "trials"}
    assert {"failed", "goals"} & set(document["search"]["trials"][0]) == set()
    assert {"hypervolume", "note"} & set(document["search"]["rounds"][0]) == set()


def test_plans_of_before_rounds_are_read(document: Document, plan: Plan, tmp_path: Path) -> None:
    del document["search"]["rounds"]
    assert _load(tmp_path, of_before_digests(document)) == unverified(
        replace(plan, search=replace(plan.search, rounds=()))
    )


def test_untold_times_are_not_there(plan: Plan, tmp_path: Path) -> None:
    rounds = tuple(replace(one, generation_cpu_s=None, evaluation_cpu_s=None) for one in plan.search.rounds)
    untimed = replace(plan, search=replace(plan.search, rounds=rounds))
    (tmp_path / "plan.json").write_bytes(encode_plan(untimed))
    assert b"cpu_s" not in encode_plan(untimed)
    assert load_run(tmp_path) == untimed


def test_a_plan_that_refers_to_a_trace_is_refused(document: Document, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("time,input_tokens,output_tokens\n0,5,5\n")
    document["scenario"]["workload"] = "own.csv"
    with pytest.raises(InputError, match="own: a plan must hold its workload in full"):
        _load(tmp_path, resealed(document))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "must be JSON"),
        (b"{", "must be JSON"),
        (b"\xff\xfe\x00", "must be JSON"),
        (b"name: small\n", "must be JSON"),
        (b"[]", "schema_version"),
        (b"null", "schema_version"),
        (b'{"schema_version": 1}', "required"),
        (b'{"schema_version": 1, "throughput_rps": NaN}', "NaN is no number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"schema_version": 1, "name": "\\ud800"}', "surrogates not allowed"),
    ],
)
def test_what_is_no_plan_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_run(tmp_path)
    assert caught.value.message.startswith(f"{path}: ")
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["missing", "empty", "x" * 300, "a\0b"])
def test_what_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="cannot be read") as caught:
        load_run(tmp_path / name)
    assert "planner plan" in caught.value.hint


def test_equal_plans_give_equal_bytes(plan: Plan) -> None:
    assert json.loads(encode_plan(plan)) == json.loads(json.dumps(plan_document(plan)))
    assert encode_plan(plan) == encode_plan(plan)
