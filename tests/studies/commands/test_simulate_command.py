"""`planner simulate cluster`: what it writes and prints, checked from its own files, and what it refuses."""

from collections import defaultdict
from pathlib import Path

import pytest
from command_line import Answer, Command
from openb_files import read_rows, trace_nodes, trace_pods, write_rows

from planner.errors import EXIT_BAD_INPUT, EXIT_DONE
from planner.studies.policies.online.policies import NAMES

MIX = "pwr:0.1+fgd:0.9"
PLAIN = ("simulate", "cluster", "--nodes", "nodes.csv", "--pods", "pods.csv")
GIVEN = (*PLAIN, "--no-figures", "--processes", 1)
ASKED = [
    "policy",
    "seed",
    "arrived_percent",
    "allocation_percent",
    "fragmentation_percent",
    "fragmentation_ratio_percent",
    "cpu_power_w",
    "gpu_power_w",
    "grar",
]
POINTS = (80, 90, 100, 110, 120, 130)


@pytest.fixture(autouse=True)
def openb(here: Path) -> None:
    """The small trace in the current folder."""
    write_rows("nodes.csv", trace_nodes())
    write_rows("pods.csv", trace_pods())


def cells(path: str) -> dict[tuple[str, int, int], dict[str, float]]:
    """metrics.csv by policy, seed and percent."""
    return {
        (row["policy"], int(row["seed"]), int(row["arrived_percent"])): {
            name: float(cell) for name, cell in row.items() if name not in ("policy", "seed", "arrived_percent")
        }
        for row in read_rows(path)
    }


def replayed(path: str) -> dict[str, float]:
    """The last line's figures; fails where the file's placements do not fit on the nodes, one after another."""
    nodes = {str(row["sn"]): row for row in trace_nodes()}
    pods = {str(row["name"]): row for row in trace_pods()}
    cpu = {name: int(str(row["cpu_milli"])) for name, row in nodes.items()}
    left = {name: [1000] * int(str(row["gpu"])) for name, row in nodes.items()}
    arrived = used = 0
    rows = read_rows(path)
    for number, row in enumerate(rows):
        pod = pods[row["pod"].partition("-tuned-")[0]]
        asked, milli, gpus = int(str(pod["num_gpu"])), int(str(pod["gpu_milli"])), row["gpus"].split("-")
        arrived += asked * milli
        if row["node"]:
            used += asked * milli
            cpu[row["node"]] -= int(str(pod["cpu_milli"]))
            assert len([gpu for gpu in gpus if gpu]) == len(set(gpus) - {""}) == asked
            spec = str(pod["gpu_spec"])
            assert not spec or nodes[row["node"]]["model"] in spec.split("|")
            for gpu in filter(None, gpus):
                left[row["node"]][int(gpu)] -= milli
            assert min([cpu[row["node"]], *left[row["node"]]]) >= 0
        assert (number, arrived, used) == tuple(
            int(row[name]) for name in ("arrival", "arrived_gpu_milli", "used_gpu_milli")
        )
    return {
        "arrivals": len(rows),
        "used": used,
        "arrived": arrived,
        "failures": sum(not row["node"] for row in rows),
        "capacity": sum(1000 * int(str(row["gpu"])) for row in nodes.values()),
    }


