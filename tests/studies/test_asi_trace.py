"""The ASI paper's figures on small traces: counted by hand, missing where the trace lacks columns, refused where it
contradicts itself."""

from pathlib import Path

import numpy as np
import pytest
from asi_trace import SERVERS, write_job_list, write_trace
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.diagnosis import GpuRequest
from planner.errors import InputError
from planner.studies.asi.figures.idle import allocation_ratios, unallocatable
from planner.studies.asi.records import AsiStudy, Point, Samples
from planner.studies.asi.study import study_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> AsiStudy:
    return study_trace(write_trace(tmp_path_factory.mktemp("asi")))


def points_of(study: AsiStudy, name: str) -> dict[tuple[str, str, str | float], float]:
    points: tuple[Point, ...] = next(figure.points for figure in study.figures if figure.name == name)
    return {(panel, series, x): pytest.approx(y) for panel, series, x, y in points}


def test_every_figure_of_a_full_trace_is_there(trace: AsiStudy) -> None:
    assert {int(figure.number) for figure in trace.figures} == {*range(2, 14), 16}
    assert [(gap.number, gap.why) for gap in trace.missing] == [("14", "no row of the trace counts for it")]
    assert {table.value: count for table, count in trace.rows.items()} == {
        "pod_hourly": 9,
        "server_hourly": 6,
        "network_hourly": 6,
        "job_execution_summary": 6,
    }
    assert trace.days == (109, 109)


def test_shares_by_hand(trace: AsiStudy) -> None:
    """GPU-hours: training 12, online 12.5 (standby included), offline 2; p6's type is unknown."""
    assert points_of(trace, "job_types") == {
        ("job types", "training", "all jobs"): 100 * 12 / 26.5,
        ("job types", "online_inference", "all jobs"): 100 * 12.5 / 26.5,
        ("job types", "offline_inference", "all jobs"): 100 * 2 / 26.5,
        ("job types", "other", "all jobs"): 0.0,
        ("priorities", "HP", "training"): 100.0,
        ("priorities", "HP", "online_inference"): 100.0,
        ("priorities", "LP", "offline_inference"): 100.0,
    }
    models = points_of(trace, "model_types")
    assert models["by job type", "rec", "online_inference"] == 100 * 12 / 12.5
    assert models["by GPU type", "genai", "H20"] == 100 * 14 / 26
    assert points_of(trace, "gpu_types") == {("inventory", "GPUs", "A10"): 1.0, ("inventory", "GPUs", "H20"): 16.0}
    priorities = points_of(trace, "gpu_priorities")
    assert priorities["pod-hours", "LP", "H20"] == 100 / 6
    assert priorities["GPU-hours", "LP", "H20"] == 100 * 2 / 26


def test_demand_by_hand(trace: AsiStudy) -> None:
    """Standby, spot and unready pods do not count. SM utilisation: (320 / 4 + 240 / 4) / 2 percent of a GPU."""
    demand = points_of(trace, "demand")
    first, second = 24.0 * 109, 24.0 * 109 + 2
    assert demand["GPUs asked for", "training", first] == 8.0
    assert demand["GPUs asked for", "online_inference", first] == 0.5
    assert demand["GPUs asked for", "online_inference", second] == 8.0
    assert demand["SM utilisation (%)", "training", first] == 70.0
    assert demand["SM utilisation (%)", "training", second] == 100.0
    assert points_of(trace, "adoption") == {
        ("A10", "HP", 109.0): 0.75 / 2,
        ("H20", "HP", 109.0): 24 / 2,
        ("H20", "LP", 109.0): 2 / 2,
    }


def test_requests_by_hand(trace: AsiStudy) -> None:
    """Workloads in their largest hour: w1 8 GPUs, w2 8 (second hour), w3 2, w4 0.5."""
    sizes = points_of(trace, "job_sizes")
    assert (sizes["GPUs a job", "all", "count"], sizes["GPUs a job", "all", "mean"]) == (4, 18.5 / 4)
    assert sizes["GPUs a job", "all", "P50"] == 2
    assert sizes["CPUs a job", "all", "P95"] == 96
    assert sizes["GPUs a job", "GenAI", "mean"] == 5
    fractions = points_of(trace, "fractions")
    # hour 0: guaranteed pods 4, 4, 4, 0.5, 0.25; hour 2: none of two
    assert fractions["parts of GPUs", "share", "of pods"] == 100 * (2 / 5 + 0) / 2
    assert fractions["parts of GPUs", "share", "of GPUs"] == 100 * (0.75 / 12.75 + 0) / 2
    ratio = points_of(trace, "cpu_ratio")
    assert ratio["CPUs a GPU", "training", 12.0] == 1.0
    assert ratio["CPUs a GPU", "online_inference", 24.0] == 1.0
    assert ratio["CPUs a GPU", "online_inference", 8.0] == 2 / 3


