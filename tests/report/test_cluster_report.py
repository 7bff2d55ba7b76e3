"""A cluster as a page, as JSON and as a picture: every number follows from a cluster written out here."""

from collections import Counter
from dataclasses import replace

import pytest
from drawn_figures import laid_out, require_apart, require_on_canvas
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from planner.domain import (
    Cluster,
    ClusterNode,
    Fragmentation,
    FragmentCause,
    NodeGpu,
    NumaNode,
    PlacedPart,
    Pod,
    PodClass,
    TypicalPod,
)
from planner.report import cluster_document, cluster_figure, cluster_page, encode_figure, page_text
from planner.report.cluster.cluster_panels import COLOURS, MOST_NODES, Owner, by_level, owners_of
from planner.report.cluster.cluster_state import crosses_sockets, fragments, summarize_cluster
from planner.report.cluster.page import MOST_CLASSES, causes_table
from planner.report.kit.markdown import table_text


def node(name: str, gpu: str = "H20", asw: str = "s1", gpus: int = 8, aggregation: str = "a1") -> ClusterNode:
    """Two sockets, each with half of the GPUs."""
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=2 * k // gpus) for k in range(gpus)),
        numa_nodes=(NumaNode(id=0, socket=0, cores=(0, 1)), NumaNode(id=1, socket=1, cores=(2, 3))),
        cpus=192.0,
        memory_gb=2048.0,
        asw=asw,
        aggregation=aggregation,
    )


SMALL = Cluster(
    name="small_one",
    nodes=(
        node("n0"),
        node("n1"),
        node("n2", gpu="H200", asw="s2"),
        node("n3", gpu="H200", asw=""),
        node("plain", gpu="", gpus=0),
    ),
    pods=(
        Pod(name="p0", node="n0", gpus=(3, 4), gpu_request=2, cpus=16.0),  # across sockets, needlessly
        Pod(name="p1", node="n0", gpus=(5, 6, 7), gpu_request=3, kind=PodClass.SPOT, preemptible=True),
        Pod(name="p2", node="n2", gpus=tuple(range(8)), gpu_request=8, kind=PodClass.OFFLINE, locked=True),
        Pod(name="p3", node="n3", gpu_request=2),  # which GPUs is not known
        Pod(name="p4", node="plain", cpus=4.0),
    ),
    notes=("taken from | a table",),
)


def tables(page: str, heading: str) -> list[list[str]]:
    text = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return rows[2:]


class TestPage:
    page = page_text(cluster_page(SMALL))

    def test_the_headline_counts(self):
        assert self.page.startswith("# Cluster: small\\_one\n")
        assert "**15 of 32 GPUs are held (47 %)**, 17 are idle. 4 nodes with GPUs and 1 node without" in self.page
        assert "2 access switches, 1 aggregation switch; 1 under no known switch." in self.page

    def test_types(self):
        assert tables(self.page, "GPUs") == [
            ["H20", "2", "16", "5", "11", "31 %", "1", "1", "2"],
            ["H200", "2", "16", "10", "6", "62 %", "0", "1", "1"],
        ]

    def test_classes_of_pods_that_hold_gpus(self):
        assert tables(self.page, "Pods") == [
            ["online", "2", "4", "16", "0", "0"],
            ["offline", "1", "8", "0", "0", "8"],
            ["spot", "1", "3", "0", "3", "0"],
        ]
        assert "1 of 2 pods of several GPUs lies across sockets" in self.page

    def test_fragments(self):
        """Idle: 3 on n0, 8 on n1, 0 on n2, and 6 on n3, whichever they are."""
        assert tables(self.page, "Fragmentation") == [
            ["1", "17", "0", "0 %"],
            ["2", "8", "0", "0 %"],
            ["4", "3", "3", "18 %"],
            ["8", "1", "9", "53 %"],
        ]
        assert "nobody said which; their idle GPUs count by number" in self.page
        assert "or none: n3." in self.page
        assert "taken from \\| a table" in self.page

    def test_json_has_the_same_figures(self):
        document = cluster_document(SMALL)
        assert (document["gpus"], document["idle"], document["unknown_nodes"]) == (32, 17, ("n3",))
        assert [one["stranded"] for one in document["fragments"]] == [0, 0, 3, 9]
        assert [(one["gpu"], one["idle"]) for one in document["types"]] == [("H20", 11), ("H200", 6)]

    def test_gpus_in_parts_are_told_by_themselves(self):
        """56 slices on one node and 28 on another, of which pods hold two sevenths; no whole GPU is counted."""
        cut = [replace(node(f"m{k}", gpus=0), offers=(("nvidia.com/gpu", pieces),)) for k, pieces in ((0, 56), (1, 28))]
        pods = (Pod(name="a", node="m0", gpu_share=1 / 7), Pod(name="b", node="m1", gpu_share=1 / 7))
        cluster = Cluster(name="c", nodes=(node("n0"), *cut), pods=pods)
        page = page_text(cluster_page(cluster))
        assert tables(page, "GPUs")[-1] == ["H20", "nvidia.com/gpu", "2", "84", "0.286"]
        assert "**0 of 8 GPUs are held" in page
        assert "**No whole GPU on 2 nodes" in page_text(cluster_page(Cluster(name="c", nodes=tuple(cut))))
        (row,) = cluster_document(cluster)["offers"]
        assert row == {"gpu": "H20", "resource": "nvidia.com/gpu", "nodes": 2, "pieces": 84, "held_gpus": 0.286}

    def test_a_cluster_without_gpus(self):
        page = page_text(cluster_page(Cluster(name="c", nodes=(node("plain", gpu="", gpus=0),))))
        assert "**1 node without a GPU.**" in page
        assert "No pod holds a GPU." in page


