"""What holds each sentence with a figure in README, guides and notebooks, by words of the sentence.

DERIVED: the words with `{}` for the figures, and the code, data or other text that they follow from, which is asked
anew. HELD: the test that holds them. STATED: not claims about the planner: what is asked in the example at hand
("asked"), what something is called, or says of itself elsewhere ("source"), or what a word means ("meaning"). ONCE:
measured by hand, where, and no test would notice.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from inspect import signature

from documentation import ROOT, TEXTS

from planner.cost.factors import BUILT_IN
from planner.cost.memory import RESERVE_GB
from planner.cost.residuals.band_draws import DRAWS
from planner.cost.residuals.band_table import TOLD
from planner.domain import BLOCK_TOKENS, ENGINE_MEMORY_SHARE, CostSettings, Relation
from planner.domain.changes import LEAST_SHARE, ChangeLimits
from planner.domain.serving.doubt import WORST
from planner.domain.serving.routing import SIMPLICITY, SPLIT_BIAS, WORTH_A_BUCKET, RoutingSettings
from planner.domain.watching import WatchSettings
from planner.export.batch_objects import USER
from planner.export.objects.operating.draining import LEAVING_S
from planner.export.routers.pairings import MOST_BY_SPEED
from planner.export.routers.speeds import EQUAL_WITHIN
from planner.files.disk.opening import MIB, MOST_OF_A_DOCUMENT, MOST_OF_A_LIST
from planner.files.tables.traces.clocks import LEAST_RPS, MOST_RPS
from planner.files.tables.traces.streams import ROWS_HELD
from planner.placement.power_model import DEFAULT_CPU
from planner.proposing.buckets.robust import DRAWS as ROBUST_DRAWS
from planner.proposing.explaining.replanning import CLOSE as PRICE_CLOSE
from planner.proposing.explaining.replanning import FAR
from planner.proposing.serving_forms import CLOSE as CHANGE_CLOSE
from planner.replanning.days.replaying import WindowReplay
from planner.replanning.rollouts.interim import QUICK
from planner.replanning.schedules.pricing import MOST_PRICED
from planner.replanning.watches.inputs import MOST_LOAD_FACTOR
from planner.report.buckets.headline import SURE_ENOUGH
from planner.report.plan.certificate import CLOSE as TABLE_GAP_CLOSE
from planner.report.plan.certificate import CLOSE_POOLS as GAP_CLOSE
from planner.runs.batches.dask_engine.executor import PATIENCE_S
from planner.runs.live.advice.options import terms_of
from planner.runs.live.api_sessions import PAGE
from planner.runs.live.nodes import GRACE_S
from planner.workload.tallies import WINDOWS_S

Value = Callable[[], object]


def percent(share: float) -> str:
    """As texts write it."""
    return f"{100 * share:.3g} %"


def points() -> int:
    """Published benchmark runs that factors are fitted to."""
    folder = ROOT / "planner/files/measurement_sets"
    files = ("published_points.csv", "serving_points.csv")
    return sum(len((folder / name).read_text(encoding="utf-8").splitlines()) - 1 for name in files)


def least_done_percent() -> float:
    """Of the study of spot capacity, which may not be there; nor is its guide then."""
    from planner.studies.spot.capacity import LEAST_DONE_PERCENT

    return LEAST_DONE_PERCENT


@cache
def production() -> list[tuple[float, float, float, float]]:
    """Of each row of the schedules' table: USD, USD of the standing plan, what is gained (%), above the bound (%)."""
    rows = re.findall(
        r"^\| `planner schedule pool-.*` \| ([\d,]+) \| ([\d,]+) \| \+([\d.]+) % \| ([\d.]+) %",
        TEXTS["schedules"],
        re.MULTILINE,
    )
    return [(float(a.replace(",", "")), float(b.replace(",", "")), float(c), float(d)) for a, b, c, d in rows]


def saved() -> str:
    """Least and most of what the schedules save, and how far from the bound the farthest is."""
    shares = sorted(100 * (1 - usd / standing) for usd, standing, _, _ in production())
    return f"{shares[0]:.0f} to {shares[-1]:.0f} %"


def farthest() -> str:
    """Of the schedules from their bounds."""
    return f"{math.ceil(10 * max(row[3] for row in production())) / 10:.1f} %"


