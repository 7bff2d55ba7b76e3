"""A folder with a sound file of every kind that a command reads: what the fuzzer damages."""

import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

Run = Callable[[list[str], Path], None]

TINY = """\
name: tiny
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16, H20: 16}
ranges: {width: 4096}
search: {method: random, iterations: 1, batch_size: 2, min_island_size: 8}
"""
BATCH = """\
defaults: {scenario: tiny.yaml, set: {slo.ttft_ms: 9000}}
jobs:
  - {name: grid, grid: {slo.tpot_ms: 80..90:10}, seeds: [0], engines: [vllm]}
  - {name: fleets, scenario: quickstart, inventories: [{H200: 16}], traces: [normal-500-2000]}
"""
RICH = """\
name: rich
model: ./model/config.json
workload: lengths.yaml
inventory: {H200: 16, H20: 16}
prices_usd_per_gpu_hour: {H200: 4, H20: 1.5}
node_selectors: {H200: {pool: big}}
ranges: {cells: 4}
cost: {mode: default, kv_cache_rate: 0.25, max_tokens_per_step: 8192, two_micro_batches: false, balanced_experts: false,
  redundant_experts: 0, mtp_tokens: 0, mtp_acceptance: 0.8, max_pipeline_stages: 2, gpus_per_switch: 64,
  cross_switch_bandwidth: 0.8, calibration: mine.calibration.yaml}
assignment: {formulation: max_rate, solver: highs, work_limit: 20, gap: 0.01, tau: 0.3, deviation_weight: 10}
search: {method: divider, surrogate: gp, iterations: 1, batch_size: 2, min_island_size: 8, skew: 5.0, seed: 0}
slo: {ttft_ms: 8000, tpot_ms: 120, percentile: 90, ranges: [{from: 0, to: 4096, ttft_ms: 6000, tpot_ms: 100}]}
network: {nic_share: 0.5, uplinks_gb_s: {H20: 200}}
"""
TABULATED = """\
name: tabulated
model: deepseek-v3
workload: trace.csv
inventory: {H200: 32}
ranges: {width: 1024}
cost: {source: tabulated, profile: profile.csv}
search: {method: random, iterations: 1, batch_size: 1, min_island_size: 16}
"""
BUDGET = """\
name: budget
model: qwen3-30b-a3b
workload: normal-500-2000
inventory: {H200: 8, H20: 8}
ranges: {width: 4096}
objective: {kind: budget, budget_usd_per_hour: 30}
search: {method: exact, sizes: [4, 8], gap: 0.05, work_limit: 5}
"""
GOALS = """\
name: goals
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16, H20: 16}
ranges: {width: 4096}
objective: {kind: pareto, goals: [rate, price, changes], pick: within, within: 0.05, current: run}
search: {method: random, iterations: 1, batch_size: 2, min_island_size: 8, warm_start: [run]}
"""
PLACED = """\
name: placed
model: qwen3-30b-a3b
workload: normal-500-2000
inventory: cluster
ranges: {width: 4096}
search: {method: random, iterations: 1, batch_size: 2, min_island_size: 4}
cluster: cluster.yaml
placement: {qos: guaranteed, cpus_per_gpu: 4, memory_gb_per_gpu: 8, preempt: true, priority: 1000,
  victim_rule: combined, most_victims: 9, power_cap_w: 0, weights: {topology: 1, power: 0.5}, tolerations:
  [{key: team, effect: NoSchedule}]}
"""
LENGTHS = """\
name: mine
kind: lengths
mean_output_tokens: 60
max_output_tokens: 400
arrival_rps: 2.5
lengths: |
  input_tokens,probability
  128,0.25
  2000,0.5
  7000,0.25
"""
FOREIGN = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [qwen3-30b-a3b, --tensor-parallel-size, "2", --max-num-seqs=64]
          resources: {limits: {nvidia.com/gpu: "2"}}
"""
OFFER = """\
gpus:
  H200: {usd_per_hour: 3.5, count: 16}
  H20: {}
