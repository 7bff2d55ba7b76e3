"""`planner simulate serving`: what it writes, that a seed gives the same bytes, and what it refuses."""

from pathlib import Path

import pytest
from command_line import Command
from openb_files import read_rows

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.studies.serving.command import POLICY_NAMES
from planner.studies.serving.measures import FIGURE_NAMES
from planner.studies.serving.page import FINDINGS
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.warsaw import TOTALS

SMALL = (
    *("simulate", "serving", "--machines", 3, "--minutes", 3, "--spikes", 1, "--scale", 0.01),
    *("--quiet", "--processes", 1),
)
PLAIN = (*SMALL, "--no-figures")
REQUESTS = sum(round(0.01 * total) for total in TOTALS.values())
POOL = "machine,count,slots,load_mbit_s,gpu,gpus,reserve\nlarge,1,2,200000,H100,2,0\nsmall,1,2,200000,H100,1,1\n"
LLMS = "model,kind,llm,requests\nchat,continuous-batch,qwen3-30b-a3b,40\ntools,static-batch,gpt-oss-120b,20\n"


def files_in(folder: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}


def test_the_study_is_written(planner: Command) -> None:
    assert tuple(POLICIES) == POLICY_NAMES
    answer = planner(*PLAIN, "--out", "s", "--records")
    assert answer.status == EXIT_DONE, answer.err
    records = {f"records/{policy}-422-{kind}.csv" for policy in POLICIES for kind in ("requests", "actions")}
    assert files_in("s") == records | {"serving.csv", "minutes.csv", "report.html", "summary.md"}
    rows = read_rows("s/serving.csv")
    assert tuple(rows[0]) == ("policy", "seed", *FIGURE_NAMES)
    assert [row["policy"] for row in rows] == list(POLICIES)
    assert {row["requests"] for row in rows} == {str(REQUESTS)}
    minutes = read_rows("s/minutes.csv")
    assert len(minutes) == 3 * len(POLICIES)
    for row in rows:
        mine = [line for line in minutes if line["policy"] == row["policy"]]
        assert sum(int(line["requests"]) for line in mine) == REQUESTS
        late = sum(int(line["missed"]) for line in mine)
        assert float(row["misses_per_100"]) == pytest.approx(100 * late / REQUESTS)
        fates = read_rows(f"s/records/{row['policy']}-422-requests.csv")
        assert sum(float(fate["finish_s"]) > float(fate["deadline_s"]) for fate in fates) == late
    page = Path("s/summary.md").read_text()
    for said in (
        "RR, starvation tracking",
        FINDINGS[0].words,
        "horizon\\_s",
        f"{REQUESTS} requests",
    ):
        assert said in page
    for said in ("Deadlines met, %", "The thesis' findings", "Written to s"):
        assert said in answer.out