SEQUENCE = WindowReplay()
WATCH = WatchSettings()
PYTHON = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))

DERIVED: dict[str, list[tuple[str, Value]]] = {
    "doubt": [
        ("tells the rate that is {} sure, even odds", lambda: percent(SURE_ENOUGH)),
        ("nor type was measured (correlation {:.2f})", lambda: TOLD[Relation.FORMULAS]),
        ("one of them was not ({:.2f})", lambda: TOLD[Relation.MODEL]),
        ("or the engine ({:.2f})", lambda: TOLD[Relation.ENGINE]),
        ("measured before ({:.2f})", lambda: TOLD[Relation.SAME]),
        ("within {} of each other", lambda: percent(PRICE_CLOSE - 1)),
        ("sought up to {:.0f} times", lambda: FAR),
    ],
    "README": [
        ("the rate (requests/s) that is {} sure", lambda: percent(SURE_ENOUGH)),
        ("as simple as {} of the rate allows", lambda: percent(SIMPLICITY)),
        ("Python {} or later", lambda: PYTHON and PYTHON[1]),
        ("that you name of the rate ({})", lambda: LEAST_SHARE),
        ("at most four changes a day save {} of", saved),
        ("within {} of what no schedule undercuts", farthest),
        ("fitted to {} published step times and benchmark runs", lambda: 10 + points()),
    ],
    "planning": [
        ("Beside it stand the rate that is **{} sure**", lambda: percent(SURE_ENOUGH)),
        ("must raise the rate by {}", lambda: percent(WORTH_A_BUCKET)),
        ("split ones have to win by {}", lambda: percent(SPLIT_BIAS)),
        ("splits where that wins by more than {}", lambda: percent(SPLIT_BIAS)),
        ("Above {} the page says what may close the first", lambda: percent(GAP_CLOSE)),
        ("until the change is known to {}", lambda: percent(CHANGE_CLOSE - 1)),
        ("a gap above {} is told as not shown to be close", lambda: percent(TABLE_GAP_CLOSE)),
        ("the mean of the worst {}; or", lambda: percent(WORST)),
        ("in each of {} draws requests are routed anew", lambda: ROBUST_DRAWS),
    ],
    "comparing": [("up to four times a price, to {}", lambda: percent(PRICE_CLOSE - 1))],
    "dask": [
        ("A scheduler has {:g} seconds to answer", lambda: PATIENCE_S),
        ("Pods run as user {} without capabilities", lambda: USER),
    ],
    "money": [
        ("({}) of its capacity, so the scenario's target is", lambda: RoutingSettings().margin),
        ("what `simplicity` ({}) gave up", lambda: percent(SIMPLICITY)),
    ],
    "replay": [("windows of {0[0]} to {0[7]:g} s", lambda: WINDOWS_S)],
    "replanning": [
        ("of those within {} of a plan from scratch", lambda: percent(ChangeLimits().give_up)),
        ("at least `--least-share` ({}) of what", lambda: LEAST_SHARE),
        ("replayed with {:,} requests drawn from the lengths", lambda: QUICK.requests),
    ],
    "schedules": [
        ("{0.seconds:.0f} seconds of requests at least", lambda: SEQUENCE),
        ("the first {:.0f} not counted", lambda: SEQUENCE.seconds * SEQUENCE.warm_up),
        ("suit: up to {} more", lambda: MOST_PRICED),
    ],
    "traces-and-costs": [
        ("(below {:g} or above", lambda: LEAST_RPS),
        ("above {} requests/s, more than ten years)", lambda: f"{MOST_RPS:,.0f}".replace(",", " ")),
        ("come late by {} rows", lambda: f"{ROWS_HELD:,}".replace(",", " ")),
        ("Scenarios, models and workloads may have {:.0f} MiB", lambda: MOST_OF_A_DOCUMENT / MIB),
        ("clusters, plans and lists from kubectl {:.0f}", lambda: MOST_OF_A_LIST / MIB),
        ("each block of {} tokens", lambda: BLOCK_TOKENS),
        ("between access switches, 1/{:.2f})", lambda: 1 / CostSettings().cross_switch_bandwidth),
        ("band is that of {} draws", lambda: f"{DRAWS:,}".replace(",", " ")),
        ("less {:g} GB for driver", lambda: RESERVE_GB),
        ("keep {} of their steps' pace", lambda: percent(round(BUILT_IN.factor("prefill_pool", "nvidia").value, 2))),
        ("vLLM's is {0}, SGLang's {0} less", lambda: ENGINE_MEMORY_SHARE),
    ],
    "placement": [
        ("and {} W a CPU package at work", lambda: f"{DEFAULT_CPU.full_w:g}"),
        ("FlexTopo objects, {} a page", lambda: PAGE),
    ],
    "advising": [("`--least-servers` ({}) copies", lambda: signature(terms_of).parameters["least_servers"].default)],
    "manifests": [
        ("has to go first sleeps {} s", lambda: LEAVING_S),
        ("of equal speed alone (within {})", lambda: percent(EQUAL_WITHIN)),
        ("tables of more than {} intervals", lambda: MOST_BY_SPEED),
    ],
    "watching": [
        ("not been ready for {:g} seconds", lambda: GRACE_S),
        ("within {} (`--give-up`)", lambda: percent(WATCH.give_up)),
        ("a headroom of {};", lambda: percent(WATCH.headroom)),
        ("the median load of {:.0f} minutes", lambda: WATCH.smooth_s / 60),
        ("is above {} of the promise", lambda: percent(WATCH.raise_at)),
        ("of the promise | {}", lambda: WATCH.most_rises),
        ("for 5 minutes | {}", lambda: WATCH.most_losses),
        ("a cheaper plan saves {} of the rent", lambda: percent(WATCH.least_saving)),
        ("of the last hour | {} (`--changes`)", lambda: WATCH.most_savings),
        ("a load over {:g} times the highest so far", lambda: MOST_LOAD_FACTOR),
    ],
    "studies": [("fewer than {:g} % of the due jobs", least_done_percent)],
    "results": [("ten step times and {} published benchmark runs", points)],
}

