"""Autoscalers: schemas and queries that others accept, copies that hold the levels, order by rent, what is refused."""

import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from crd_schema import upstream_crds
from export_plans import example_plan
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import BucketPlan, NodeLoss, Phase, Plan
from planner.domain.scaling import ScalingRule, floors_of_hours, scaled_pools, scaling_rules
from planner.domain.serving.routing import SurvivalSettings
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, read_manifests, render
from planner.export.objects.operating.autoscaling import FILE, WANTED
from planner.files import load_engine

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan

FORMS = ("hpa", "keda")
KUBERNETES = kubernetes_validate.latest_version()
HOURS = (("h06", 30.0), ("h18", 12.0), ("h22", 5.0))
TOLERANCE = 0.1  # --horizontal-pod-autoscaler-tolerance


def bucket_plan() -> Plan:
    return small_plan("one node type, no levels")


def scaling(form: str, **more: Any) -> ExportOptions:
    return ExportOptions(autoscaling=form, monitoring=True, **more)


def with_demand(plan: Plan, demand: float, nodes: int = 1, share: float = 0.0, more_gpus: int = 0) -> Plan:
    """The plan under another demand, with what must survive, and more GPUs of each type than it uses."""
    scenario = plan.scenario
    items = tuple(replace(item, count=item.count + more_gpus) for item in scenario.inventory.items)
    return replace(
        plan,
        scenario=replace(
            scenario,
            objective=replace(scenario.objective, demand_rps=demand),
            survive=SurvivalSettings(nodes=nodes, share=share),
            inventory=replace(scenario.inventory, items=items),
        ),
    )


def with_variants(plan: Plan) -> Plan:
    """With the prefill pool twice: the second of servers that do half as much for the same rent."""
    pool = next(row for row in plan.outlook.pools if row.phase is Phase.PREFILL)
    island = next(row for row in plan.islands if row.id == pool.island)
    slow = replace(pool, island="slow", capacity_rps=pool.capacity_rps / 2, share=0.2)
    others = replace(island, id="slow", rate_rps=0.2 * island.rate_rps)
    routes = tuple(
        part
        for route in plan.routing
        for part in (
            (replace(route, share=0.8), replace(route, share=0.2, island="slow"))
            if route.island == pool.island
            else (route,)
        )
    )
    assert plan.buckets is not None
    return replace(
        plan,
        islands=(
            others,
            *(replace(row, rate_rps=0.8 * row.rate_rps) if row is island else row for row in plan.islands),
        ),
        routing=routes,
        buckets=replace(plan.buckets, pools=(slow, *plan.buckets.pools)),
    )


def objects(files: dict[str, str], kind: str = "") -> list[dict[str, Any]]:
    return [body for body in load_documents(files[FILE]) if not kind or body["kind"] == kind]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["lws", "kubernetes"])
def test_every_island_has_one_that_the_upstream_schemas_take(target: str, form: str) -> None:
    plan = with_demand(bucket_plan(), 10.0, more_gpus=20) if target == "kubernetes" else example_plan()
    options = scaling(form, hours_rps=HOURS if form == "keda" else (), spare_rps=3.0)
    files = render(plan, target=target, options=options, router="none")
    kind = "HorizontalPodAutoscaler" if form == "hpa" else "ScaledObject"
    scalers = objects(files, kind)
    workloads = [
        body
        for name, text in files.items()
        if name != FILE
        for body in load_documents(text)
        if body["kind"] in ("Deployment", "LeaderWorkerSet")
    ]
    assert len(scalers) == len(workloads) > 1
    for scaler, workload in zip(scalers, workloads, strict=True):
        spec = scaler["spec"]
        assert spec["scaleTargetRef"] == {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
        }
        low, high = ("minReplicas", "maxReplicas") if form == "hpa" else ("minReplicaCount", "maxReplicaCount")
        assert (form == "hpa") <= spec[low] <= workload["spec"]["replicas"] <= spec[high]
        # a copy that goes is not wanted for as long as one takes to come back
        starts = int(workload["metadata"]["annotations"]["planner/load-seconds"])
        settles = yaml.safe_dump(spec).partition("scaleDown")[2].partition("stabilizationWindowSeconds: ")[2]
        assert int(settles.split()[0]) >= starts
        if form == "hpa":
            kubernetes_validate.validate(scaler, KUBERNETES, strict=True)
    assert read_manifests({FILE: files[FILE]}, upstream_crds("keda*")).faults == ()
    assert find_faults(files, plan) == ()
    assert find_faults(files) == ()