@given(st.lists(st.integers(0, 8), max_size=30))
def test_fragments_are_those_of_taking_requests_one_by_one(idle):
    for one in fragments(idle):
        left, fit = list(idle), 0
        while any(free >= one.gpus for free in left):
            at = next(k for k, free in enumerate(left) if free >= one.gpus)
            left[at] -= one.gpus
            fit += 1
        assert one.fit == fit
        assert one.stranded == sum(free for free in idle if free < one.gpus)


def test_crossing_counts_only_where_a_socket_would_do():
    host = node("n")
    assert [crosses_sockets(host, gpus) for gpus in ((0, 3), (3, 4), (0, 1, 2, 3), range(5), range(8))] == [
        False,
        True,
        False,
        None,
        None,
    ]


def colours_of(figure) -> Counter:
    """Area of each colour over all the panels' patches."""
    found: Counter = Counter()
    for axes in figure.axes:
        for collection in axes.collections:
            paths, colours = collection.get_paths(), collection.get_facecolor()
            if len(colours) and len(paths) in (len(colours), len(paths)) and paths and len(paths[0].vertices) == 5:
                for k, path in enumerate(paths):
                    box = path.get_extents()
                    found[to_hex(colours[k % len(colours)]).upper()] += box.width
    return found


class TestPicture:
    def test_each_gpu_has_its_owners_colour(self):
        found = colours_of(cluster_figure(SMALL))
        cells = {owner: found[COLOURS[owner].upper()] / 0.94 for owner in Owner}
        assert cells == pytest.approx(
            {
                Owner.PLANNED: 0,
                Owner.ONLINE: 2,
                Owner.OFFLINE: 8,
                Owner.SPOT: 3,
                Owner.UNKNOWN: 2,
                Owner.IDLE: 17,
            }
        )

    def test_a_plans_gpus_are_shown(self):
        part = PlacedPart(island="i", replica=0, node="n1", asw="s1", tp=2, gpu_indices=(0, 1, 6, 7), numa_nodes=(0, 1))
        one = owners_of(SMALL, [part])[1]
        assert [owner is Owner.PLANNED for owner in one.owners] == [True, True, *[False] * 4, True, True]
        assert [group.places for group in one.groups] == [(0, 1), (6, 7)]
        assert not any(group.crossing for group in one.groups)

    def test_a_large_cluster_is_told_by_switch(self):
        nodes = tuple(node(f"n{k}", asw=f"s{k // 50}") for k in range(300))
        large = Cluster(name="large", nodes=nodes, pods=(Pod(name="p", node="n0", gpus=tuple(range(8))),))
        figure = cluster_figure(large)
        assert "each access switch" in figure.get_suptitle()
        found = colours_of(figure)
        assert found[COLOURS[Owner.ONLINE].upper()] == pytest.approx(8 / 400)
        assert found[COLOURS[Owner.IDLE].upper()] == pytest.approx(6 - 8 / 400)

    def test_too_many_switches_are_told_by_the_level_above(self):
        def level(**fixed: str) -> tuple[str, int]:
            nodes = (node(f"n{k}", asw=f"s{k}", aggregation=fixed.get("aggregation", f"a{k}")) for k in range(601))
            name, groups = by_level(owners_of(Cluster(name="c", nodes=tuple(nodes))))
            return name, len(groups)

        assert level(aggregation="a") == ("aggregation switch", 1)
        assert level() == ("GPU type", 1)