def test_allocation_by_hand(trace: AsiStudy) -> None:
    """s1 hour 0: 4 at work, 4 lent, 2 spot: (4 + 2) / 8 and (6 + 2) / 8; s2: 4 / 8; s3: 0.75 / 1."""
    allocation = points_of(trace, "allocation")
    assert allocation["allocation", "HP", "H20"] == 100 * ((6 / 8 + 4 / 8) / 2 + (4 / 8 + 1) / 2) / 2
    assert allocation["allocation", "HP+LP", "H20"] == 100 * ((1 + 4 / 8) / 2 + (4 / 8 + 1) / 2) / 2
    assert allocation["allocation", "HP", "A10"] == 100 * (0.75 + 0) / 2
    assert allocation_ratios(8, 8, 0, 4) == (1.0, 1.0)


def test_run_times_utilisation_and_traffic_by_hand(trace: AsiStudy) -> None:
    times = points_of(trace, "run_times")
    assert [times["all", "all", hours] for hours in (1.0, 2.0, 6.0, 10.0)] == [0.25, 0.5, 0.75, 1.0]
    assert times["by job type", "training", 2.0] == 0.5
    busy = points_of(trace, "utilisation")
    assert busy["GPU SMs", "training", 0.6] == 1 / 3
    assert busy["CPUs (of the request)", "offline_inference", 0.9] == 1.0
    traffic = points_of(trace, "traffic")
    mix = "offline_inference + online_inference + training"
    assert traffic["received", mix, 2.5] == 1.0
    assert traffic["received", "training", 4.0] == 1.0
    assert ("sent", "training", 0.0005) not in traffic  # as good as none
    assert all(key[1] != "online_inference" or key[0] == "received" for key in traffic)  # s3 has one GPU


def test_what_a_trace_lacks_is_said(tmp_path: Path) -> None:
    write_trace(tmp_path)
    for part in tmp_path.glob("asi_opensource_pod_hourly/*/*/*.csv"):
        lines = [line.split(",") for line in part.read_text().splitlines()]
        kept = [k for k, name in enumerate(lines[0]) if name not in ("model_type_public", "avg_gpu_sm_util")]
        part.write_text("\n".join(",".join(line[k] for k in kept) for line in lines))
    for part in tmp_path.glob("asi_opensource_network_hourly/*/*/*.csv"):
        part.unlink()
    study = study_trace(tmp_path)
    assert [(gap.number, gap.why) for gap in study.missing] == [
        ("3", "the trace lacks pod_hourly: model_type_public"),
        ("11", "the trace lacks pod_hourly: avg_gpu_sm_util"),
        ("12", "the trace lacks table network_hourly"),
        ("14", "no row of the trace counts for it"),
    ]
    demand = next(figure for figure in study.figures if figure.name == "demand")
    assert {panel for panel, *_ in demand.points} == {"GPUs asked for"}


def test_only_the_days_that_are_asked_for(tmp_path: Path) -> None:
    write_trace(tmp_path)
    assert study_trace(tmp_path, (109, 110)).days == (109, 109)
    with pytest.raises(InputError, match=r"days: must hold rows of .*, got 110\.\.111"):
        study_trace(tmp_path, (110, 111))


def test_a_list_of_jobs_by_hand(tmp_path: Path) -> None:
    """A10: one GPU for 2 h, two halves for an hour from 0:30; H800: 32 GPUs from 1:00 for 1.5 h."""
    study = study_trace(write_job_list(tmp_path))
    demand = points_of(study, "demand")
    assert [demand["by GPU type", "A10", hour] for hour in (0.0, 1.0)] == [1.5, 1.5]
    assert [demand["by GPU type", "H800", hour] for hour in (1.0, 2.0)] == [32.0, 16.0]
    assert points_of(study, "gpu_types")["inventory", "GPUs", "H800"] == 8
    assert points_of(study, "job_sizes")["GPUs a job", "LP", "P50"] == 32
    assert points_of(study, "fractions") == {
        ("parts of GPUs", "share", "of jobs"): 50.0,
        ("parts of GPUs", "share", "of GPUs"): 50.0,
    }
    assert points_of(study, "gpu_priorities")["GPU-hours", "LP", "H800"] == 100
    assert [gap.number for gap in study.missing] == ["2", "3", "9", "11", "12", "13", "14", "16"]


def test_one_file_with_days_and_hours_is_the_same_trace(tmp_path: Path) -> None:
    lines = SERVERS.splitlines()
    rows = [f"{line},109,{hour}" for hour in (0, 2) for line in lines[1:]]
    (tmp_path / "server_hourly.csv").write_text("\n".join([f"{lines[0]},day,hour", *rows]))
    assert study_trace(tmp_path).rows["server_hourly"] == 6  # type: ignore[index]  # a word of the table
    (tmp_path / "server_hourly.csv").write_text("\n".join([f"{lines[0]},day,hour", *rows[::-1]]))
    with pytest.raises(InputError, match="hours must ascend, got day 109 hour 0 after day 109 hour 2"):
        study_trace(tmp_path)
    (tmp_path / "server_hourly.csv").write_text(f"{lines[0]},day,hour\n{lines[1]},109,24\n")
    with pytest.raises(InputError, match="row 1, column hour must be a whole number"):
        study_trace(tmp_path)