@pytest.mark.parametrize("semantics", ["reference", "exact"])
def test_every_policy_writes_its_figures_and_decisions(planner: Command, semantics: str) -> None:
    policies = [word for name in (*NAMES, MIX) for word in ("--policy", name)]
    answer = planner(*GIVEN, *policies, "--seeds", "3,7", "--semantics", semantics, "--out", "o", "--decisions")
    assert answer.status == EXIT_DONE, answer.err
    assert list(read_rows("o/metrics.csv")[0]) == [*ASKED, "failures", "power_w"]
    found = cells("o/metrics.csv")
    labels = {name: name.replace(":", "_").replace("+", "_") for name in (*NAMES, MIX)}
    assert {(policy, seed) for policy, seed, _ in found} == {(name, seed) for name in labels for seed in (3, 7)}
    for policy, label in labels.items():
        for seed in (3, 7):
            last = replayed(f"o/decisions_{label}_{seed}.csv")
            assert 1.3 * last["capacity"] - 1000 < last["arrived"] <= 1.3 * last["capacity"] + 7000
            final = max(at for name, drawn, at in found if (name, drawn) == (policy, seed))
            row = found[policy, seed, final]
            assert row["failures"] == last["failures"] > 0
            assert row["allocation_percent"] == pytest.approx(100 * last["used"] / last["capacity"], abs=2)
            assert row["power_w"] == pytest.approx(row["cpu_power_w"] + row["gpu_power_w"])
    names = {path.relative_to("o").as_posix() for path in Path("o").rglob("*.*")}
    decisions = {f"decisions_{label}_{seed}.csv" for label in labels.values() for seed in (3, 7)}
    assert names == decisions | {"metrics.csv", "report.html", "summary.md"}
    assert Path("o/summary.md").read_text().startswith("# Online policies: pods")
    assert answer.err.count("allocated") == 2 * len(labels)
    assert "mean of 2 seeds" in answer.out


def test_the_semantics_differ(planner: Command) -> None:
    """On real numbers no two nodes tie for 40 milli-GPU of difference: some pod goes elsewhere."""
    asked = (*GIVEN, "--policy", "fgd", "--seeds", "1-3", "--json", "--quiet")
    assert planner(*asked).json["policies"] != planner(*asked, "--semantics", "exact").json["policies"]