def many(count: int, each: int, name: str = "c", prefix: str = "node-") -> Cluster:
    nodes = tuple(
        node(f"{prefix}{k:05}", asw=f"{prefix}switch-{k // each:04}", gpu=("H20", "H200")[k // each % 2])
        for k in range(count)
    )
    pods = tuple(
        Pod(name=f"p{k}", node=nodes[k].name, gpus=(k % 3, 3 + k % 5), gpu_request=2, kind=list(PodClass)[k % 3])
        for k in range(count)
    )
    return Cluster(name=name, nodes=nodes, pods=pods)


PICTURES = {
    "small": SMALL,
    "one node": replace(SMALL, nodes=SMALL.nodes[:1], pods=SMALL.pods[:1]),
    "no gpus": replace(SMALL, nodes=SMALL.nodes[-1:], pods=()),
    "most": many(MOST_NODES, 40),
    "long names": many(30, 7, name="a_long_name-" * 9, prefix="a-$very$-long-name-of-a-node.example.com-"),
    "large": many(700, 7),
}


def texts(figure):
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        found += [*axes.texts, *(tick.label2 for tick in axes.xaxis.get_major_ticks())]
    return [(t.get_text(), t.get_window_extent()) for t in found if t.get_visible() and t.get_text()]


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_leaves_the_canvas_or_runs_into_another(name):
    figure = laid_out(cluster_figure(PICTURES[name]))
    require_on_canvas(figure)
    require_apart(texts(figure))


def test_one_cluster_one_picture():
    assert encode_figure(cluster_figure(SMALL), "svg") == encode_figure(cluster_figure(SMALL), "svg")


def test_the_summary_adds_up():
    found = summarize_cluster(many(100, 9))
    assert found.gpus == 800
    assert found.idle == found.fragments[0].fit == 600
    assert sum(one.gpus for one in found.classes) == 200


class TestCauses:
    cause = FragmentCause(short_of_gpu=1500.0, short_of_both=40.0, usable=2460.0)
    asked = TypicalPod(cpu_milli=8000, gpus=2, gpu_milli=1000, gpu_spec="", weight=3.0, popularity=0.75)
    half = TypicalPod(cpu_milli=500, gpus=1, gpu_milli=500, gpu_spec="H20|H200", weight=1.0, popularity=0.25)
    found = Fragmentation(
        idle_gpu_milli=4000,
        causes=cause,
        classes=((half, FragmentCause(not_allowed=1000.0, usable=3000.0)), (asked, cause)),
    )

    def test_a_row_a_class_the_most_frequent_first(self):
        page = page_text(cluster_page(SMALL, self.found))
        assert "Of the 4 GPUs that are idle, where it is known which, the next pod cannot use **38 %**" in page
        assert tables(page, "Fragmentation")[6:] == [
            ["2 GPUs, 8 CPUs", "75 %", "2.5", "1.5", "0", "\\<0.1", "0"],
            ["0.5 GPU, 0.5 CPUs, H20\\", "H200", "25 %", "3", "0", "0", "0", "1"],
            ["expected", "", "2.5", "1.5", "0", "\\<0.1", "0"],
        ]

    def test_many_classes_are_counted(self):
        many_kinds = tuple((replace(self.asked, gpus=k + 1), self.cause) for k in range(MOST_CLASSES + 3))
        text = table_text(causes_table(replace(self.found, classes=many_kinds)))
        assert "| 3 further kinds | 20 % | – | – | – | – |" in text
        assert len(text.splitlines()) == 2 + MOST_CLASSES + 2

    def test_nothing_idle(self):
        assert "No GPU is idle." in page_text(cluster_page(SMALL, replace(self.found, idle_gpu_milli=0)))
        document = cluster_document(SMALL, self.found)["fragmentation"]
        assert document["ratio"] == pytest.approx(0.385)
        assert document["classes"][1]["causes"]["short_of_gpu"] == 1500
