"""Every command does its work, in words and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Command, untimed

from planner.errors import EXIT_DONE

FIGURES = {"search.png", "throughput.png", "mix.png", "islands.png", "simplicity.png"}  # one bucket, but simpler pools
TABLES = {"islands.csv", "pools.csv", "latency.csv", "routing.csv", "trials.csv"}
ENTRIES = {"plan.json", "summary.md", "figures", "manifests"} | TABLES
PNG = b"\x89PNG\r\n\x1a\n"


def _manifest_gpus(folder: Path) -> dict[str, int]:
    """GPUs that the manifests of a folder ask for, by the island that asks."""
    found: dict[str, int] = {}
    for path in sorted(folder.glob("[0-9]*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            template = document.get("spec", {}).get("leaderWorkerTemplate") if document else None
            if template is not None:
                found[path.name] = found.get(path.name, 0) + _gpus_of(document["spec"], template)
    return found


def _gpus_of(spec: dict[str, Any], template: dict[str, Any]) -> int:
    def ask(pod: dict[str, Any]) -> int:
        limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
        return sum(int(one.get("nvidia.com/gpu", 0)) for one in limits)

    worker = ask(template["workerTemplate"])
    leader = ask(template["leaderTemplate"]) if "leaderTemplate" in template else worker
    return int(spec["replicas"]) * (leader + (int(template["size"]) - 1) * worker)


def test_plan_writes_a_run_to_runs_and_tells_its_rounds_and_its_summary(
    planner: Command, tiny: Path, painted: None
) -> None:
    answer = planner("plan", tiny)
    assert answer.status == EXIT_DONE
    assert [path.as_posix() for path in Path("runs").iterdir()] == ["runs/tiny"]
    run = Path("runs/tiny")
    assert {path.name for path in run.iterdir()} == ENTRIES
    assert {path.name for path in (run / "figures").iterdir()} == FIGURES
    assert all(path.read_bytes().startswith(PNG) for path in (run / "figures").iterdir())
    head, *parts = (run / "summary.md").read_text().split("\n## ")
    assert "SHA-256" in parts[-1]
    assert "SHA-256" not in answer.out  # versions and digests are in the file
    assert answer.out.endswith(f"\n\n{head.strip()}\n\nWritten to runs/tiny\n")  # what is asked for stands last
    assert all(f"## {part.strip()}\n" in answer.out for part in parts[:-1])
    best = json.loads((run / "plan.json").read_text())["search"]["best_by_iteration_rps"]
    assert answer.err.splitlines() == [
        f"tiny: {2 * (i + 1)}/4 layouts, best {rate:.1f} requests/s" for i, rate in enumerate(best)
    ]


def test_plan_as_json_is_json_alone_and_two_processes_find_what_one_finds(
    planner: Command, tiny: Path, run: Path
) -> None:
    answer = planner("plan", tiny, "--json", "--processes", 2)
    document = json.loads(Path("runs/tiny/plan.json").read_text())
    assert (answer.status, answer.err) == (EXIT_DONE, "")
    assert answer.json["status"] == 0
    assert answer.json["folder"] == "runs/tiny"
    assert answer.json["scenario"] == "tiny"
    for key in ("throughput_rps", "prefill_rps", "decode_rps", "price_usd_per_hour", "price_usd_per_million_tokens"):
        assert answer.json[key] == document[key]
    assert document["throughput_rps"] == json.loads((run / "plan.json").read_text())["throughput_rps"]
    assert Path("runs/tiny/trials.csv").read_bytes() == (run / "trials.csv").read_bytes()


def test_equal_seeds_give_equal_files_and_others_which_need_force_do_not(planner: Command, tiny: Path) -> None:
    first, run = planner("plan", tiny, "--quiet", "--out", "once", "--seed", 0), Path("once")
    again = planner("plan", tiny, "--quiet", "--out", "again", "--seed", 0)
    assert (again.status, again.err) == (0, "")
    assert again.out == first.out.replace("once", "again")
    names = [path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file()]
    assert len(names) > 10
    different = [name for name in names if (run / name).read_bytes() != (Path("again") / name).read_bytes()]
    assert [str(name) for name in different] == ["plan.json"]
    assert untimed(run) == untimed(Path("again"))
    assert planner("plan", tiny, "--out", "again", "--quiet", "--seed", 4).status == 2
    assert untimed(run) == untimed(Path("again"))
    assert planner("plan", tiny, "--out", "again", "--quiet", "--seed", 4, "--force").status == 0
    plans = [json.loads(Path(out, "plan.json").read_text()) for out in (run, "again")]
    assert [plan["provenance"]["seed"] for plan in plans] == [0, 4]
    assert plans[0]["search"]["trials"] != plans[1]["search"]["trials"]


def test_plan_of_a_trace_can_be_reported_without_it(planner: Command, tiny: Path, trace: Path) -> None:
    tiny.write_text(tiny.read_text().replace("normal-500-2000", trace.name))
    assert planner("plan", tiny, "--quiet").status == 0
    trace.unlink()
    tiny.unlink()
    answer = planner("report", "runs/tiny")
    assert (answer.status, answer.err) == (0, "Page: runs/tiny/report.html\n")
    assert answer.out.strip() == Path("runs/tiny/summary.md").read_text().strip()


def test_check_tells_what_a_plan_would_start_from(planner: Command, tiny: Path) -> None:
    facts = planner("check", tiny, "--json").json
    assert facts["inventory"] == {"H20": 32, "H200": 32}
    assert facts["price_usd_per_hour"] == 32 * 1 + 32 * 4
    assert facts["weights_gb"] == pytest.approx(671, rel=0.01)
    assert facts["ranges"] == 4
    words = planner("check", tiny)
    assert words.status == 0
    assert "tiny.yaml: sound" in words.out
    assert [path.name for path in Path().iterdir()] == ["tiny.yaml"]


def test_check_names_types_without_a_price_and_prices_without_a_type(planner: Command, tiny: Path) -> None:
    text = tiny.read_text().replace("H20: 32", "Rubin-NVL144: 144")
    tiny.write_text(f"{text}prices_usd_per_gpu_hour: {{H200: 3, H800: 2}}\n")
    facts = planner("check", tiny, "--json").json
    assert (facts["price_usd_per_hour"], facts["without_price"]) == (32 * 3, ["Rubin-NVL144"])
    words = planner("check", tiny)
    assert words.status == 0
    assert "price not used: the inventory has no H800" in words.err


def test_report_prints_and_writes(planner: Command, run: Path) -> None:
    assert planner("report", run).out.strip() == (run / "summary.md").read_text().strip()
    assert planner("report", run / "plan.json", "--json").json == json.loads((run / "plan.json").read_text())
    for flags in ((), ("--force",)):
        assert planner("report", run, "--out", "page", *flags).status == 0
        assert Path("page/summary.md").read_bytes() == (run / "summary.md").read_bytes()
    assert planner("report", run, "--out", "page").status == 2


@pytest.mark.parametrize(("form", "engine"), [("run", "vllm"), ("even_run", "vllm"), ("even_run", "sglang")])
def test_export_writes_manifests_of_the_plans_gpus(
    planner: Command, request: pytest.FixtureRequest, form: str, engine: str
) -> None:
    run = request.getfixturevalue(form)
    answer = planner("export", run, "--out", "manifests", "--engine", engine, "--json")
    plan = json.loads((run / "plan.json").read_text())
    assert answer.json["engine"] == engine
    written = (path for path in Path("manifests").rglob("*") if path.is_file())
    assert sorted(answer.json["files"]) == sorted(map(str, written))
    gpus = _manifest_gpus(Path("manifests"))
    assert list(gpus.values()) == [island["size"] for island in plan["islands"]]
    refused = planner("export", run, "--out", "manifests", "--engine", engine)
    assert (refused.status, refused.out) == (2, "")
    words = planner("export", run, "--out", "manifests", "--engine", engine, "--force")
    assert words.out == f"{len(answer.json['files'])} files written to manifests\n"


def test_a_plan_that_the_engine_cannot_run_ends_in_3_with_the_remedy(planner: Command, table_run: Path) -> None:
    answer = planner("export", table_run, "--out", "manifests", "--engine", "sglang")
    assert (answer.status, answer.out) == (3, "")
    assert "SGLang cannot load deepseek-v3 on its" in answer.err
    assert "Export for vllm" in answer.err
    assert not Path("manifests").exists()


def test_gpus_lists_types_and_sources(planner: Command) -> None:
    listed = planner("gpus", "--json").json
    names = [gpu["name"] for gpu in listed]
    assert {"H20", "H200", "H800", "GB200-NVL72"} <= set(names)
    assert all(name in planner("gpus").out for name in names)
    (h20,) = planner("gpus", "H20", "--json").json
    assert (h20["fp16_tflops"], h20["memory_gb"]) == (148, 96)  # NVIDIA's data sheet
    shown = planner("gpus", "H20").out
    assert all(source["figure"] in shown for source in h20["sources"])


def test_models_and_workloads_are_listed(planner: Command) -> None:
    (v3,) = [model for model in planner("models", "--json").json if model["name"] == "deepseek-v3"]
    dense, routed = v3["groups"]
    assert (v3["layers"], dense["count"], routed["count"]) == (61, 3, 58)
    assert (routed["ffn"]["routed"], routed["ffn"]["active"]) == (256, 8)
    assert "deepseek-v3" in planner("models").out
    found = {row["name"]: row for row in planner("workloads", "--json").json}
    assert found["azure-code-2023"]["requests"] == 8819  # rows of the published trace
    assert "azure-code-2023" in planner("workloads").out


def test_a_trace_becomes_a_workload_that_a_scenario_can_name(planner: Command, tiny: Path, trace: Path) -> None:
    answer = planner("workload", "summarize", trace, "--json")
    assert answer.json["file"] == "mine.yaml"
    assert answer.json["requests"] == 60
    assert answer.json["mean_input_tokens"] == pytest.approx(200 + 13 * 59 / 2)
    assert planner("workload", "summarize", trace, "--out", "other.yaml", "--name", "other").status == 0
    assert yaml.safe_load(Path("other.yaml").read_text())["name"] == "other"
    for workload in ("mine.yaml", "mine.csv"):
        tiny.write_text(tiny.read_text().replace("normal-500-2000", workload))
        assert planner("check", tiny, "--json").json["mean_input_tokens"] == pytest.approx(583.5)


def test_unusual_columns_can_be_named(planner: Command, trace: Path) -> None:
    trace.write_text(trace.read_text().replace("ContextTokens", "asked").replace("GeneratedTokens", "said"))
    assert planner("workload", "summarize", trace).status == 2
    named = planner("workload", "summarize", trace, "--columns", "TIMESTAMP,asked,said", "--json")
    assert named.json["requests"] == 60


def test_the_program_tells_its_version_and_commands(planner: Command) -> None:
    assert planner("--version").out.startswith("planner ")
    listed = planner("--help").out
    commands = ("plan", "check", "export", "report", "gpus", "models", "workloads", "workload")
    assert [command for command in commands if command not in listed] == []
    assert planner("plan", "--help").status == 0
