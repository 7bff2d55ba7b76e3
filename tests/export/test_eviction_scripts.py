"""The script of a plan's evictions: what it does to a cluster, what it refuses, and that --check knows it."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from contract_plans import placed_plan
from export_plans import DECODE, PREFILL

from planner.domain import Plan, Victim
from planner.errors import InputError
from planner.export import TARGETS, ExportOptions, render
from planner.runs.deployments import render_plan

FILE = "evictions.sh"
KUBECTL = """\
#!/usr/bin/env bash
if [ "$1" = get ]; then
  grep "^$5/$3 " nodes.txt | cut -d ' ' -f 2 | tr -d '\\n'
else
  { echo "$3"; cat; echo; } >> asked.txt
fi
"""
"""Stands for kubectl: `get` looks a pod's node up in nodes.txt, `create --raw` writes down what came."""


def victim(pod: str, order: int, node: str = "h0", island: str = PREFILL.id) -> Victim:
    return Victim(pod=pod, node=node, island=island, priority=5, gpus=4, lost_gpu_hours=None, order=order)


def evicting(*victims: Victim, priority_class: str = "") -> Plan:
    plan = placed_plan()
    assert plan.placement is not None
    settings = replace(plan.scenario.placement, priority_class=priority_class)
    listed = victims or (victim("batch/train-0", 1), victim("default/web.a", 2, "d1", DECODE.id))
    return replace(
        plan,
        scenario=replace(plan.scenario, placement=settings),
        placement=replace(plan.placement, victims=listed),
    )


def run(files: Mapping[str, str], folder: Path, nodes: str) -> subprocess.CompletedProcess[str]:
    (folder / FILE).write_text(files[FILE])
    (folder / "nodes.txt").write_text(nodes)
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", FILE], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=30
    )


def test_pods_are_evicted_in_the_plans_order(tmp_path: Path) -> None:
    done = run(render(evicting()), tmp_path, "batch/train-0 h0\ndefault/web.a d1\n")
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "asked.txt").read_text().splitlines()
    assert lines[::2] == [
        "/api/v1/namespaces/batch/pods/train-0/eviction",
        "/api/v1/namespaces/default/pods/web.a/eviction",
    ]
    assert json.loads(lines[1]) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "train-0", "namespace": "batch"},
    }


def test_pods_that_are_gone_or_elsewhere_stay_untouched(tmp_path: Path) -> None:
    done = run(render(evicting()), tmp_path, "default/web.a other\n")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "batch/train-0 is not on h0 any more: passed over",
        "default/web.a is not on d1 any more: passed over",
    ]
    assert not (tmp_path / "asked.txt").exists()


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"kubernetes"}))  # whose islands fit a node: not this plan's
def test_every_target_that_deploys_has_the_script_and_the_shell_reads_it(target: str, tmp_path: Path) -> None:
    files = render_plan(evicting(), target=target).files
    assert (FILE in files) == (target != "kueue")
    if FILE in files:
        (tmp_path / FILE).write_text(files[FILE])
        subprocess.run(["bash", "-n", FILE], cwd=tmp_path, check=True, timeout=30)
        commands = [line for line in files[FILE].splitlines() if line.startswith("evict ")]
        assert commands == ["evict batch train-0 h0", "evict default web.a d1"]


def test_nobody_goes_nothing_is_written() -> None:
    assert FILE not in render(placed_plan())


@pytest.mark.parametrize(
    ("plan", "options"),
    [(evicting(priority_class="serving"), None), (evicting(), ExportOptions(priority_class="serving"))],
)
def test_without_a_priority_class_it_is_warned(plan: Plan, options: ExportOptions | None) -> None:
    (warning,) = (one for one in render_plan(evicting()).warnings if FILE in one)
    assert "name no priority class" in warning
    assert "--priority-class" in warning
    assert "placement.priority_class" in warning
    assert not any(FILE in one for one in render_plan(plan, options=options).warnings)
    assert "WARNING" not in render_plan(evicting(), target="script").files[FILE]  # its processes are no pods


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        ("default/$(reboot)", "h0"),
        ("default/a b", "h0"),
        ("default/a'; reboot; '", "h0"),
        ("de.fault/a", "h0"),
        ("Default/a", "h0"),
        ("default/", "h0"),
        ("default/-a", "h0"),
        ("default/a", "h0;reboot"),
        (f"default/{'a' * 254}", "h0"),
    ],
)
def test_names_that_kubernetes_has_for_none_are_refused(pod: str, node: str) -> None:
    with pytest.raises(InputError, match="must be a Kubernetes name to be evicted"):
        render(evicting(victim(pod, 1, node)))


def test_an_islands_name_cannot_leave_its_comment(tmp_path: Path) -> None:
    files = render(evicting(victim("default/a", 1, island="x\nreboot")))
    assert "\nreboot" not in files[FILE]