def test_figures_of_the_policies_that_ran_are_drawn(planner: Command) -> None:
    assert planner(*SMALL, "--policy", "rr", "--machine", 1, "--out", "s").status == EXIT_DONE
    numbers = {Path(name).name.split("_")[0] for name in files_in("s") if name.startswith("figures/")}
    assert numbers == {"5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "6.3", "6.14", "6.15"}
    assert "figures/6.15_loading.png" in Path("s/summary.md").read_text()
    assert planner(*PLAIN, "--policy", "rr", "--out", "s", "--force").status == EXIT_DONE
    assert not Path("s/figures").exists()


def test_a_seed_gives_the_same_bytes_in_any_number_of_processes(planner: Command) -> None:
    several = (*SMALL[:-1], 2, "--no-figures")
    two = ("--policy", "rr-deadline", "--policy", "clockwork")
    for folder, options in (
        ("one", (*PLAIN, "--seeds", "5-6")),
        ("two", (*several, "--seeds", "5-6")),
        ("other", (*PLAIN, "--seeds", "6-7")),
    ):
        assert planner(*options, *two, "--out", folder, "--records").status == EXIT_DONE
    assert files_in("one") == files_in("two")
    for name in files_in("one"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes(), name
    assert Path("one/serving.csv").read_bytes() != Path("other/serving.csv").read_bytes()
    alike = "records/clockwork-6-actions.csv"
    assert Path("one", alike).read_bytes() == Path("other", alike).read_bytes()


def test_json_holds_runs_means_findings_and_constants(planner: Command) -> None:
    chosen = ("--policy", "rr", "--policy", "RR-quantum", "--set", "quantum_s=5", "--set", "scaling.start_s=3")
    found = planner(*PLAIN, *chosen, "--seeds", "1-2", "--json").json
    assert [(row["policy"], row["seed"]) for row in found["runs"]] == [
        ("rr", 1),
        ("rr", 2),
        ("rr-quantum", 1),
        ("rr-quantum", 2),
    ]
    assert found["settings"]["quantum_s"] == 5
    assert found["scaling"]["start_s"] == 3
    assert found["machines"] == {"c5.18xlarge": 3}
    loads = {row["policy"]: row["load_s"] for row in found["means"]}
    finding = next(row for row in found["findings"] if row["figure"] == "load_s")
    assert (finding["rr-quantum"], finding["rr"]) == (loads["rr-quantum"], loads["rr"])
    assert finding["holds"] is (loads["rr-quantum"] < loads["rr"])
    longer = planner(*PLAIN, "--policy", "rr", "--seeds", "1-2", "--json").json["means"][0]["load_s"]
    assert longer < loads["rr"]


def test_llms_on_machines_of_two_types(planner: Command) -> None:
    """Priced by the cost model; the reserve is of the second type."""
    Path("pool.csv").write_text(POOL)
    Path("models.csv").write_text(LLMS)
    options = ("--pool", "pool.csv", "--models", "models.csv", "--minutes", 5, "--output-tokens", 50)
    answer = planner("simulate", "serving", *options, "--policy", "rr-deadline", "--json", "--quiet", "--processes", 1)
    assert answer.status == EXIT_DONE, answer.err
    assert answer.json["machines"] == {"large": 1, "small": 1}
    (run,) = answer.json["runs"]
    assert run["requests"] == 60
    assert run["completion_p50_s"] < 5


def test_the_llm_branch(planner: Command) -> None:
    means = {}
    for kind in ("autoregressive", "continuous-batch"):
        options = ("--mix", "llm", "--inference", kind, "--scale", 0.01, "--minutes", 60, "--machines", 4)
        answer = planner("simulate", "serving", *options, "--policy", "baseline", "--json", "--quiet")
        assert answer.status == EXIT_DONE, answer.err
        means[kind] = answer.json["means"][0]
    assert means["continuous-batch"]["completion_mean_s"] < means["autoregressive"]["completion_mean_s"]
    assert means["autoregressive"]["load_s"] % 54.6875 == pytest.approx(0)  # load times: halves of 109.375 s


def test_given_requests_profiles_and_outages(planner: Command) -> None:
    Path("trace.csv").write_text("arrival_s,model\n0.5,VGG16\n0.5,VGG16\n70,Whisper\n")
    Path("down.csv").write_text("machine,start_s,end_s\n0,60,\n")
    base = ("simulate", "serving", "--machines", 2, "--policy", "baseline", "--quiet", "--no-figures")
    answer = planner(*base, "--requests", "trace.csv", "--outages", "down.csv", "--out", "s", "--records")
    assert answer.status == EXIT_DONE, answer.err
    fates = read_rows("s/records/baseline-422-requests.csv")
    assert [(fate["model"], fate["machine"]) for fate in fates] == [("VGG16", "0"), ("VGG16", "0"), ("Whisper", "1")]
    assert [float(fate["finish_s"]) for fate in fates] == pytest.approx([1.57005, 1.60885, 73.43643], abs=1e-4)
    assert "# Many models on one pool: trace" in Path("s/summary.md").read_text()
    Path("minutes.csv").write_text("minute,model,requests\n0,VGG16,5\n2,Whisper,1\n")
    answer = planner(*base, "--profile", "minutes.csv", "--json")
    assert answer.json["runs"][0]["requests"] == 6


def test_nothing_is_overwritten_unasked(planner: Command) -> None:
    chosen = (*PLAIN, "--policy", "rr")
    assert planner(*chosen, "--out", "s").status == EXIT_DONE
    before = Path("s/serving.csv").read_bytes()
    assert planner(*chosen, "--out", "s", "--seeds", 9).status == EXIT_BAD_INPUT
    assert Path("s/serving.csv").read_bytes() == before
    assert planner(*chosen, "--out", "s", "--seeds", 9, "--force").status == EXIT_DONE
    assert Path("s/serving.csv").read_bytes() != before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policy", "fifo"), "must be one of baseline"),
        (("--policy", "rr", "--policy", "RR"), "'rr' twice"),
        (("--seeds", "1,1"), "--seeds"),
        (("--set", "quantum"), "--set: must be KEY=VALUE"),
        (("--set", "speed=3"), "quantum_s=50.0"),
        (("--set", "quantum_s=soon"), "--set: must be KEY=NUMBER"),
        (("--set", "quantum_s=0"), "quantum_s: must be 0.001 or more"),
        (("--set", "quantum_s=1", "--set", "quantum_s=2"), "each key once"),
        (("--set", "victims=tallest"), "--set victims: must be one of lru"),
        (("--set", "scaling.idle_s=-1"), "idle_s: must be 0 or more"),
        (("--spikes", "nine"), "--spikes"),
        (("--spikes", " "), "--spikes"),
        (("--spike-factor", "nan"), "spike_factor"),
        (("--scale", "inf"), "scale"),
        (("--scale", 0), "requests: must be at least one"),
        (("--scale", 1e5), "drawn requests"),
        (("--minutes", 1_000_000), "minutes"),
        (("--machine", 3), "--machine: must be a number from 0 to 2"),
        (("--pool", "none.csv"), "--machines: goes without --pool"),
        (("--requests", "none.csv"), "--scale: goes without --requests"),
        (("--requests", "none.csv", "--profile", "none.csv"), "--profile: goes without --requests"),
        (("--inference", "single"), "--inference: goes with --mix llm"),
        (("--outages", "none.csv"), "none.csv: there is no such file"),
        (("--output-tokens", 0), "output_tokens"),
    ],
)
def test_bad_options_write_nothing(planner: Command, options: tuple[object, ...], said: str) -> None:
    answer = planner(*SMALL, *options, "--out", "s")
    assert answer.status == EXIT_BAD_INPUT, answer.out
    assert said in answer.err
    assert not Path("s").exists()


def test_bad_files_are_named(planner: Command) -> None:
    Path("pool.csv").write_text("machine,count\nodd,3\n")
    answer = planner("simulate", "serving", "--pool", "pool.csv", "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert "model MobileNet-V1: must have a machine with times for it" in answer.err
    Path("models.csv").write_text("model,kind,llm,requests\nchat,continuous-batch,qwen3-30b-a3b,5\n")
    answer = planner("simulate", "serving", "--models", "models.csv", "--quiet")
    assert answer.status == EXIT_BAD_INPUT
    assert "models.csv: row 1: model chat: must fit on some machine type" in answer.err


def test_progress_is_told_unless_quiet(planner: Command) -> None:
    loud = [word for word in PLAIN if word != "--quiet"]
    assert "1/1 runs: rr, seed 422:" in planner(*loud, "--policy", "rr").err
    assert planner(*PLAIN, "--policy", "rr").err == ""