T = "tests/readme/test_results.py::"
M = "tests/readme/test_told_figures.py::"
MIXING = "tests/readme/test_mixed_fleets.py::"
READ = "tests/studies/test_told_readings.py::"
FLEET = "tests/readme/test_fleet_guide.py::"
G = "tests/studies/test_told_in_guide.py::"
DRAWN = "tests/export/test_drawn_fleets_behind_routers.py::"
BREAKPOINT = "tests/pipeline/test_breakpoints.py::test_the_guide_tells_a_breakpoint_of_the_readmes_budget"
PAYS = "tests/benchmarks/test_where_search_pays.py::"
HELD: dict[str, dict[str, str]] = {
    "doubt": {
        "| fleet, trace | plan |": M + "test_the_tables_of_sure_fleets_are_those_that_were_measured",
        "rates within a bound on TPOT": "tests/cost/test_sure_rates.py::test_so_it_does_of_all_machines_at_hand",
        "A band of rates that forgets": "tests/cost/test_sure_rates.py::test_so_it_does_of_all_machines_at_hand",
        "the same types serve up to 1.32 USD an hour": BREAKPOINT,
        "at 1.34:": BREAKPOINT,
        "63.75 requests/s": BREAKPOINT,
        "choices between two GPU types": "tests/cost/test_worth_of_runs.py::"
        "test_runs_gained_what_they_were_said_to_be_worth",
        "without model and GPU type it was": "tests/cost/test_worth_of_runs.py::"
        "test_runs_gained_what_they_were_said_to_be_worth",
        "predicted without their model": "tests/cost/test_worth_of_runs.py::"
        "test_runs_gained_what_they_were_said_to_be_worth",
    },
    "manifests": {
        "of a node of eight are": "tests/export/test_cache_tiers.py::test_sglang_counts_whole_gigabytes_of_a_gpu",
        "HiCache's files (from": "tests/export/test_cache_tiers.py::test_files_without_a_bound_are_refused",
        "Disk is an `emptyDir` of": "tests/export/test_cache_tiers.py::"
        "test_vllm_keeps_disks_by_lmcache_in_a_volume_with_a_limit",
        "A thread forwards some": "tests/export/test_haproxy_bytes.py::"
        "test_answers_that_one_thread_cannot_forward_are_warned_of",
        "over 80 % busy, the export warns": "tests/export/test_haproxy_bytes.py::"
        "test_answers_that_one_thread_cannot_forward_are_warned_of",
        "the mixed fleet of the README then promises": DRAWN + "test_the_guides_tell_what_each_router_promises",
        "Where it gives up more than 2 %": "tests/pipeline/test_deployed_routers.py::"
        "test_what_a_router_gives_up_is_told_from_two_percent_on",
    },
    "README": {
        "| fleet, Azure trace |": M + "test_the_tables_of_sure_fleets_are_those_that_were_measured",
        "In its semantics the proven optima are": T + "test_the_readme_repeats_the_guides_figures",
        "But 256 H800 of that price": T + "test_the_readme_repeats_the_guides_figures",
        "over the best uniform fleet, 1.19 on": T + "test_the_readme_repeats_the_guides_figures",
        "The best choice for that rent serves": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "In default mode, which is calibrated, 256 H800": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "levels of 4 s and 60 ms the best choice serves": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "P10–P90 of the ratio 0.87": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "more in 73 % of the draws": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "83 %), the paper's mix": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "0.92–1.84;": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "80 % sure are 240 and 475": MIXING + "test_the_readme_tells_what_mixing_is_worth",
        "all 89 at hand, published from": "tests/files/test_published_models.py::test_every_file_reads_as_published",
        "rates of Qwen3.5-397B are off by 12 %": "tests/cost/test_new_layers.py::test_rates_are_near_the_measured_ones",
        "for what a fit has not seen": T + "test_the_accuracy_table_is_the_commands",
        "pairs of GPU types come out in the right order": T + "test_the_accuracy_table_is_the_commands",
        "a simulation allows prefill pools": "tests/cost/test_prefill_caps.py::"
        "test_the_cap_is_near_the_rate_that_a_simulation_allows",
        "Behind other routers formulas": "tests/replay/test_router_promises.py::"
        "test_formulas_are_as_near_to_replays_as_the_guide_says",
    },
    "planning": {
        "| `search` | rate: table |": PAYS + "test_the_guide_has_the_table_of_the_trials",
        "half of its 95 % interval": PAYS + "test_the_guide_has_the_table_of_the_trials",
        "A search judges 32 layouts": PAYS + "test_searches_judge_equally_many",
        "(19 prefill pools of one to eight servers": "tests/cost/test_prefill_caps.py::"
        "test_the_cap_is_near_the_rate_that_a_simulation_allows",
        "The locks are for CPython": "tests/package/test_locks.py::"
        "test_the_lock_is_what_a_user_needs_in_the_versions_that_are_tested",
        "under 4 MB": "tests/api/test_front.py::test_a_page_is_written_once",
    },
    "money": {
        "has 541.1 requests/s": "tests/runs/test_money_questions.py::"
        "test_512_usd_buy_nearly_what_a_free_choice_serves_and_never_more"
    },
    "replay": {
        "engines that are slower by 15 %": "tests/export/test_proofs.py::"
        "test_engines_that_are_slower_are_found_with_how_much",
        "| capacity of the formula over the replayed one": "tests/replay/test_promises.py::"
        "test_capacities_are_replayed_to_a_tenth",
        "| the router | holds |": "tests/replay/test_router_promises.py::test_the_guide_says_what_was_measured",
        "| over attention ranks | holds |": "tests/replay/test_router_promises.py::"
        "test_the_guide_says_what_clients_and_operations_cost",
        "that of the first fleet promises 304": DRAWN + "test_the_guides_tell_what_each_router_promises",
        "llm-d and Dynamo hold 304": DRAWN + "test_the_guides_tell_what_each_router_promises",
        "lie within 10 % of each": "tests/replay/test_router_promises.py::"
        "test_formulas_are_as_near_to_replays_as_the_guide_says",
    },
    "traces-and-costs": {
        "each as large as a state (600 to": "tests/cost/test_engine_caches.py::"
        "test_caches_are_those_of_the_engines_own_classes",
        "Of 26 machines with at least 25": "tests/cost/test_own_runs.py::test_ten_own_runs_of_every_machine",
        "from 14.0 % to 10.2 %": "tests/cost/test_own_runs.py::test_ten_own_runs_of_every_machine",
        "those published of DeepSeek-V3 and R1": "tests/cost/test_draft_gains.py::test_published_tokens_of_a_pass",
        "tokens a pass of three drafted": "tests/cost/test_draft_gains.py::test_published_tokens_of_a_pass",
        "Of 14 pairs of published runs": "tests/cost/test_draft_gains.py::test_gains_are_those_that_were_measured",
        "up to 7 % too little": "tests/cost/test_device_memory.py::"
        "test_the_name_plate_never_promises_more_than_the_driver_shows",
    },
    "schedules": {
        "The day is that of a production pool": M + "test_the_day_of_the_schedule_is_as_told",
    },
    "fleets": {
        "of all curves 1.14 times": FLEET + "test_the_fleet_is_as_told",
        "gets 53.5 billion tokens": FLEET + "test_the_week_is_as_told",
        "That is 790 of 2,496": FLEET + "test_the_week_is_as_told",
        "change their level 20 times": FLEET + "test_the_week_is_as_told",
        "80 % of the servers run on": FLEET + "test_a_change_is_as_told",
        "come within 1 % of the best": "tests/replanning/test_fleet_changes.py::test_nor_of_drawn_rates",
        "(0.9 if you do not say)": "tests/replanning/test_fleet_changes.py::"
        "test_a_share_that_no_order_leaves_is_refused_with_what_would_do",
    },
    "placement": {
        "of 240 drawn clusters": "tests/placement/test_best_sets.py::"
        "test_drawn_clusters_are_short_only_where_a_phase_would_lose",
        "The hit rate of 100 %": "tests/studies/test_scale_up.py::"
        "test_five_thousand_of_five_thousand_lie_inside_one_socket",
        "of pools even splits": "tests/placement/test_best_sets.py::test_six_and_six_come_before_eight",
        "in 4 rounds of 8 layouts": "tests/studies/test_placed_study.py::test_the_guide_tells_it_as_its_table_has_it",
        "Of what `objective: placed` serves": "tests/studies/test_placed_study.py::"
        "test_the_guide_tells_it_as_its_table_has_it",
        "| cluster | solved for, then placed": "tests/studies/test_placed_study.py::"
        "test_the_guide_tells_it_as_its_table_has_it",
        "plans are better, none is worse": "tests/studies/test_placed_study.py::"
        "test_the_guide_tells_it_as_its_table_has_it",
        "because the interval lies above 1 %": "tests/studies/test_placed_study.py::"
        "test_the_default_is_what_the_results_say",
        "At most 1,000 of each are tried": "tests/pipeline/test_repairs.py::test_as_many_are_tried_as_told",
        "serving at most 1 % less": "tests/pipeline/test_repairs.py::test_as_many_are_tried_as_told",
    },
    "defragmentation": {
        "of 20 made-up clusters": "tests/defragmentation/test_exact_optimum.py::test_twenty_instances_of_25_nodes",
        "with at most 12 nodes in use": "tests/defragmentation/test_exhaustive.py::"
        "test_every_tiny_cluster_ends_as_brute_force_does",
        "nodes with an idle GPU by 2.4 %": G + "test_defragmentation_is_told_as_its_raw_results_have_it",
    },
    "observing": {
        "on GPUs of 0.8 times the speed": "tests/cli/test_observe.py::test_slower_gpus_are_found",
        "does, to 3 %": "tests/cli/test_observe.py::test_planned_again_with_the_calibration_is_planned_for_what_runs",
    },
    "studies": {
        "made-up clusters of 8 to 24 nodes": "tests/studies/test_placed_study.py::"
        "test_the_default_is_what_the_results_say",
        "| pods came to lie": G + "test_table_5_is_told_as_its_runs_have_it",
        "IMP saves 20 to 22 %": G + "test_what_agrees_with_table_4_is_told_as_its_runs_have_it",
        "preemption hits 35.2 %": G + "test_what_agrees_with_table_4_is_told_as_its_runs_have_it",
        "28 on average": "tests/studies/test_shown_inputs.py::test_tokens_of_the_published_traces",
        "how a skew divides 100 GPUs": "tests/studies/test_shown_inputs.py::test_sizes_of_figure_4_8_by_hand",
        "m = 8, nodes of D alone": G + "test_sets_of_victims_are_counted_as_told",
        "of m on a node naive tries": G + "test_sets_of_victims_are_counted_as_told",
        "four C pods a node": G + "test_sets_of_victims_are_counted_as_told",
        "leaves 2.4 % fewer nodes": G + "test_defragmentation_is_told_as_its_raw_results_have_it",
        "20.2 %):": G + "test_defragmentation_is_told_as_its_raw_results_have_it",
        "has lowered their number": G + "test_defragmentation_is_told_as_its_raw_results_have_it",
        "| figure | what | paper": G + "test_power_savings_are_told_as_their_raw_results_have_them",
        "fall short by 0.8 and 1.3 points": G + "test_power_savings_are_told_as_their_raw_results_have_them",
        "0.2 saves more than 7 % until": G + "test_power_savings_are_told_as_their_raw_results_have_them",
        "unrounded (`--semantics exact`)": G + "test_power_savings_are_told_as_their_raw_results_have_them",
        "On gpuspec10 the mixtures save": G + "test_power_savings_are_told_as_their_raw_results_have_them",
        "| six days that count": G + "test_defragmentation_is_told_as_its_raw_results_have_it",
        "| the thesis | `literal` | `published` |": "tests/studies/test_serving_claims.py::"
        "test_the_guide_tells_what_the_raw_results_have",
        "Of the findings 4 are open, 3 come close": "tests/studies/test_serving_claims.py::"
        "test_every_figure_and_finding_has_a_verdict",
        "| spot jobs ask for": G + "test_the_spot_table_is_told_as_its_runs_have_it",
        "| | lent GPU-hours used": G + "test_what_is_used_of_lent_gpus_is_told_as_its_runs_have_it",
        "| read as the thesis's code has it": READ + "test_every_reading_is_in_the_raw_results_and_in_the_guide",
        "solves for the best layout of every cell": READ + "test_every_reading_is_in_the_raw_results_and_in_the_guide",
        "| R_total, published": READ + "test_the_thesis_own_layouts_come_out_as_told",
        "the best layouts of its 30 searches": READ + "test_what_the_guide_says_of_the_searches",
        "below the best layout of their own reading on code": READ + "test_what_the_guide_says_of_the_searches",
    },
    "results": {
        "| 512 USD/hour |": T + "test_the_result_table_is_reached",
        "| fleet | reference, code": T + "test_the_exact_table_is_reached",
        "| layout | conversation, compact": T + "test_the_placed_table_is_reached",
        "| `search` | conversation, seed 1": T + "test_the_table_of_cuts_is_reached",
        "1,907 further serving runs": "tests/files/benchmarks/test_silicon_points.py::test_what_is_in_doubt",
        "1,268 rows more": "tests/files/benchmarks/test_silicon_points.py::test_what_is_in_doubt",
        "| figures | mean error": T + "test_the_accuracy_table_is_the_commands",
        "Random search with the same 240": T + "test_chance_falls_short_of_the_search_as_printed",
        "Over the best uniform fleet of the price": T + "test_the_readme_repeats_the_guides_figures",
        "in default mode 256 H800 serve more": T + "test_the_readme_repeats_the_guides_figures",
        "| fleet | reference, code | conversation |": MIXING + "test_the_table_of_mixes_is_the_raw_one",
        "15 fleets, of which three": MIXING + "test_the_guide_tells_what_was_run",
        "without levels and with P99 levels of 4 s": MIXING + "test_the_guide_tells_what_was_run",
        "all fleets meet the same 128 draws": MIXING + "test_the_guide_tells_what_was_run",
        "Times what the best fleet of one type serves": MIXING + "test_the_table_of_mixes_is_the_raw_one",
        "The rival is 256 H800": MIXING + "test_the_guide_tells_what_mixing_buys",
        "With levels 192 H800 and 128 H20": MIXING + "test_the_guide_tells_what_mixing_buys",
        "on code 240 H800 and 32 H20": MIXING + "test_the_guide_tells_what_mixing_buys",
        "is higher, by 24 and 9 %": MIXING + "test_the_guide_tells_what_mixing_buys",
        "pairs of GPU types at equal work": T + "test_the_accuracy_table_is_the_commands",
        "lie within their bands": T + "test_the_accuracy_table_is_the_commands",
        "worse on paper": M + "test_what_is_told_of_the_placed_tables_stands_in_them",
        "the best three times of four, by": M + "test_what_is_told_of_the_placed_tables_stands_in_them",
        "is ahead of it everywhere, by": M + "test_what_is_told_of_the_placed_tables_stands_in_them",
        "77 idle GPUs of 24 nodes": M + "test_the_fragmented_cluster_is_as_told",
    },
    "07_preemption": {
        "lie in one socket with 1/3": "tests/studies/test_scale_up.py::test_standard_preemption_on_packed_nodes",
        "In every cycle 25 pods": "tests/studies/test_scale_up.py::test_table_3_fills_a_hundred_nodes",
        "Four workloads hold all 800 GPUs": "tests/studies/test_scale_up.py::test_table_3_fills_a_hundred_nodes",
    },
}
ASKED, SOURCE, MEANING = "asked", "source", "meaning"
STATED: dict[str, dict[str, str]] = {
    "README": {
        "plans 64 H200, 64 H800 and 128 H20": ASKED,
        "claims 1.4 times the throughput": SOURCE,
        "ISCA 2024": SOURCE,
        "from Llama 3.1 to": SOURCE,
    },
    "doubt": {
        "holds in 80 % of the draws": ASKED,
        "highest (by the programme": ASKED,
        "in 256 draws that chose nothing": ASKED,
        "levels of 4 s and 60 ms": ASKED,
    },
    "15_how_sure": {"## A promise that is 80 % sure": ASKED},
    "planning": {
        "| `slo:` |": MEANING,
        "| `objective: {kind: pareto": MEANING,
        "1 is an island a part": MEANING,
        "islands of 13 GPUs are possible": MEANING,
    },
    "batches": {"NFS (version 4": SOURCE},
    "comparing": {"of CPU time last (4;": MEANING, "0 where every point is planned": MEANING},
    "dask": {"NFS of version 4": SOURCE, "listens on 127.0.0.1": MEANING},
    "money": {"What does 50 requests/s cost?": ASKED, "## 512 USD an hour:": ASKED},
    "replay": {
        "by an interval of 99 %": MEANING,
        "0 also where the promise breaks": MEANING,
        "Bad input is 2.": MEANING,
        "with 95 % intervals over the seeds": MEANING,
        "| option | |": MEANING,
        "three seeds of 20 000 requests": ASKED,
        "Of four split plans (64 H200": ASKED,
        "64 H20 on conversation)": ASKED,
    },
    "schedules": {"| column | names |": MEANING, "rates below 0": MEANING},
    "traces-and-costs": {
        "from 3.14 on": SOURCE,
        "ISO 8601": SOURCE,
        "count with 0 tokens": MEANING,
        "(16 bytes a request)": MEANING,
        "Benchmark Report 0.2": SOURCE,
        "its 80 % band": MEANING,
        "what is left at 16 bits": MEANING,
        "as in Azure's trace of 2025": SOURCE,
    },
    "placement": {
        "those of TP 1": MEANING,
        "(figures 13 and 14)": SOURCE,
        "power_cap_w` (most watts of": MEANING,
        "a priority below 0": MEANING,
        "at priority 0": MEANING,
        "racks of 18 trays": SOURCE,
    },
    "defragmentation": {"section 4.1": SOURCE},
    "manifests": {
        "| `--target` | what is written": MEANING,
        "| what | how far |": MEANING,
        "(1 unless you measure it": MEANING,
        "0 means that a drain": MEANING,
        "shared expert of 2,048 columns": SOURCE,
        "not over 11, 13 or 17": MEANING,
        "| who | ranks |": MEANING,
        "(10100, 10101 for the first": MEANING,
        "since in 2.6.12": SOURCE,
        "the process of rank 0 is reached": MEANING,
        "for KV caches by itself (5600": SOURCE,
    },
    "observing": {"| figure | told by": MEANING, "vLLM 0.18.0, 0.31.0 and 0.33.0": SOURCE},
    "watching": {"ISO 8601": SOURCE},
    "studies": {
        "On 20 machines all but": ASKED,
        "plain Round Robin with a longest completion of 200 s": SOURCE,
        "Run at the paper's sizes": ASKED,
        "figures 1 to 10 take": SOURCE,
        "adds the paper's figures 8": SOURCE,
        "The paper saves 76.5 %": SOURCE,
        "Where D pods lie scattered": MEANING,
        "Done so, sets saved": ASKED,
        "Table 4 cannot come": SOURCE,
        "with 95 % intervals, against": MEANING,
        "less than the 90 %": SOURCE,
        "mean at 100 %": MEANING,
        "less 0.05 times": MEANING,
        "Spot jobs on 60 nodes": ASKED,
        "half of a 95 % interval": MEANING,
        "On 40 made-up instances": ASKED,
        "Figures 2 to 14 and 16": SOURCE,
        "Only figure 5.10 is complete": SOURCE,
        "were not run, nor the divider's figures": SOURCE,
    },
    "results": {
        "Fleets of 512 USD an hour": ASKED,
        "compares fleets of 512": SOURCE,
        "about 1.4 times": SOURCE,
        "15 rounds of 16, seed 0": ASKED,
        "one rough landscape": MEANING,
        '"In bands" should be 80 %': MEANING,
        "aiconfigurator-core 0.12.0": SOURCE,
        "at 4, 2 and 1 USD": ASKED,
        "over an offer of 128 H200": ASKED,
        "The paper compares with 128": SOURCE,
        "4 rounds of 16):": ASKED,
        "4 rounds of 16, search seed 0": ASKED,
        "each error at most 100 %": MEANING,
    },
    "00_quickstart": {"keeps 99 %": ASKED, "what 512 USD an hour buy": ASKED},
    "02_cost": {"32 GPUs, one attention": ASKED, "An island of 64 GPUs": ASKED, "figures 4.3": SOURCE},
    "03_512_usd_an_hour": {"# 512 USD": ASKED, "Rignall 2025": SOURCE, "promises 100 requests/s": ASKED},
    "04_search": {"Rignall 2025": SOURCE, "of 256 GPUs": ASKED, "128 DGX-B300": ASKED},
    "05_placement": {"24 nodes, 60 %": ASKED, "0 under one": MEANING, "A job of 256 GPUs": ASKED},
    "06_policies": {
        "ATC '23": SOURCE,
        "1.3 times the cluster": ASKED,
        "95 % of the trace": MEANING,
        "(figure 1 of": SOURCE,
        "(figure 2)": SOURCE,
        "(figures 3 to 6": SOURCE,
    },
    "07_preemption": {
        "its tables 3, 4 and 5": SOURCE,
        "100 nodes of 8 RTX": ASKED,
        "table 4": SOURCE,
        "(1 - α)·T": MEANING,
        "table 5 and figure 11": SOURCE,
        "section 4.2": SOURCE,
        "60 nodes of 8 GPUs": ASKED,
        "fall by 24 %": SOURCE,
    },
    "08_replay": {"At 0.9 of": ASKED, "95 % intervals": MEANING, "variation of 20": ASKED, "to 1 % of": MEANING},
    "09_serving": {
        "share 20 machines": ASKED,
        "Wąsowski, 2024": SOURCE,
        "whose own 0.1 s": SOURCE,
        "12 places": ASKED,
        "On 20 machines everyone": ASKED,
        "7 minutes, 23 %": ASKED,
    },
    "10_defragmentation": {"figures 13 and 14": SOURCE, "jobs of 128": ASKED, "200 nodes": ASKED, "On 25 nodes": ASKED},
    "11_load_doubles": {"be 0.8 of": ASKED},
}
WRITTEN = {"papers": "tests/studies/test_papers.py::test_the_page_is_what_the_command_writes"}
"""Texts that a command writes, and the test that holds all of their figures."""
ONCE: dict[str, dict[str, str]] = {
    "README": {"at random 22 to 29 %": "simulated prefill pools"},
    "planning": {"keeps 22 to 29 % less": "the same"},
    "schedules": {"| command | USD |": "its own commands"},
    "traces-and-costs": {"(2 GB and more in decode)": "DeepEP's own words"},
    "watching": {"On made-up days with 10 % noise": "days of tests/replanning/watched_feeds.py, in full"},
    "observing": {"the worst of P50": "all workloads in each engine's classes, as tests/runs/test_metered_lengths.py"},
    "studies": {
        "| policy | as good as": "planner.studies.spot.exact on 40 drawn instances",
        "| figure | trials | by value": "planner/studies/chapter5/results/2026-11-23",
        "3.5 to 9.4 times as slow": "the same",
        "figures 5.9 to 5.12 is 1,270": "the same",
    },
    "07_preemption": {
        "94 % of the GPUs are held": "its own cells",
    },
    "results": {
        "differ by 15 % on equal work": "the fit's own residuals by engine",
    },
}