def test_means_and_savings_are_those_of_the_file_and_figures_are_drawn(planner: Command) -> None:
    asked = (*PLAIN, "--processes", 1, "--policy", "pwr", "--policy", "fgd", "--seeds", "42-44")
    document = planner(*asked, "--json", "--out", "o").json
    for name in ("power", "savings", "grar"):
        assert Path(f"o/figures/{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "(figures/grar.png)" in Path("o/summary.md").read_text()
    found = cells("o/metrics.csv")
    assert (document["baseline"], document["seeds"], document["gpus"]) == ("fgd", [42, 43, 44], 320)

    def mean(policy: str, at: int, name: str) -> float:
        return sum(found[policy, seed, at][name] for seed in (42, 43, 44)) / 3

    rows = {one["policy"]: {row["arrived_percent"]: row for row in one["means"]} for one in document["policies"]}
    for at in (20, 50, *POINTS):
        base = mean("fgd", at, "power_w")
        for policy in ("pwr", "fgd"):
            row = rows[policy][at]
            for name in (*ASKED[3:8], "failures"):
                assert row[name] == pytest.approx(mean(policy, at, name), rel=1e-8), name
            saved = 100 * (base - mean(policy, at, "power_w")) / base
            assert row["power_saved_percent"] == pytest.approx(saved, abs=1e-6)
    assert rows["pwr"][50]["power_saved_percent"] > 0 == rows["fgd"][50]["power_saved_percent"]


def test_tables_on_standard_output(planner: Command) -> None:
    answer = planner(*GIVEN, "--policy", "bestfit", "--policy", MIX, "--seeds", 1, "--baseline", "bestfit")
    assert "Power saved against bestfit, %; seed 1" in answer.out
    header = next(line for line in answer.out.splitlines() if "arrived" in line)
    assert [word for word in header.replace("┃", " ").split() if word.isdigit()] == [str(at) for at in POINTS]
    document = planner(*GIVEN, "--policy", MIX, "--seeds", 1, "--json").json
    row = next(row for row in document["policies"][0]["means"] if row["arrived_percent"] == 100)
    assert f"{row['allocation_percent']:.2f}" in answer.out


def test_a_little_asked_for_is_told_at_its_end(planner: Command) -> None:
    answer = planner(*GIVEN, "--policy", "fgd", "--seeds", 1, "--inflate", 0.3, "--out", "o")
    assert answer.status == EXIT_DONE
    assert " 30 % " in answer.out
    assert max(int(row["arrived_percent"]) for row in read_rows("o/metrics.csv")) == 30


def test_equal_seeds_give_equal_files_in_any_number_of_processes(planner: Command) -> None:
    asked = (
        *PLAIN,
        "--no-figures",
        "--policy",
        "fgd",
        "--policy",
        "random",
        "--seeds",
        "5-6",
        "--decisions",
        "--quiet",
    )
    for out, processes in (("one", 1), ("two", 2)):
        assert planner(*asked, "--out", out, "--processes", processes).err == ""
    names = sorted(path.relative_to("one").as_posix() for path in Path("one").rglob("*.*"))
    assert [Path("one", name).read_bytes() for name in names] == [Path("two", name).read_bytes() for name in names]
    assert Path("one/decisions_fgd_5.csv").read_bytes() != Path("one/decisions_fgd_6.csv").read_bytes()


def test_given_orders(planner: Command) -> None:
    """Arrivals come as listed, and of two equal nodes the one that the tie order has first is taken."""
    pods = ["p003", "p001", "p003", "p000", "p001"]
    nodes = [str(row["sn"]) for row in reversed(trace_nodes())]
    write_rows("arrivals.csv", [{"pod": name} for name in pods])
    write_rows("ties.csv", [{"node": name} for name in nodes])
    orders = ("--arrivals", "arrivals.csv", "--tie-order", "ties.csv", "--seeds", 1, "--decisions")
    assert planner(*GIVEN, "--policy", "gpupacking", *orders, "--out", "o").status == EXIT_DONE
    rows = read_rows("o/decisions_gpupacking_1.csv")
    assert [row["pod"] for row in rows] == ["p003", "p001", "p003-tuned-0", "p000", "p001-tuned-1"]
    assert rows[3]["node"] == "n99"  # no GPUs asked for: all score 0
    assert rows[3]["gpus"] == ""


def test_a_pod_larger_than_any_node_is_counted(planner: Command) -> None:
    huge = {"name": "huge", "cpu_milli": 1000, "memory_mib": 1, "num_gpu": 16, "gpu_milli": 1000, "gpu_spec": ""}
    wrong = {**huge, "name": "wrong", "num_gpu": 8, "gpu_spec": "V100M16"}
    write_rows("pods.csv", [*trace_pods(20), huge, wrong])
    write_rows("arrivals.csv", [{"pod": name} for name in ("huge", "p001", "wrong", "huge")])
    answer = planner(*GIVEN, "--policy", "fgd", "--seeds", 1, "--arrivals", "arrivals.csv", "--json")
    assert answer.status == EXIT_DONE
    assert "pods.csv: 2 of 22 pods fit on no node" in answer.err
    assert answer.json["pods_too_large"] == 2
    assert answer.json["policies"][0]["means"][-1]["failures"] == 3


def refused(answer: Answer, *said: str) -> None:
    """Bad input, told in full; nothing printed, nothing left behind."""
    assert (answer.status, answer.out) == (EXIT_BAD_INPUT, ""), answer.err
    assert all(part in answer.err for part in said), answer.err
    assert not Path("o").exists()
    assert not list(Path().glob(".*"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_gpu": -1}, "row 2, column num_gpu must be a whole number"),
        ({"num_gpu": 1.5, "gpu_milli": 1000}, "row 2, column num_gpu must be a whole number"),
        ({"num_gpu": 2, "gpu_milli": 500}, "row 2, column gpu_milli must be 1000 where several GPUs"),
        ({"num_gpu": 1, "gpu_milli": -500}, "row 2, column gpu_milli must be a whole number"),
        ({"num_gpu": 1, "gpu_milli": 0}, "row 2, column gpu_milli must be above 0"),
        ({"cpu_milli": -1}, "row 2, column cpu_milli"),
        ({"cpu_milli": "nan"}, "row 2, column cpu_milli"),
        ({"memory_mib": ""}, "row 2, column memory_mib"),
        ({"gpu_spec": "T4|X9"}, "row 2, column gpu_spec must name GPU models of the nodes (G2, P100, T4, V100M16)"),
        ({"name": "p000"}, "row 2, column name must be a name of its own, got 'p000', as in row 1"),
    ],
)
def test_bad_pods(planner: Command, change: dict[str, object], said: str) -> None:
    pods = trace_pods(9)
    write_rows("pods.csv", [pods[0], {**pods[1], **change}, *pods[2:]])
    refused(planner(*GIVEN, "--policy", "fgd", "--out", "o"), f"pods.csv: {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sn": "n00"}, "row 2, column sn must be a name of its own, got 'n00', as in row 1"),
        ({"model": "X9"}, "row 2, column model must be a model whose watts are known, got 'X9'"),
        ({"model": ""}, "row 2, column model must name the type of its GPUs"),
        ({"gpu": -1}, "row 2, column gpu must be a whole number"),
        ({"gpu": 17}, "row 2, column gpu must be a whole number, at least 0 and at most 16"),
        ({"cpu_milli": 0}, "row 2, column cpu_milli"),
    ],
)
def test_bad_nodes(planner: Command, change: dict[str, object], said: str) -> None:
    nodes = trace_nodes()
    write_rows("nodes.csv", [nodes[0], {**nodes[1], **change}, *nodes[2:]])
    refused(planner(*GIVEN, "--policy", "fgd", "--out", "o"), f"nodes.csv: {said}")