def test_folders_without_a_trace_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must hold a table of a trace"):
        study_trace(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        study_trace(tmp_path / "nowhere")
    part = tmp_path / "pod_hourly" / "day=1" / "hour=00" / "part-000.parquet"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="got 1 Parquet files alone"):
        study_trace(tmp_path)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.01, 1))
def test_quantiles_are_within_the_rounding(values: list[float], share: float) -> None:
    samples = Samples()
    for value in values:
        samples.add(value)
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    assert samples.quantile(share) == pytest.approx(exact, rel=0.006)
    assert samples.mean == pytest.approx(float(np.mean(values)))
    assert samples.curve()[-1][1] == pytest.approx(1.0)


@pytest.mark.parametrize("cell", ["inf", "nan", "-1", "many", "1e11"])
def test_cells_that_are_no_numbers_are_refused(tmp_path: Path, cell: str) -> None:
    write_job_list(tmp_path)
    jobs = tmp_path / "job_info_df.csv"
    jobs.write_text(jobs.read_text().replace(",7200,", f",{cell},"))
    with pytest.raises(InputError, match="row 1, column duration must be a number from 0"):
        study_trace(tmp_path)


def test_idle_gpus_and_standby_by_hand(trace: AsiStudy) -> None:
    """Hour 0: s1 8 - 4 - (4 - 2) = 2 idle, 112 CPUs; s2 4, 144; s3 0.25, 92 (p5, p6, p7 ask for 36).

    Hour 2: s1 4, 144; s2 none; s3 1, 128.
    """
    idle = points_of(trace, "idle")
    assert idle["idle GPUs", "stranded", "4G32C"] == (2 + 0 + 1) / 2
    assert idle["idle GPUs", "stranded", "8G128C"] == (4 + 4 + 1) / 2
    assert idle["idle GPUs", "too few CPUs", "8G128C"] == (2 + 0.25) / 2
    assert idle["idle GPUs", "too few CPUs", "8G96C"] == 0.25 / 2
    assert all(idle["idle GPUs", "fractional", name] == 0 for name in ("1G8C", "8G64C"))
    standby = points_of(trace, "standby")
    first = 24.0 * 109
    assert standby["standby GPU-hours", "lent out", first] == 4
    assert standby["standby GPU-hours", "lent out", first + 2] == 0
    assert standby["share used (%)", "as the paper counts", first] == 50
    assert unallocatable(7.5, 64, GpuRequest.parse("4G64C")) == (0.5, 0, 0)


def test_jobs_by_hand(tmp_path: Path) -> None:
    """Twenty servers of 8 GPUs under two switches, one GPU held on each: 7 slots, 4 on the one short of CPUs."""
    header = "server_id,priority_class,gpu_request,cpu_request_cores,day,hour"
    pods = [f"s{k},HP,0.5,{144 if k == 0 else 8},3,10" for k in range(20)] + ["s20,LP,1,8,3,10"]
    (tmp_path / "pod_hourly.csv").write_text("\n".join([header, *pods]))
    servers = [f"s{k},c,a{k % 2},H20,8,192,3,10" for k in range(21)]
    header = "server_id,cluster_id,asw_id,gpu_spec_public,gpu_count,cpu_capacity_cores,day,hour"
    (tmp_path / "server_hourly.csv").write_text("\n".join([header, *servers]))
    slots = points_of(study_trace(tmp_path), "job_slots")
    # half a GPU leaves eight slots to the scripts: 4 + 19 * 8 = 156, of them 76 and 80 under a switch
    assert slots["jobs of 128 GPUs", "across switches", "H20"] == 1
    assert slots["jobs of 128 GPUs", "within one switch", "heterogeneous"] == 0
    assert slots["jobs of 256 GPUs", "across switches", "heterogeneous"] == 0


def test_empty_cells_count_as_nothing(tmp_path: Path) -> None:
    """Every cell but the ids and the hour empty: no figure, no crash."""
    write_trace(tmp_path)
    for part in tmp_path.glob("asi_opensource_*/*/*/*.csv"):
        header, *lines = [line.split(",") for line in part.read_text().splitlines()]
        kept = [
            ",".join(cell if name.endswith("_id") else "" for name, cell in zip(header, line, strict=True))
            for line in lines
        ]
        part.write_text("\n".join([",".join(header), *kept]))
    study = study_trace(tmp_path)
    assert [figure.number for figure in study.figures] == ["7"]  # the table of runs is as it was
    assert {gap.why for gap in study.missing} == {"no row of the trace counts for it"}
