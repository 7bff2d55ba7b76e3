"""ComputeDomains: NVLink between the trays of an NVL72, for copies that count on it; and mistakes in them."""

import re
from dataclasses import replace

import kubernetes_validate
import pytest
from contract_plans import single_node_plan
from export_plans import UNSHARED, gpu, island, plan_of
from quick_yaml import load_documents

from planner.domain import Alignment, ClusterState, IslandSite, ParallelConfig, Phase, Placement, Plan
from planner.errors import ExportError
from planner.export import ExportOptions, find_faults, render

ASKED = ExportOptions(compute_domains=True)
FILE = "compute-domains.yaml"


def trays(tp: int = 4) -> Plan:
    """Trays of four GPUs under one NVLink: prefill in two trays a copy, decode in one."""
    tray = gpu("GB200", gpus_per_host=4, gpus_per_nvlink_domain=72, compute_capability=10.0)
    islands = (
        island("wide", "GB200", Phase.PREFILL, ParallelConfig(tp=tp, dp=8 // tp, replicas=2), batch_size=2),
        island("narrow", "GB200", Phase.DECODE, ParallelConfig(tp=4, dp=1, replicas=2)),
    )
    return plan_of(islands, gpus=(tray,), name="trays", model=UNSHARED)


@pytest.mark.parametrize("target", ["lws", "disaggregatedset"])
def test_every_pod_of_a_copy_over_trays_claims_the_channel_of_its_islands_domain(target: str) -> None:
    plan = trays()
    files = render(plan, target=target, options=ASKED)
    (domain,) = load_documents(files[FILE])
    assert (domain["apiVersion"], domain["spec"]["numNodes"]) == ("resource.nvidia.com/v1beta1", 0)
    template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    text = "".join(text for name, text in files.items() if name != FILE)
    claimed = re.findall(r"resourceClaimTemplateName: (\S+)", text)
    assert claimed == [template] * 2, "leader and workers of the wide island, nobody of the narrow one"
    assert len(re.findall(r"claims:\n +- name: nvlink\n", text)) == 2
    assert "which are not written here" not in text
    assert find_faults(files, plan) == () == find_faults(files)


def test_pods_with_claims_are_pods_to_kubernetes() -> None:
    (wide, *_) = load_documents(render(trays(), options=ASKED)["01-wide.yaml"])
    for template in ("leaderTemplate", "workerTemplate"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        spec = wide["spec"]["leaderWorkerTemplate"][template]["spec"]
        kubernetes_validate.validate({**pod, "spec": spec}, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("crossing", [0, 1])
def test_copies_that_the_placement_has_in_several_domains_are_told(crossing: int) -> None:
    """No ComputeDomain joins racks."""
    site = IslandSite(
        island="wide",
        gpus=16,
        nodes=4,
        switches=(("s0", 16),),
        entropy=0.0,
        aligned=True,
        worst=Alignment.NUMA,
        crossing_replicas=0,
        domains=(("nvl-0", 12), ("nvl-1", 4)),
        crossing_domains=crossing,
    )
    state = ClusterState(gpus=0, allocated=0, idle=0, headroom_gpus=0, watts=0.0, empty_nodes=0, fragments=())
    placement = Placement(
        parts=(), cluster="c", score=0.0, terms=(), sites=(site,), shortfalls=(), before=state, after=state
    )
    text = render(replace(trays(), placement=placement), options=ASKED)["01-wide.yaml"]
    told = "1 of 2 copies in several NVLink domains" in " ".join(text.replace("#", " ").split())
    assert told == bool(crossing)


def test_without_the_option_the_comment_says_how_to_get_it() -> None:
    files = render(trays())
    assert FILE not in files
    assert "--compute-domains" in files["01-wide.yaml"]
    assert "ComputeDomain" not in files["02-narrow.yaml"]


def test_pods_that_share_a_host_cannot_claim_and_the_comment_says_so() -> None:
    plan = plan_of(
        (
            island("wide", "GB200", Phase.PREFILL, ParallelConfig(tp=2, dp=3), batch_size=2),
            island("narrow", "GB200", Phase.DECODE, ParallelConfig(tp=4, dp=1)),
        ),
        gpus=(gpu("GB200", gpus_per_host=4, gpus_per_nvlink_domain=72, compute_capability=10.0),),
        model=UNSHARED,
    )
    files = render(plan, options=ASKED)
    assert FILE not in files
    assert "pods of 2 GPUs cannot each claim the one channel of a host" in files["01-wide.yaml"]


@pytest.mark.parametrize("target", ["kubernetes", "llm-d", "kserve", "dynamo", "script", "kueue"])
def test_other_targets_refuse(target: str) -> None:
    with pytest.raises(ExportError, match="nothing in its files can carry compute_domains"):
        render(single_node_plan(), target=target, options=ASKED)