whole_nodes: true
source: mine
"""
PRICE_LIST = "H200: 3.5\nH20: {usd_per_hour: 1, date: 2026-01, source: mine}\n"
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"{k * 0.5},{200 + 130 * k},{5 + k % 9}\n" for k in range(20)
)
JSON_LINES = "".join(
    json.dumps({"timestamp": k * 500, "input_length": 200 + 130 * k, "output_length": 5 + k % 9}) + "\n"
    for k in range(20)
)
MEASURED = "gpu,model,phase,tp,dp,ep,length,batch,ms\n" + "".join(
    f"H200,deepseek-v3,{phase},1,16,16,{length},{batch},{ms}\n"
    for phase, length, batch, ms in (
        ("decode", 1024, 64, 48),
        ("decode", 4096, 64, 61),
        ("decode", 4096, 128, 95),
        ("prefill", 1024, 4, 650),
        ("prefill", 4096, 4, 2500),
    )
)
PROFILE = "gpu,model,phase,tp,dp,ep,length,batch,ms\n" + "".join(
    f"H200,deepseek-v3,{phase},1,16,16,{length},{batch},{20 + length / 20 + batch}\n"
    for phase in ("prefill", "decode")
    for length in (64, 1024, 8192)
    for batch in (1, 16, 128)
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{k},{cpus}000,393216,{gpus},{model}\n"
    for k, (model, gpus, cpus) in enumerate([("G2", 8, 96), ("T4", 2, 104), ("", 0, 32)] * 2)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" + "".join(
    f"p{k},{4 + 4 * (k % 3)}000,8192,{gpus},{milli},{spec},{60 * k},{60 * k + 900}\n"
    for k, (gpus, milli, spec) in enumerate(
        [(1, 1000, ""), (1, 500, "T4"), (0, 0, ""), (1, 470, "G2|T4"), (2, 1000, "")] * 3
    )
)
SPOT_NODES = "gpu_model,gpu_capacity_num,cpu_num,node_name\n" + "".join(f"A10,8,192,s{k}\n" for k in range(4))
JOBS = (
    "job,class,submit_s,pods,gpus,cpus,duration_s,checkpoint_s,gpu_model,standby\n"
    "a,hp,0,1,8,64,80000,,A10,3600-7200;10800-14400\nb,spot,100,2,2,8,7200,600,,\nc,spot,9000,1,4,8,3600,900,,\n"
)
NUMA = "default: [0, 0, 0, 0, 1, 1, 1, 1]\nn-2: {gpus: [0, 0, 0, 0, 1, 1, 1, 1], sockets: [0, 1]}\n"
HOST = {
    "lscpu.txt": "# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n2,2,1,1\n3,3,1,1\n",
    "topo.txt": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\tPIX\t0-1\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t2-3\t1\t\tN/A\nNIC0\tPIX\tSYS\t X\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
    "gpus.csv": "0, GPU-a, NVIDIA H200, 143771\n1, GPU-b, NVIDIA H200, 143771\n",
}
MODEL = {
    "_planner": {"uri": "hf://example/mine", "source": "made up"},
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

SERVED = """\
model,kind,machine,size_mb,step_s,prompt_s,most_batch,memory_mb,sla_s,llm
a,single,large,100,0.02,,,,2,
b,continuous-batch,large,500,1:0.01;8:0.02,1:0.1;1000:0.5,8,900,,
c,autoregressive,,,,,,,9,qwen3-30b-a3b
"""


def metrics() -> str:
    """An answer of Prometheus with the traffic of one engine."""
    labels = {"planner_engine": "vllm", "model_name": "m", "app_kubernetes_io_part_of": "p"}
    rows = [("planner:arrivals:rate", {}, 2.0), ("planner:ended_requests:increase", {}, 7200.0)]
    for what, mean in (("prompt", 900), ("answer", 800)):
        rows += [(f"planner:{what}_length_bucket:rate", {"le": le}, rate) for le, rate in
                 (("100.0", 0.9), ("1000.0", 1.2), ("5000.0", 2.0), ("+Inf", 2.0))]  # fmt: skip
        rows += [(f"planner:{what}_length_sum:rate", {}, 2.0 * mean)]
    result = [{"metric": {"__name__": name, **labels, **more}, "value": [1.7e9, str(x)]} for name, more, x in rows]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}, indent=1) + "\n"


def kernels_wheel() -> bytes:
    """A package with one table of measured kernels."""
    rows = pd.DataFrame({"gemm_dtype": "fp8", "m": [1, 8, 64], "n": 64, "k": 64, "latency": [0.01, 0.01, 0.02]})
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("core/systems/data/h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet", rows.to_parquet())
    return wheel.getvalue()


def kubectl_list() -> dict[str, Any]:
    """Two nodes of eight H200 with a pod each, and a disruption budget."""
    held = {"cpu": "64", "memory": "1000Gi", "nvidia.com/gpu": "8", "pods": "110"}
    items: list[dict[str, Any]] = []
    for name in ("n-1", "n-2"):
        labels = {"rack": "r1", "nvidia.com/gpu.product": "NVIDIA-H200"}
        taint = {"key": "team", "value": "serving", "effect": "NoSchedule"}
        status = {"capacity": held, "allocatable": held, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
        items.append({"kind": "Node", "metadata": meta, "spec": {"taints": [taint]}, "status": status})
    for name, node, gpus in (("a", "n-1", 8), ("b", "n-2", 2)):
        asked = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
        spec = {"nodeName": node, "priority": 0, "containers": [{"name": "c", "resources": {"requests": asked}}]}
        meta = {"name": name, "namespace": "ns", "labels": {"app": "x"}, "creationTimestamp": "2026-01-02T00:00:00Z"}
        items.append({"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}})
    budget = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    status = {"disruptionsAllowed": 1}
    meta = {"name": "pdb", "namespace": "ns"}
    items.append({"kind": "PodDisruptionBudget", "metadata": meta, "spec": budget, "status": status})
    return {"kind": "List", "apiVersion": "v1", "items": items}


def kind_of_its_own() -> dict[str, Any]:
    """A CRD of a kind that no manifest has."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "plural": "widgets"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


