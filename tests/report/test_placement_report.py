"""The placement in the summary, as rows and as a figure, from hand-made records."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from drawn_figures import laid_out, require_apart, require_on_canvas
from matplotlib.colors import to_hex

import planner
from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    ClusterState,
    FragmentShare,
    IslandSite,
    NodeGpu,
    NumaNode,
    Phase,
    PlacedPart,
    Placement,
    Plan,
    Pod,
    ScorePart,
    Shortfall,
    Victim,
)
from planner.errors import InputError
from planner.report import encode_figure, figure, figures_of, placement_frame, sites_frame, summary
from planner.report.cluster.placement_figure import FOREIGN, FREE, cells_of, foreign_of
from planner.report.kit.style import PHASE_COLOURS
from planner.runs.publication import publish


def part(island: str, node: str, asw: str, gpus: tuple[int, ...], replica: int = 0) -> PlacedPart:
    return PlacedPart(
        island=island,
        replica=replica,
        node=node,
        asw=asw,
        tp=2,
        gpu_indices=gpus,
        numa_nodes=tuple(sorted({gpu // 4 for gpu in gpus})),
    )


def site(island: str, gpus: int, nodes: int, *switches: tuple[str, int], **changes) -> IslandSite:
    entropy = -sum(count / gpus * log(count / gpus) for _, count in switches)
    return IslandSite(
        island=island,
        gpus=gpus,
        nodes=nodes,
        switches=switches,
        entropy=entropy,
        **{"aligned": True, "worst": Alignment.NUMA, "crossing_replicas": 0} | changes,
    )


EIGHT = tuple(range(8))
PARTS = (
    part("i00", "n0", "s0", EIGHT),
    part("i00", "n1", "s0", EIGHT),
    part("i01", "n2", "s0", EIGHT),
    part("i01", "n3", "s0", EIGHT),
    *(part("i02", f"n{k}", "s0", EIGHT) for k in (4, 5)),
    *(part("i02", f"m{k}", "s1", EIGHT) for k in (0, 1)),
    part("i04", "m2", "s1", (4, 5, 6, 7)),
    part("i04", "m3", "s1", (2, 3, 4, 5)),
)
BEFORE = ClusterState(
    gpus=128,
    allocated=40,
    idle=88,
    headroom_gpus=80,
    watts=61_234.0,
    empty_nodes=9,
    fragments=(
        FragmentShare(gpus=1, stranded=0, fit=88),
        FragmentShare(gpus=2, stranded=1, fit=43),
        FragmentShare(gpus=4, stranded=7, fit=20),
        FragmentShare(gpus=8, stranded=16, fit=9),
    ),
)
AFTER = replace(
    BEFORE,
    allocated=112,
    idle=16,
    headroom_gpus=8,
    watts=98_765.0,
    empty_nodes=0,
    fragments=tuple(
        FragmentShare(gpus=g, stranded=s, fit=f) for g, s, f in ((1, 0, 16), (2, 1, 7), (4, 9, 2), (8, 16, 0))
    ),
)
PLACED = Placement(
    cluster="east_1",
    parts=PARTS,
    sites=(
        site("i00", 16, 2, ("s0", 16)),
        site("i01", 16, 2, ("s0", 16)),
        site("i02", 32, 4, ("s0", 16), ("s1", 16), crossing_replicas=1),
        site("i04", 8, 2, ("s1", 8), aligned=False, worst=Alignment.CROSS),
    ),
    shortfalls=(
        Shortfall(
            island="i07",
            gpu="H20",
            gpus=64,
            resource="GPUs",
            reason="64 GPUs are asked for, 16 are idle",
            remedies=("fewer GPUs: 16 fit.", "a migration"),
        ),
    ),
    before=BEFORE,
    after=AFTER,
    score=0.61,
    terms=(
        ScorePart(name="topology", value=0.9, weight=1.0),
        ScorePart(name="power", value=-0.00001, weight=0.1),
    ),
    victims=(
        Victim(pod="spot/a", node="m2", island="i04", priority=200, gpus=4, lost_gpu_hours=1.5),
        Victim(pod="spot/b", node="m3", island="i04", priority=100, gpus=1, lost_gpu_hours=None),
    ),
    unplaced_rps=200.0,
    placed_rps=180.0,
)


def host(name: str, asw: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        gpu="H200",
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=k // 4) for k in range(8)),
        numa_nodes=(NumaNode(id=0, socket=0), NumaNode(id=1, socket=1)),
        cpus=192,
        memory_gb=2048,
        asw=asw,
    )


CLUSTER = Cluster(
    name="east_1",
    nodes=(*(host(f"n{k}", "s0") for k in range(6)), *(host(f"m{k}", "s1") for k in range(6))),
    pods=(
        Pod(name="a", namespace="spot", node="m2", gpus=(4, 5, 6, 7), preemptible=True),
        Pod(name="b", namespace="spot", node="m3", gpus=(2,), preemptible=True),
        Pod(name="c", node="m3", gpus=(0, 1)),
        Pod(name="d", node="m5", gpus=EIGHT),
    ),
)


def placed(plan: Plan, cluster: Cluster | None = None, **changes) -> Plan:
    scenario = replace(plan.scenario, cluster=cluster)
    return replace(plan, placement=replace(PLACED, **changes), scenario=scenario)


def section(plan: Plan) -> str:
    return summary(plan).split("## Placement\n\n")[1].split("\n\n## ", maxsplit=1)[0]


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


class TestSection:
    def test_the_lead_counts(self, plan):
        text = section(placed(plan))
        assert "**4 of 5 islands have nodes** in cluster east\\_1: 72 GPUs of 10 nodes." in text
        assert "3 of 4 are aligned" in text
        assert "1 has replicas that straddle access switches" in text
        assert "they serve 180.0 requests/s; laid out compactly it was 200.0 (-10.0 %)" in text

    def test_before_and_after(self, plan):
        rows = {row[0]: row[1:] for row in rows_of(section(placed(plan)).split("Islands on nodes")[0])}
        assert rows["Held"] == ["40 (31 %)", "112 (88 %)"]
        assert rows["Idle"] == ["88", "16"]
        assert rows["Idle, free for guaranteed work"] == ["80", "8"]
        assert rows["Power, held GPUs at full draw (kW)"] == ["61.2", "98.8"]
        assert rows["Nodes whose GPUs are all idle"] == ["9", "0"]
        assert rows["Requests of 4 GPUs that fit"] == ["20", "2"]
        assert rows["Idle GPUs stranded for 8 GPUs"] == ["16", "16"]
        assert rows["Rate of the plan (requests/s)"] == ["200.0", "180.0"]

    def test_alike_islands_share_a_row_and_the_gravest_come_first(self, plan):
        rows = rows_of(section(placed(plan)).split("Islands on nodes\n\n")[1].split("\n\n")[0])[2:]
        assert rows == [
            ["1", "i04", "H800", "prefill", "8", "2", "1", "0", "**no**", "across sockets", "0"],
            ["1", "i02", "H200", "decode", "32", "4", "2", "0.693", "yes", "in a NUMA node", "1"],
            ["2", "i00, i01", "H200", "prefill", "16", "2", "1", "0", "yes", "in a NUMA node", "0"],
        ]

    def test_nvlink_domains_are_named_and_counted(self, plan):
        changed = {"i00": {"domains": (("nvl-0", 16),)}, "i02": {"domains": (("nvl-0", 8), ("nvl-1", 24))}}
        changed["i02"]["crossing_domains"] = 1
        sites = tuple(replace(one, **changed.get(one.island, {})) for one in PLACED.sites)
        text = section(placed(plan, sites=sites))
        assert "1 of 2 in NVLink domains of several nodes lie in one each; copies of i02 leave theirs" in text
        rows = rows_of(text.split("Islands on nodes\n\n")[1].split("\n\n")[0])
        assert rows[0][-1] == "NVLink domains"
        assert {row[1]: row[-1] for row in rows[2:]} == {"i00": "nvl-0", "i01": "–", "i02": "nvl-0, nvl-1", "i04": "–"}
        assert "NVLink" not in section(placed(plan))

    def test_shortfalls_tell_what_would_help(self, plan):
        text = section(placed(plan))
        assert "**i07** (64 H20) lacks GPUs: 64 GPUs are asked for, 16 are idle. What would help: " in text
        assert "fewer GPUs: 16 fit; a migration." in text

    def test_victims(self, plan):
        text = section(placed(plan)).split("**Pods to evict:**")[1]
        assert "2 pods with 5 GPUs; they lose 1.50 GPU-hours" in text
        assert "(1 pod without a known checkpoint not counted)" in text
        assert rows_of(text)[2:4] == [
            ["spot/a", "m2", "i04", "200", "4", "1.50"],
            ["spot/b", "m3", "i04", "100", "1", "–"],
        ]

    def test_victims_in_the_order_of_going(self, plan):
        first, second = PLACED.victims
        victims = (replace(first, order=2), replace(second, order=1))
        text = section(placed(plan, victims=victims, judged_rps=150.0)).split("**Pods to evict:**")
        assert "**2 pods have to go first**; they lose 1.50 GPU-hours" in text[0]
        assert "Lost work counts" in text[0]
        assert "judged by 150.0 requests/s" in text[0]
        assert [row[:2] for row in rows_of(text[1])[2:4]] == [["1", "spot/b"], ["2", "spot/a"]]
        assert "judged by" not in section(placed(plan))

    def test_islands_that_lie_where_others_made_room(self, plan):
        """Nobody goes for i05, and yet it cannot come up before spot/b is gone."""
        victims = tuple(replace(one, order=k) for k, one in enumerate(PLACED.victims, start=1))
        alone = section(placed(plan, victims=victims))
        assert "islands whose pods are gone can come up." in alone
        parts = (*PARTS, part("i05", "m3", "s1", (6, 7)))
        sites = (*PLACED.sites, site("i05", 2, 1, ("s1", 2)))
        text = section(placed(plan, victims=victims, parts=parts, sites=sites))
        assert (
            "can come up; i05, without pods of its own here, once those of the same nodes are." in text
        )  # an older plan
        told = {"i05": (1,)}  # older plans do not tell
        sites = tuple(replace(one, waits_for=told.get(one.island, ())) for one in sites)
        text = section(placed(plan, victims=victims, parts=parts, sites=sites))
        assert "can come up; where others make room: i05 after 1." in text
        own = tuple(replace(one, waits_for=()) for one in sites)
        assert "can come up." in section(placed(plan, victims=victims, parts=parts, sites=own))

    def test_terms_of_the_score(self, plan):
        text = section(placed(plan)).split("Score ")[1]
        assert "**0.610** of 1" in text
        assert rows_of(text)[2:] == [["topology", "0.900", "1", "0.900"], ["power", "0.000", "0.1", "0.000"]]

    def test_what_is_not_there_is_not_told(self, plan):
        text = section(placed(plan, shortfalls=(), victims=(), unplaced_rps=0.0, placed_rps=0.0))
        assert "Not placed" not in text
        assert "Pods to evict" not in text
        assert "requests/s" not in text
        assert "costs no rate: 200.0 requests/s" in section(placed(plan, placed_rps=200.0))
        assert "**0 of 1 island has nodes**" in section(placed(plan, sites=(), parts=()))

    def test_names_are_escaped(self, plan):
        bad = "spot/x|<b>*y*"
        text = section(placed(plan, victims=(replace(PLACED.victims[0], pod=bad),)))
        assert "spot/x\\|\\<b\\>\\*y\\*" in text

    def test_long_lists_are_cut_and_counted(self, plan):
        sites = tuple(site(f"i{k:03}", k + 1, 1, ("s0", k + 1)) for k in range(50))
        text = section(placed(plan, sites=sites, shortfalls=PLACED.shortfalls * 14, victims=PLACED.victims * 16))
        assert "20 more islands in `placement.csv`" in text
        assert "2 more islands in `plan.json`" in text
        assert "2 more pods in `plan.json`" in text

    def test_a_plan_without_placement_says_nothing(self, plan):
        assert "## Placement" not in summary(plan)
        assert "placement" not in figures_of(plan)
        with pytest.raises(InputError, match="'placement'") as caught:
            figure(plan, "placement")
        assert "Place the plan" in caught.value.hint


def test_watts_at_load_by_hand(plan):
    """A GPU that is busy a quarter of its time draws three quarters of the way to rest less than at full draw."""
    first = plan.islands[0]
    site = replace(PLACED.sites[0], island=first.id, gpus=8)
    spec = plan.scenario.inventory.item(first.gpu).gpu
    busy = replace(plan, islands=(replace(first, utilisation=0.25), *plan.islands[1:]))
    there = placed(busy, sites=(site,))
    assert there.loaded_w == pytest.approx(PLACED.after.watts - 8 * 0.75 * (spec.max_w - spec.idle_w))
    rows = {row[0]: row[1:] for row in rows_of(section(there))}
    assert rows["Power, the plan's GPUs at their load (kW)"] == ["61.2", f"{there.loaded_w / 1000:.1f}"]
    assert plan.loaded_w is None


def test_what_topology_costs_each_island(plan):
    sites = [replace(site, rate_rps=90.0, ideal_rps=100.0) for site in PLACED.sites[:1]] + [
        replace(site, rate_rps=50.0, ideal_rps=50.0) for site in PLACED.sites[1:]
    ]
    there = placed(plan, sites=tuple(sites))
    text = section(there)
    assert f"**Topology costs** {sites[0].island} 10.00 (10.0 %) of the requests/s" in text
    frame = sites_frame(there)
    assert frame["topology_costs_rps"].tolist() == [10.0, *[0.0] * (len(sites) - 1)]
    assert frame["topology_costs_share"].tolist()[0] == pytest.approx(0.1)
    assert publish(there).files["sites.csv"].splitlines()[0].endswith(b"topology_costs_rps,topology_costs_share")


def test_a_row_a_part(plan):
    frame = placement_frame(placed(plan))
    assert list(frame.columns) == ["island", "replica", "node", "gpu_indices", "numa_nodes", "asw"]
    assert frame.iloc[-1].tolist() == ["i04", 0, "m3", "2 3 4 5", "0 1", "s1"]
    assert len(frame) == len(PARTS)
    assert placement_frame(plan).empty


def test_the_run_gets_rows_and_figure(plan):
    written = publish(placed(plan)).files
    assert written["figures/placement.png"].startswith(b"\x89PNG")
    assert written["placement.csv"].splitlines()[0] == b"island,replica,node,gpu_indices,numa_nodes,asw"
    assert written["placement.csv"].splitlines()[-1] == b"i04,0,m3,2 3 4 5,0 1,s1"


def cells(drawn) -> Counter:
    """GPUs of each colour in the drawing of the nodes."""
    (collection,) = drawn.axes[0].collections
    return Counter(to_hex(colour).upper() for colour in collection.get_facecolor())


class TestFigure:
    def test_each_gpu_has_the_colour_of_its_holder(self, plan):
        found = cells(figure(placed(plan, CLUSTER), "placement"))
        assert sum(found.values()) == 10 * 8
        assert found[FOREIGN] == 2  # of m3; the victims are gone, and m5 hosts no island
        assert found[FREE] == 4 + 2
        assert found[PHASE_COLOURS[Phase.PREFILL].upper()] == 16  # i00; i01 and i04 are of the other shade
        assert sum(found.values()) - found[FOREIGN] - found[FREE] == 72

    def test_nodes_of_an_nvlink_domain_are_drawn_together(self, plan):
        """Under switch s0 four nodes of one domain and two of none; the same GPUs are drawn."""
        nodes = (
            replace(one, nvlink_domain="nvl-0") if one.name in ("n0", "n1", "n2", "n3") else one
            for one in CLUSTER.nodes
        )
        there = placed(plan, replace(CLUSTER, nodes=tuple(nodes)))
        panels = {panel.name: [node.name for node in panel.nodes] for panel in cells_of(there, there.placement)}
        assert panels == {"nvl-0 (s0)": ["n0", "n1", "n2", "n3"], "s0": ["n4", "n5"], "s1": ["m0", "m1", "m2", "m3"]}
        assert foreign_of(there, panels) == {"nvl-0 (s0)": (0, 0), "s0": (0, 0), "s1": (10, 14)}
        assert cells(figure(there, "placement")) == cells(figure(placed(plan, CLUSTER), "placement"))

    def test_without_the_cluster_only_the_plan_is_drawn(self, plan):
        drawn = figure(placed(plan), "placement")
        assert cells(drawn)[FREE] == 8
        assert [text.get_text() for text in drawn.legends[0].get_texts()][-1] == "not the plan's"

    def test_bars_are_the_states(self, plan):
        _, stranded, fit = figure(placed(plan), "placement").axes
        assert [[bar.get_height() for bar in bars] for bars in stranded.containers] == [[0, 1, 7, 16], [0, 1, 9, 16]]
        assert [[bar.get_height() for bar in bars] for bars in fit.containers] == [[88, 43, 20, 9], [16, 7, 2, 0]]

    def test_many_nodes_become_bars_of_switches(self, plan):
        parts = tuple(part("i07", f"node-{k:04}", f"asw-{k // 8:03}", EIGHT) for k in range(800))
        nodes = tuple(host(f"node-{k:04}", f"asw-{k // 8:03}") for k in range(808))
        pods = (Pod(name="x", node="node-0807", gpus=(0, 1)),)
        drawn = figure(placed(plan, Cluster(name="c", nodes=nodes, pods=pods), parts=parts), "placement")
        upper = drawn.axes[0]
        assert upper.get_xlabel() == "GPUs under the switch"
        assert len(upper.get_yticks()) == 60
        assert any("60 of 100 switches" in text.get_text() for text in drawn.legends[0].get_texts())
        assert [bars[0].get_width() for bars in upper.containers] == [0, 64, 0, 0]


def wide(plan: Plan) -> Plan:
    names = [f"a-$very$-long-name-of-a-node-{k}.example.com" for k in range(30)]
    parts = tuple(part("i00", name, f"a-long-name-of-a-switch-{k // 9}", EIGHT) for k, name in enumerate(names))
    return placed(plan, parts=parts)


def tall(plan: Plan) -> Plan:
    return placed(plan, parts=tuple(part("i07", f"node-{k:04}", f"asw-{k:03}", EIGHT) for k in range(90)))


PICTURES = {
    "with cluster": lambda plan: placed(plan, CLUSTER),
    "without": placed,
    "nothing placed": lambda plan: placed(plan, parts=(), sites=()),
    "long names": wide,
    "many switches": tall,
}


def texts(drawn):
    found = [*drawn.texts, *(text for legend in drawn.legends for text in legend.get_texts())]
    for axes in drawn.axes:
        found += [axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        found += [tick.label1 for tick in (*axes.xaxis.get_major_ticks(), *axes.yaxis.get_major_ticks())]
        if not axes.axison:
            found = [text for text in found if text.axes is not axes or text in axes.texts]
    return [(t.get_text(), t.get_window_extent()) for t in found if t.get_visible() and t.get_text()]


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_leaves_the_canvas_or_runs_into_another(plan, name):
    drawn = laid_out(figure(PICTURES[name](plan), "placement"))
    require_on_canvas(drawn)
    require_apart(texts(drawn))


def test_equal_placements_give_equal_bytes(plan):
    one, other = (encode_figure(figure(placed(plan), "placement")) for _ in range(2))
    assert one == other


def test_the_section_needs_no_matplotlib():
    modules = "sys, planner.report.cluster.placement, planner.report.cluster.page"
    code = f"import {modules}; assert not {{'matplotlib', 'pandas'}} & set(sys.modules)"
    root = Path(planner.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