def test_the_upstream_schema_refuses_what_is_none() -> None:
    text = render(bucket_plan(), target="kubernetes", options=scaling("keda"), router="none")[FILE]
    wrong = text.replace("pollingInterval: 15", "pollingInterval: often")
    assert "pollingInterval" in str(read_manifests({FILE: wrong}, upstream_crds("keda*")).faults)


def test_none_is_the_default() -> None:
    assert FILE not in render(example_plan(), target="lws")


@pytest.mark.parametrize("target", ["disaggregatedset", "llm-d", "kserve", "dynamo", "kueue", "script"])
def test_targets_that_cannot_scale_islands_refuse_by_name(target: str) -> None:
    with pytest.raises(ExportError, match=r"nothing in its files can carry .*autoscaling"):
        render(bucket_plan(), target=target, options=scaling("hpa"))


def served_rps(plan: Plan, copies: dict[str, int]) -> float:
    """By brute force: what so many copies serve of the whole mix within the levels, each half by its pools."""
    halves: dict[tuple[Phase, int, int], tuple[float, float]] = {}
    for pool in plan.outlook.pools:
        key = (pool.phase, pool.start, pool.end)
        part = next(i for i in plan.islands if i.id == pool.island).rate_rps / plan.throughput_rps
        rate, parts = halves.get(key, (0.0, 0.0))
        halves[key] = (rate + copies[pool.island] * pool.capacity_rps, parts + part)
    return min(rate / part for rate, part in halves.values())


def wanted(value: float, target: float, copies: int) -> int:
    """As pkg/controller/podautoscaler of Kubernetes: GetExternalPerPodMetricReplicas."""
    usage = value / (target * copies)
    return copies if abs(1.0 - usage) <= TOLERANCE else math.ceil(value / target - 1e-9)


def at_rest(plan: Plan, rules: tuple[ScalingRule, ...], rate: float, copies: dict[str, int]) -> dict[str, int]:
    """Where the controller stays at a rate of the mix, from some copies on."""
    first = {row.id: row.rate_rps / plan.throughput_rps for row in plan.islands if row.phase is not Phase.DECODE}
    loads = [rate * sum(first.get(island, 0.0) for island in rule.pool.chain) - rule.before for rule in rules]
    for _ in range(5):
        copies = {
            rule.pool.island: min(
                rule.ceiling,
                max(rule.floor, wanted(max(0.0, load), rule.per_copy, max(1, copies[rule.pool.island]))),
            )
            for rule, load in zip(rules, loads, strict=True)
        }
    return copies


def with_ranges(plan: Plan, *phases: Phase) -> Plan:
    """With short prompts and long ones at servers of their own in these phases, six to four."""
    pools, islands, routes = list(plan.outlook.pools), list(plan.islands), list(plan.routing)
    for phase in phases:
        pool = next(row for row in pools if row.phase is phase)
        island, cut = next(row for row in islands if row.id == pool.island), (pool.start + pool.end) // 2
        longer = f"long-{phase.value}"
        pools.remove(pool)
        pools += [replace(pool, end=cut), replace(pool, island=longer, start=cut, capacity_rps=0.7 * pool.capacity_rps)]
        islands.remove(island)
        islands += [replace(island, rate_rps=0.6 * island.rate_rps)]
        islands += [replace(island, id=longer, rate_rps=0.4 * island.rate_rps)]
        for route in [route for route in routes if route.island == pool.island]:
            routes.remove(route)
            routes += [replace(route, range_end=cut), replace(route, range_start=cut, island=longer)]
    assert plan.buckets is not None
    buckets = replace(plan.buckets, pools=tuple(pools))
    return replace(plan, islands=tuple(islands), routing=tuple(routes), buckets=buckets)