def test_cpu_models_have_watts_too(planner: Command) -> None:
    write_rows("nodes.csv", [{**row, "cpu_model": "8163" if k else "Z80"} for k, row in enumerate(trace_nodes())])
    refused(planner(*GIVEN, "--policy", "fgd"), "nodes.csv: row 1, column cpu_model must be", "8163")


@pytest.mark.parametrize("name", ["nodes.csv", "pods.csv", "arrivals.csv", "ties.csv"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold a header and at least one row; it is empty"),
        ("sn,name,pod,node,cpu_milli,memory_mib,gpu,model,num_gpu,gpu_milli\n", "only a header came"),
        ("mine,yours\n1,2\n", "missing: "),
        (None, "there is no such file"),
    ],
)
def test_files_without_what_is_needed(planner: Command, name: str, text: str | None, said: str) -> None:
    write_rows("arrivals.csv", [{"pod": "p001"}])
    write_rows("ties.csv", [{"node": row["sn"]} for row in trace_nodes()])
    Path(name).unlink()
    if text is not None:
        Path(name).write_text(text)
    orders = ("--arrivals", "arrivals.csv", "--tie-order", "ties.csv", "--seeds", 1)
    refused(planner(*GIVEN, "--policy", "fgd", "--out", "o", *orders), f"{name}: ", said)


def test_traces_without_gpus(planner: Command) -> None:
    write_rows("nodes.csv", [row for row in trace_nodes() if not row["gpu"]])
    refused(planner(*GIVEN, "--policy", "fgd"), "nodes.csv: column gpu must be above 0 in some row")
    write_rows("nodes.csv", trace_nodes())
    write_rows("pods.csv", [row for row in trace_pods() if not row["num_gpu"]])
    refused(planner(*GIVEN, "--policy", "fgd"), "pods.csv: column num_gpu must be above 0 in some row")