TEXTS = {
    "tiny.yaml": TINY,
    "rich.yaml": RICH,
    "jobs.yaml": BATCH,
    "tabulated.yaml": TABULATED,
    "budget.yaml": BUDGET,
    "load.csv": "time,requests_per_s\n" + "".join(f"{600 * k},{1 + k % 3}\n" for k in range(4)),
    "goals.yaml": GOALS,
    "placed.yaml": PLACED,
    "lengths.yaml": LENGTHS,
    "foreign/chat.yaml": FOREIGN,
    "offer.yaml": OFFER,
    "prices.yaml": PRICE_LIST,
    "trace.csv": TRACE,
    "trace.jsonl": JSON_LINES,
    "requests.json": f"[{','.join(JSON_LINES.splitlines())}]\n",
    "state.yaml": "load_rps: 2\n",
    "metrics.json": metrics(),
    "measured.csv": MEASURED,
    "profile.csv": PROFILE,
    "rates.csv": "pool,window_start_s,requests_per_s,cv\n"
    + "".join(f"a,{3600 * k},{1 + k % 3},1.5\n" for k in range(4)),
    "days.csv": "pool,window_start_s,requests_per_s,cv\n"
    + "".join(f"a,{21_600 * k},{1 + k % 4},1.5\n" for k in range(8)),
    "nodes.csv": NODES,
    "pods.csv": PODS,
    "arrivals.csv": "pod\n" + "".join(f"p{k}\n" for k in (3, 1, 4, 0, 5, 9, 2, 6)),
    "ties.csv": "node\n" + "".join(f"n{k}\n" for k in (5, 4, 3, 2, 1, 0)),
    "spot-nodes.csv": SPOT_NODES,
    "jobs.csv": JOBS,
    "asi-trace/job_info.csv": "job_name,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
    + "".join(
        f"{k},A10,{8 + k},{k % 3 or 0.5},{1 + k % 2},{600 * k},{900 + 60 * k},{'HP' if k % 3 else 'Spot'}\n"
        for k in range(9)
    ),
    "asi-trace/node_info.csv": "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,a\nA10,8,128,b\n",
    "pool.csv": "machine,count,slots,memory_mb,load_mbit_s,reserve,gpu\nlarge,2,2,,100000,1,H100\nsmall,1,2,8000,,,\n",
    "served.csv": SERVED,
    "asked.csv": "arrival_s,model,prompt_tokens,output_tokens\n"
    + "".join(f"{k * 0.4},{'abc'[k % 3]},{50 * k},{k}\n" for k in range(12)),
    "minutes.csv": "minute,model,requests\n0,a,9\n0,b,3\n1,c,2\n",
    "outages.csv": "machine,start_s,end_s\n0,2,6\n1,3,\n",
    "numa.yaml": NUMA,
    "devices.yaml": "ns/b: [4, 5]\n",
    "list.json": json.dumps(kubectl_list(), indent=1),
    "model/config.json": json.dumps(MODEL, indent=1),
    "schemas/widget.json": json.dumps(kind_of_its_own(), indent=1),
    **{f"host/{name}": text for name, text in HOST.items()},
}
MADE = """\
cost calibrate measured.csv --engine vllm --out mine.calibration.yaml
plan tiny.yaml --out run --quiet
plan budget.yaml --out hired --quiet
cluster synth --nodes 6 --seed 1 --load 0.3 --type H200=1 --type H20=1 --out cluster.yaml
place run --cluster cluster.yaml --out placed-run
cluster import --kubectl list.json --gpu-numa numa.yaml --devices devices.yaml --level asw=rack --out small.yaml
cluster flextopo small.yaml --out topos
export placed-run --topology-objects --out lws
export run --target script --out script
export run --target dynamo --out dynamo
export run --target llm-d --out llm-d
export run --target kueue --out kueue
"""


def furnish(folder: Path, run: Run) -> None:
    """Write every file into `folder`; `run` calls the program there."""
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "trace.csv.xz").write_bytes(lzma.compress(TRACE.encode()))
    (folder / "kernels.whl").write_bytes(kernels_wheel())
    for line in MADE.splitlines():
        run(line.split(), folder)
