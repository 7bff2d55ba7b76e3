"""Sound command lines, at least one for every command, and the files of the workshop that each reads."""

from dataclasses import dataclass
from pathlib import Path

GROUPS = ("workload", "model", "cost", "cost kernels", "cluster", "study", "simulate")

# what is typed after `planner` | files that it reads; `costly`: takes seconds when it goes through, `long` minutes
TABLE = """
check tiny.yaml | tiny.yaml
check rich.yaml --json | rich.yaml model/config.json lengths.yaml mine.calibration.yaml
check tabulated.yaml | tabulated.yaml trace.csv profile.csv
check budget.yaml | budget.yaml
check goals.yaml | goals.yaml run/plan.json
check placed.yaml | placed.yaml cluster.yaml
plan tiny.yaml --out made --quiet | tiny.yaml costly
plan tabulated.yaml --out made --json | tabulated.yaml trace.csv profile.csv costly
plan placed.yaml --out made --seed 3 --processes 1 --engine vllm | placed.yaml cluster.yaml costly
plan --resume run | run/plan.json
cheapest --rps 2 --model qwen3-30b-a3b --workload lengths.yaml --offer offer.yaml --ttft 4s --tpot 60ms --json | offer.yaml lengths.yaml costly
buy --usd 60 --model qwen3-30b-a3b --workload lengths.yaml --offer offer.yaml --survive 1 --share 0.4 --quiet | offer.yaml lengths.yaml costly
max --inventory H200=4 --model model/config.json --workload lengths.yaml --prices H200=3.5 --percentile 90 --tpot 80ms --json | model/config.json lengths.yaml costly
init made.yaml --model model/config.json --workload trace.csv --inventory H200=8 --prices prices.yaml --ttft 4s --rps 3 | model/config.json trace.csv prices.yaml costly
scenarios --json |
frontier budget.yaml --points 2 --out made | budget.yaml costly
serving tiny.yaml --tpot 40,80 --out made --quiet | tiny.yaml costly
replay run --trace trace.csv --arrivals trace --between 0:20 --requests 40 --seeds 1 --json | run/plan.json trace.csv costly
replay run --requests 40 --seeds 1 --quiet | run/plan.json costly
replay run --trace lengths --rate 0.5x --variation 4 --requests 40 --seeds 0,3 --warm-up 0.2 --quiet | run/plan.json costly
replan run --inventory H200=16,H20=24 --keep 0.5 --least-share 0.5 --no-replay --out made --json | run/plan.json costly
replan run --set slo.tpot_ms=200 --most-gpus 16 --storage-gb-s 4 --least-share 0 --out made | run/plan.json costly
verify run --json | run/plan.json costly
routers run --quiet | run/plan.json costly
doubt run --draws 16 --demand 0.2 --unavailable 0.01 --sure 0.8 --breakpoints 1 --out made --json | run/plan.json costly
tune run --trace lengths --goals ttft --rate 0.8x --rounds 2 --batch 3 --requests 100 --seed 1 --out made --json | run/plan.json costly
rehearse run --trace lengths --requests 20 --router haproxy --quiet | run/plan.json long
observe run --queries | run/plan.json
advise --manifests foreign --workload lengths.yaml --slo tpot_ms=90 --rps 2 --gpu chat=H200 --inventory H200=8 --prices H200=3.5 --quiet --out made | foreign/chat.yaml lengths.yaml costly
advise --manifests foreign --queries --window 30m --router round_robin --headroom 0.3 --least-servers 1 --json | foreign/chat.yaml
prove run --url http://127.0.0.1:9 --trace lengths --rate 2 --requests 20 --minutes 1 --seed 1 --warm-up 0.2 --router least_work --json | run/plan.json long
mcp --root . --seconds 5 | costly
report run | run/plan.json
report run --since placed-run --force | run/plan.json placed-run/plan.json
report run --out made | run/plan.json costly
report placed-run --json | placed-run/plan.json
place run --cluster cluster.yaml --out made --moves 2 --json | run/plan.json cluster.yaml costly
place run --cluster cluster.yaml --out made --repairs mended | run/plan.json cluster.yaml costly
defrag small.yaml --out made --seed 1 --states 9 --most-moves 3 --most-at-once 2 --processes 1 --json | small.yaml
defrag cluster.yaml --most-gpu-hours 2.5 --overlap-minutes 5 --depth 2 --rounds 1 --partition-nodes 4 | cluster.yaml
defrag small.yaml --every never,12,6 --days 1 --life-hours 6 --seeds 0-1 --most-moves-per-node-hour 2 --processes 1 --out made | small.yaml
export run --out made --engine vllm --cpus-per-gpu 4 --memory-gib-per-gpu 32 --name mine | run/plan.json
export run --out made --target script --image NVIDIA=a:b | run/plan.json
export run --out made --target dynamo --grid-cells 8 --namespace there --model-volume weights | run/plan.json
export placed-run --out made --topology asw=rack --pin-nodes --priority-class high --pod-resource rdma/ib=8 | placed-run/plan.json
export placed-run --out made --target kueue --queue mine | placed-run/plan.json
export placed-run --out made --topology-objects --json --schemas schemas | placed-run/plan.json schemas/widget.json
export --check lws placed-run | lws/routing.yaml lws/01-*.yaml lws/02-*.yaml lws/flextopo.yaml placed-run/plan.json
export --check script run --json | script/routing.json script/01-*.sh run/plan.json
export --check dynamo run --schemas schemas | dynamo/00-frontend.yaml dynamo/routing.yaml schemas/widget.json run/plan.json
export --check llm-d run | llm-d/01.values.yaml llm-d/releases.yaml llm-d/routing.json llm-d/services.yaml run/plan.json
export --check kueue run | kueue/flavors.yaml kueue/queues.yaml run/plan.json
import run/plan.json --json | run/plan.json
import lws --out made.json | lws/routing.yaml lws/01-*.yaml lws/noderesourcetopologies.yaml
import script | script/routing.json script/02-*.sh
diff run placed-run --json | run/plan.json placed-run/plan.json
compare run placed-run --sort price --csv made.csv --html made.html | run/plan.json placed-run/plan.json
schedule budget.yaml --rates days.csv --changes 2 --forecast last-day --headroom 0.2 --out made --quiet | budget.yaml days.csv costly
watch budget.yaml --feed load.csv --feed state.yaml --simulate --once --out made | budget.yaml load.csv state.yaml costly
watch budget.yaml --feed load.csv --run hired --simulate --ticks 2 --dwell 10m --out made --json | budget.yaml load.csv hired/plan.json costly
replan run --cluster cluster.yaml --no-replay --least-share 0.8 --out made | run/plan.json cluster.yaml costly
replan placed-run --inventory H200=16,H20=0 --no-replay --json --out made | placed-run/plan.json costly
schedule budget.yaml --rates rates.csv --changes 1 --tariff reserved --out made --quiet --json | budget.yaml rates.csv costly
watch budget.yaml --feed load.csv --simulate --give-up 0.1 --once --out made --json | budget.yaml load.csv costly
sweep tiny.yaml --set inventory.H20=8,16 --set slo.tpot_ms=80..100:20 --out made --processes 1 --quiet --json | tiny.yaml costly
batch jobs.yaml --out made --processes 1 --quiet --json | jobs.yaml tiny.yaml costly
batch jobs.yaml --set slo.tpot_ms=80 --out made --executor serial --no-figures | jobs.yaml tiny.yaml costly
batch jobs.yaml --out made --shard 0/2 --executor serial --no-figures --quiet | jobs.yaml tiny.yaml costly
batch-manifests /files/jobs.yaml --batch /files/batch --image planner:1 --claim files --out made --kind dask --workers 2 |
explain run --json | run/plan.json
explain run --island h20-8g-mixed-1 --seconds 0 | run/plan.json
diff script lws | script/routing.json lws/01-*.yaml lws/routing.yaml
doctor --json | costly
gpus H20 |
gpus --json |
engines --json |
engines vllm |
models --json |
model show model/config.json --json | model/config.json
model show deepseek-v3 |
model add model/config.json --out made.json | model/config.json costly
workloads |
docs --out made |
workload summarize trace.csv --name mine --out made.yaml | trace.csv
workload summarize trace.csv --columns TIMESTAMP,ContextTokens,GeneratedTokens --json | trace.csv
workload summarize trace.csv --columns arrival=TIMESTAMP --drop unanswered --last 1h --picture made.svg --out made.yaml | trace.csv costly
workload show azure-code-2023 --html made.html |
workload show trace.csv --to 1h --json | trace.csv
workload show trace.jsonl --json | trace.jsonl
workload summarize requests.json --name mine --out made.yaml | requests.json
workload from-metrics metrics.json --engine vllm --longest 4096 --name mine --out made.yaml --json | metrics.json
workload from-metrics --queries --engine sglang --window 6h --selector app="x",le!~"1.*" |
workload sample trace.csv.xz --requests 9 --out made.csv | trace.csv.xz
workload sample trace.csv --requests 9 --out made.csv --seed 3 | trace.csv
cost explain --gpu H20 --model deepseek-v3 --phase decode --tp 1 --devices 32 --length 4096 --batch 8 --json |
cost explain --gpu H200 --model model/config.json --phase prefill --tp 2 --devices 8 --length 512 --calibration mine.calibration.yaml | model/config.json mine.calibration.yaml
cost configurations --gpu H200 --gpu H20 --phase prefill --size 16 --lengths 512,4096 --mode default |
cost calibrate measured.csv --engine vllm --out made.yaml --json | measured.csv
cost accuracy measured.csv --json | measured.csv
cost kernels show H200 --json |
cost kernels import kernels.whl --out made |
cost measure tiny.yaml --runs 2 --draws 16 --seed 1 --days 7 --engine sglang --tool aiperf --json | tiny.yaml costly
cluster synth --nodes 4 --seed 1 --load 0.5 --filled 0.8 --fit random --nodes-per-asw 2 4 --type H200=1 --type H20=0.5 --out made.yaml |
cluster show cluster.yaml --nodes node-0001..node-0003 --out made.md | cluster.yaml
cluster show small.yaml --json | small.yaml
cluster diagnose cluster.yaml --request 4G32C --job 16 --qos guaranteed --out made.md | cluster.yaml
cluster diagnose small.yaml --guaranteed-only --moves --json | small.yaml
cluster rbac --for watch --namespace serving |
cluster flextopo small.yaml --out made --dialect agent | small.yaml
cluster import --kubectl list.json --gpu-numa numa.yaml --devices devices.yaml --level asw=rack --taken-at 2026-02-01T00:00:00Z --out made.yaml | list.json numa.yaml devices.yaml
cluster import --flextopo topos/n-1.yaml --flextopo topos/n-2.yaml --kubectl list.json --gpu-numa numa.yaml --level asw=rack --out made.json | topos/n-1.yaml topos/n-2.yaml list.json numa.yaml
cluster import --kubectl list.json --strict --out made.yaml | list.json
cluster import --nrt lws/noderesourcetopologies.yaml --flextopo lws/flextopo.yaml --out made.yaml | lws/noderesourcetopologies.yaml lws/flextopo.yaml
cluster import --host h-1=host --gpu-type NVIDIA=H200 --core-group-size 2 --out made.yaml --json | host/lscpu.txt host/topo.txt host/gpus.csv
"""  # noqa: E501


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`words`: what is typed after `planner`. `inputs`: files that it reads, below the workshop; `*` stands for any.

    To `long` lines (and in the small form to `costly` ones) only such damage is done as must be refused.
    """

    words: tuple[str, ...]
    inputs: tuple[str, ...]
    costly: bool
    long: bool

    @property
    def command(self) -> str:
        """The command, with its group."""
        depth = 1 + sum(" ".join(self.words[:depth]) in GROUPS for depth in (1, 2))
        return " ".join(self.words[:depth])


def _line(text: str) -> Line:
    words, _, files = text.partition("|")
    names = files.split()
    return Line(
        words=tuple(words.split()),
        inputs=tuple(name for name in names if "." in name),
        costly="costly" in names,
        long="long" in names,
    )


GUESTS = sorted((Path(__file__).parents[1] / "studies").glob("fuzzed_lines.txt"))
"""Lines of commands that guests bring, where these are there."""

TABLES = (TABLE.strip(), *(path.read_text() for path in GUESTS))
LINES = tuple(_line(text) for table in TABLES for text in table.splitlines())