SHAPES: dict[str, Callable[[Plan], Plan]] = {
    "alike": lambda plan: plan,
    "variants": with_variants,
    "ranges of prefill": lambda plan: with_ranges(plan, Phase.PREFILL),
    "ranges": lambda plan: with_ranges(plan, Phase.PREFILL, Phase.DECODE),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(rate=st.floats(1, 150), margin=st.sampled_from([0.5, 0.9, 1.0]))
def test_where_the_controller_rests_the_levels_hold(shape: str, rate: float, margin: float) -> None:
    """From whatever copies it comes, the tolerance included, up to the ceilings."""
    plan = with_demand(SHAPES[shape](bucket_plan()), 1.0, more_gpus=64)
    assert plan.buckets is not None
    plan = replace(plan, buckets=replace(plan.buckets, promise_rps=margin * plan.throughput_rps))
    rules = scaling_rules(plan)
    ceilings = {rule.pool.island: rule.ceiling for rule in rules}
    for begun in range(1, max(ceilings.values()) + 1):
        copies = at_rest(plan, rules, rate, {name: min(begun, ceiling) for name, ceiling in ceilings.items()})
        assert served_rps(plan, copies) >= min(rate, served_rps(plan, ceilings)) * (1 - 1e-6)
        # and no more than the tolerance and a copy too many
        for pool in plan.outlook.pools if shape != "variants" else ():
            part = next(row for row in plan.islands if row.id == pool.island).rate_rps / plan.throughput_rps
            filled = pool.capacity_rps * min(margin, 1 / (1 + TOLERANCE)) * (1 - TOLERANCE)
            assert copies[pool.island] <= 2 or (copies[pool.island] - 1) * filled <= rate * part


def test_the_cheaper_variant_grows_first_and_shrinks_last() -> None:
    """To where all pools of its GPU type would have taken their part of the spare ones; then the dearer one, too."""
    plan = with_demand(with_variants(bucket_plan()), 1.0, more_gpus=64)
    rules = {rule.pool.island: rule for rule in scaling_rules(plan)}
    (cheap,) = rules["slow"].pool.group[1:]
    sizes = {island.id: island.size for island in plan.islands}
    count = plan.scenario.inventory.items[0].count
    fitting = count * sizes[cheap] // sum(sizes.values()) // rules[cheap].pool.gpus
    rows = [at_rest(plan, tuple(rules.values()), rate, dict.fromkeys(rules, 1)) for rate in range(1, 200, 5)]
    assert {row["slow"] > 0 for row in rows} == {True, False}
    assert all(row["slow"] <= rules["slow"].floor or row[cheap] >= fitting > rules[cheap].pool.planned for row in rows)
    assert all(a[cheap] <= b[cheap] and a["slow"] <= b["slow"] for a, b in pairwise(rows))
    assert scaling_rules(plan, to_none=False)[0].floor == 1


@given(demand=st.floats(1, 65), share=st.sampled_from([0.0, 0.5, 0.9]), servers=st.integers(1, 2))
def test_the_least_copies_serve_what_is_asked_and_survive(demand: float, share: float, servers: int) -> None:
    plan = with_demand(bucket_plan(), demand, share=share)
    buckets = plan.buckets
    assert isinstance(buckets, BucketPlan)
    losses = tuple(
        NodeLoss(island=p.island, nodes=1, servers=min(servers, p.count), rate_rps=0.0) for p in buckets.pools
    )
    plan = replace(plan, buckets=replace(buckets, losses=losses))
    rules = scaling_rules(plan)
    least, planned = ({r.pool.island: n for r, n in zip(rules, counts, strict=True)} for counts in (
        [rule.floor for rule in rules], [rule.pool.planned for rule in rules]))  # fmt: skip
    assert served_rps(plan, least) >= min(demand, served_rps(plan, planned)) * (1 - 1e-6)
    lost = {loss.island: loss.servers for loss in losses}
    for island in least:
        left, most_left = (
            {name: max(0, count - (lost[name] if name == island else 0)) for name, count in copies.items()}
            for copies in (least, planned)
        )
        assert served_rps(plan, left) >= min(share * demand, served_rps(plan, most_left)) * (1 - 1e-6)
    # no fewer would do within the promise, copy by copy, where nothing must survive
    for island, count in least.items():
        if not share and count > 1:
            assert served_rps(plan, {**planned, island: count - 1}) * plan.outlook.promise_rps < (
                demand * plan.throughput_rps * (1 + 1e-6)
            )


@pytest.mark.parametrize(("more", "pinned"), list(product([0, 7, 8, 20], [False, True])))
def test_the_most_copies_have_gpus(more: int, pinned: bool) -> None:
    plan = with_demand(bucket_plan(), 10.0, more_gpus=more)
    used = sum(island.size for island in plan.islands if island.phase is not None)
    for pool in scaled_pools(plan, pinned=pinned):
        others, count = used - pool.planned * pool.gpus, plan.scenario.inventory.items[0].count
        assert others + pool.ceiling * pool.gpus <= count
        assert pool.ceiling == pool.planned if pinned else others + (pool.ceiling + 1) * pool.gpus > count


def test_spare_gpus_that_several_islands_could_take_are_told() -> None:
    text = render(with_demand(bucket_plan(), 10.0, more_gpus=20), target="kubernetes", options=scaling("hpa"))[FILE]
    assert "20 spare H200 are in the bounds of several islands: not all fit at once." in text


@given(st.lists(st.integers(0, 3), min_size=24, max_size=24))
def test_stretches_of_hours_are_the_hours(hours: list[int]) -> None:
    """Read back as KEDA reads them: within [start, end), over midnight, too."""
    seen = [hours[0]] * 24 if len(set(hours)) == 1 else [-1] * 24
    for first, after, copies in floors_of_hours(hours):
        hour = first
        while True:
            assert seen[hour] == -1
            seen[hour] = copies
            hour = (hour + 1) % 24
            if hour == after:
                break
    assert seen == hours


def test_hours_are_floors_that_begin_a_cold_start_early() -> None:
    plan = with_demand(bucket_plan(), 1.0)
    files = render(
        plan, target="kubernetes", router="none", options=scaling("keda", hours_rps=HOURS, time_zone="Asia/Tokyo")
    )
    rules = {
        rule.pool.island: rule for rule in scaling_rules(plan, hours=[5.0] * 6 + [30.0] * 12 + [12.0] * 4 + [5.0] * 2)
    }
    prefill = next(rule for rule in rules.values() if rule.pool.phase is Phase.PREFILL)
    scaler = next(body for body in objects(files) if body["metadata"]["labels"]["planner/phase"] == "prefill")
    crons = [row["metadata"] for row in scaler["spec"]["triggers"] if row["type"] == "cron"]
    assert scaler["spec"]["minReplicaCount"] == prefill.floor == min(prefill.hours)
    assert [int(cron["desiredReplicas"]) for cron in crons] == [prefill.hours[6]]
    (cron,) = crons
    starts = next(b for t in files.values() for b in load_documents(t) if b["kind"] == "Deployment")
    early = math.ceil((int(starts["metadata"]["annotations"]["planner/load-seconds"]) + 30) / 60)
    minute, hour = map(int, cron["start"].split()[:2])
    assert abs(60 * hour + minute - (360 - early)) <= 1
    assert (cron["end"], cron["timezone"]) == ("0 18 * * *", "Asia/Tokyo")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_prefill_and_decode_follow_the_same_load_in_the_plans_ratio(engine: str) -> None:
    plan = bucket_plan()
    plan = with_demand(replace(plan, scenario=replace(plan.scenario, engine=load_engine(engine))), 1.0)
    files = render(plan, target="kubernetes", engine=engine, options=scaling("keda"), router="none")
    triggers = [body["spec"]["triggers"][0]["metadata"] for body in objects(files)]
    (query,) = {row["query"] for row in triggers}
    assert f"{engine}:" in query
    capacities = [pool.capacity_rps for pool in plan.outlook.pools]
    thresholds = [float(row["threshold"]) for row in triggers]
    assert thresholds == pytest.approx([rate / capacities[0] * thresholds[0] for rate in capacities], rel=1e-4)
    assert all(row["ignoreNullValues"] == "false" for row in triggers)


def rules_file(plan: Plan, form: str) -> str:
    """The queries of an export as recording rules."""
    files = render(plan, target="kubernetes", options=scaling(form), router="none")
    if form == "hpa":
        (rule,) = objects(files, "PrometheusRule")
        return yaml.safe_dump(rule["spec"])
    rows = [
        {"record": f"island_{n}", "expr": body["spec"]["triggers"][0]["metadata"]["query"]}
        for n, body in enumerate(objects(files))
    ]
    return yaml.safe_dump({"groups": [{"name": "triggers", "rules": rows}]})


def promtool(folder: Path, *words: str) -> None:
    ran = subprocess.run(["promtool", *words], cwd=folder, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("form", FORMS)
def test_prometheus_reads_arrivals_off_a_queue_that_grows(tmp_path: Path, form: str) -> None:
    """Three requests a second end and two more wait each second: five come. A restarted pod changes nothing."""
    plan = with_demand(bucket_plan(), 1.0, more_gpus=8)
    text = rules_file(plan, form)
    (tmp_path / "rules.yml").write_text(text)
    promtool(tmp_path, "check", "rules", "rules.yml")
    rule = next(rule for rule in scaling_rules(plan) if rule.pool.phase is Phase.PREFILL)
    labels = re.search(r'(app_kubernetes_io_part_of="[^"]+"),planner_island=~"([^"|]+)"', text)
    starts = re.search(r"/ (\d+)[, ]", text)
    assert labels is not None
    assert starts is not None
    pod = f'{labels[1]},planner_island="{labels[2]}",pod="a"'
    waits = 60 * 2  # after a minute
    load = 5 + waits / int(starts[1])
    exprs = {"keda": ("island_0", load), "hpa": (f'{WANTED}{{planner_island="{labels[2]}"}}', load / rule.per_copy)}
    expr, value = exprs[form]
    series = [
        {"series": f"vllm:request_success_total{{{pod}}}", "values": "0+45x20"},
        {"series": f"vllm:num_requests_running{{{pod}}}", "values": "8+0x20"},
        {"series": f"vllm:num_requests_waiting{{{pod}}}", "values": "0+30x20"},
    ]
    test = {"expr": f"round({expr}, 0.0001)", "eval_time": "60s"}
    case = {
        "interval": "15s",
        "input_series": series,
        "promql_expr_test": [
            {**test, "exp_samples": [{"labels": _labels(form, labels[1], labels[2]), "value": round(value, 4)}]}
        ],
    }
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [case]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    promtool(tmp_path, "test", "rules", "test.yml")


def _labels(form: str, part_of: str, island: str) -> str:
    return "{}" if form == "keda" else f'{{{part_of},planner_island="{island}"}}'


def test_the_endpoint_picker_counts_what_comes_where_there_is_one_range() -> None:
    plan = with_demand(small_plan("aggregated"), 1.0)
    options = scaling("keda", load_source="router")
    text = render(plan, target="kubernetes", options=options, router="llm-d")[FILE]
    assert "sum(rate(llm_d_epp_request_total{model_name=~" in text
    assert "request_success_total" not in text


@pytest.mark.parametrize("router", ["none", "haproxy", "vllm", "aibrix"])
def test_routers_that_count_no_requests_are_refused_with_what_to_choose(router: str) -> None:
    options = scaling("keda", load_source="router")
    with pytest.raises(ExportError, match="exports no such metric") as raised:
        render(bucket_plan(), target="lws", options=options, router=router)
    assert "Leave deploy.load_source out" in raised.value.hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (scaling("vpa"), "must be one of none, hpa, keda"),
        (scaling("keda", prometheus="prometheus:9090"), "must be an address"),
        (scaling("keda", prometheus='http://a"b'), "must be an address"),
        (scaling("keda", prometheus="http://user:secret@host"), "must be an address"),
        (ExportOptions(autoscaling="keda"), "follows metrics that deploy.monitoring has scraped"),
        (ExportOptions(spare_rps=1.0), "spare_rps: goes with autoscalers"),
        (scaling("keda", load_source="dreams"), "must be one of engine, router"),
        (scaling("hpa", hours_rps=HOURS), "must be followed by a clock"),
        (scaling("keda", hours_rps=(("noon", 1.0),)), "must be of h00 to h23"),
        (scaling("keda", time_zone="Europe/Ber lin"), "must be a name of the IANA time zones"),
    ],
)
def test_options_that_are_none(options: ExportOptions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        render(example_plan(), target="lws", options=options)