def test_orders_of_other_traces(planner: Command) -> None:
    names = [row["sn"] for row in trace_nodes()]
    for rows, said in (
        (["n00", "x"], "ties.csv: row 2, column node must be a node of the trace, got 'x'"),
        (["n00", "n00"], "ties.csv: row 2, column node must not come twice"),
        (names[:-1], "ties.csv: must list each of the 100 nodes once; n99 is missing"),
    ):
        write_rows("ties.csv", [{"node": name} for name in rows])
        refused(planner(*GIVEN, "--policy", "fgd", "--seeds", 1, "--tie-order", "ties.csv"), said)
    write_rows("arrivals.csv", [{"pod": "p001"}, {"pod": "q"}])
    refused(
        planner(*GIVEN, "--policy", "fgd", "--seeds", 1, "--arrivals", "arrivals.csv"),
        "arrivals.csv: arrivals: row 2 must name a pod of the trace, got 'q'",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--policy", "fdg"), "policy 'fdg' must be one of random, dotprod"),
        (("--policy", "pwr+fgd"), "must give every policy of a mixture a weight"),
        (("--policy", "pwr:2+fgd:0.5"), "a weight of whole thousandths"),
        (("--policy", ""), "must be one of"),
        (("--policy", "fgd", "--policy", "FGD"), "--policy: must name each policy once, got 'fgd' twice"),
        (("--policy", "fgd", "--baseline", "pwr"), "--baseline: must be one of the policies that run (fgd)"),
        (("--policy", "fgd", "--seeds", "51-42"), "--seeds: must be ranges upwards, not from 51 to 42"),
        (("--policy", "fgd", "--seeds", "a"), "--seeds: must be whole numbers"),
        (("--policy", "fgd", "--seeds", "-3"), "--seeds: must be whole numbers"),
        (("--policy", "fgd", "--seeds", "1-"), "--seeds: must be whole numbers"),
        (("--policy", "fgd", "--seeds", "1.5"), "--seeds: must be whole numbers"),
        (("--policy", "fgd", "--seeds", "4294967296"), "--seeds: must be whole numbers"),
        (("--policy", "fgd", "--seeds", "1-3,2"), "--seeds: must name each seed once"),
        (("--policy", "fgd", "--seeds", "0-4294967295"), "--seeds: must be at most 1000"),
        (("--policy", "fgd", "--inflate", "0"), "inflate: must be above 0 and at most 100, got 0"),
        (("--policy", "fgd", "--inflate", "nan"), "inflate: must be above 0"),
        (("--policy", "fgd", "--inflate", "1e-9"), "arrivals: inflation must leave some pods"),
        (("--policy", "fgd", "--arrivals", "a.csv"), "--arrivals: a given order belongs to one seed; --seeds has 10"),
        (("--policy", "fgd", "--tie-order", "t.csv"), "--tie-order: a given order belongs to one seed"),
        (("--policy", "fgd", "--arrivals", "a.csv", "--inflate", 1), "--inflate: goes with drawn arrivals only"),
        (("--policy", "fgd", "--semantics", "rough"), "--semantics"),
        (("--policy", "fgd", "--processes", 0), "--processes"),
        ((), "--policy"),
    ],
)
def test_bad_options(planner: Command, options: tuple[object, ...], said: str) -> None:
    refused(planner(*GIVEN, "--out", "o", *options), said)


def test_decisions_need_a_folder(planner: Command) -> None:
    refused(planner(*GIVEN, "--policy", "fgd", "--decisions"), "--decisions: needs --out")


def test_nothing_is_overwritten_unasked(planner: Command) -> None:
    asked = (*GIVEN, "--policy", "bestfit", "--seeds", 1, "--out", "o", "--quiet")
    assert planner(*asked).status == EXIT_DONE
    before = Path("o/metrics.csv").read_bytes()
    again = planner(*asked, "--semantics", "exact")
    assert (again.status, again.out) == (EXIT_BAD_INPUT, "")
    assert "--force" in again.err
    assert Path("o/metrics.csv").read_bytes() == before
    assert planner(*asked, "--inflate", 1, "--force").status == EXIT_DONE
    assert Path("o/metrics.csv").read_bytes() != before
    Path("o/mine.txt").write_text("mine")
    assert "mine.txt" in planner(*asked, "--force").err
    assert Path("o/mine.txt").exists()


def test_a_name_in_a_file_is_shown_as_it_is(planner: Command) -> None:
    """Markup, line breaks and formulas in pod names do no harm."""
    pods = trace_pods(20)
    write_rows("pods.csv", [{**pods[1], "name": "[red]=1+1|x"}, *pods[2:]])
    answer = planner(*GIVEN, "--policy", "fgd", "--seeds", 1, "--out", "o", "--decisions")
    assert answer.status == EXIT_DONE
    counted = defaultdict(int)
    for row in read_rows("o/decisions_fgd_1.csv"):
        counted[row["pod"].partition("-tuned-")[0]] += 1
    assert counted["[red]=1+1|x"] >= 1
