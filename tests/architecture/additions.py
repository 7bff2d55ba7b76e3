"""What it takes to add one thing of each sort: the files that are touched, and a program that uses the new thing.

An edit that no longer fits its file fails: then the way to add has changed, and CONTRIBUTING.md with it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from source_tree import PACKAGE

from planner.files import shipped_models

Edit = Callable[[Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """`edits` by path; `folder` is a new one, which counts as one place. `use` is run in the copy."""

    name: str
    edits: dict[str, Edit]
    use: str
    folder: str | None = None

    @property
    def places(self) -> set[str]:
        """Files, and the new folder, that are touched."""
        return {self.folder if self.folder and path.startswith(self.folder) else path for path in self.edits}


def new(text: str) -> Edit:
    """A file of its own."""

    def write(path: Path) -> None:
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write


def like(name: str, *changes: tuple[str, str]) -> Edit:
    """A file like its neighbour `name`, but for some texts."""

    def write(path: Path) -> None:
        new(_changed(path.with_name(name).read_text(encoding="utf-8"), changes))(path)

    return write


def put(*changes: tuple[str, str]) -> Edit:
    """A row more: each text is found once and replaced."""

    def write(path: Path) -> None:
        text = _changed(path.read_text(encoding="utf-8"), changes)
        path.unlink()
        path.write_text(text, encoding="utf-8")

    return write


def _changed(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for before, after in changes:
        assert len(re.findall(before, text, re.MULTILINE)) == 1, f"{before!r} must be found once"
        text = re.sub(before, after, text, flags=re.MULTILINE)
    return text


TINY = {
    "workload": "normal-500-2000",
    "model": "deepseek-v3",
    "inventory": {"H200": 32, "H20": 32},
    "ranges": {"width": 2048},
    "search": {"method": "random", "iterations": 1, "batch_size": 2, "min_island_size": 16},
}


def planned(**changes: object) -> str:
    """A program's lines that plan something small."""
    return f"import planner\nplan = planner.plan(**{json.dumps(TINY | changes)})\nassert plan.throughput_rps > 0\n"


def typed(line: str) -> str:
    """A program's lines that run a command."""
    return f"""
import sys
from planner.cli import main
sys.argv = {line.split()!r}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


GPU = Addition(
    name="GPU",
    edits={
        "gpu_specs/B7.yaml": like(
            "H200.yaml", (r"^name: H200$", "name: B7"), (r"product: NVIDIA-H200$", "product: NVIDIA-B7")
        ),
        "gpu_specs/prices.yaml": put(
            (r"\Z", 'B7: {usd_per_hour: 5, date: "2026-01", source: "estimate: as an H200"}\n')
        ),
    },
    use=planned(inventory={"B7": 32}) + "assert plan.price_usd_per_hour == 160\n" + typed("planner gpus B7"),
)
_MINE = json.loads(shipped_models()["qwen3-30b-a3b"]) | {
    "_planner": {"name": "mine", "uri": "hf://org/mine", "source": "ours"},
    "num_hidden_layers": 24,
}
MODEL = Addition(
    name="model",
    edits={
        "planner/files/model_configs.jsonl": put((r"\Z", f"{json.dumps(_MINE)}\n")),
    },
    use=planned(model="mine")
    + "assert plan.record.scenario.model.layers == 24\n"
    + "from planner.files import shipped_models\nassert 'mine' in shipped_models()\n",
)
ENGINE = Addition(
    name="engine version",
    edits={
        "planner/files/engine_profiles/sglang-0.9.9.yaml": like(
            "sglang-0.5.23.yaml",
            (r"^version: 0.5.23$", "version: 0.9.9"),
            (r"^  NVIDIA: lmsysorg/sglang:v0.5.23$", "  NVIDIA: lmsysorg/sglang:v0.9.9"),
        )
    },
    use=planned(engine={"name": "sglang", "version": "0.9.9"})
    + "from planner.export import render\nassert plan.record.scenario.engine.version == '0.9.9'\n"
    + "assert any('sglang:v0.9.9' in text for text in render(plan.record).values())\n"
    + typed("planner engines sglang 0.9.9"),
)
METHOD = Addition(
    name="search method",
    edits={
        "planner/proposing/search/middling.py": new(
            '"""The middle of many draws."""\n\n'
            "from planner.proposing.search.baselines import RandomProposer\n\n\n"
            "class MiddlingProposer(RandomProposer):\n"
            '    """Draws from the space."""\n\n'
            '    name = "middling"\n'
        ),
        "planner/proposing/search/proposers.py": put(
            (
                r"^from planner.proposing.search.space",
                "from planner.proposing.search.middling import MiddlingProposer\n\\g<0>",
            ),
            (
                r"^            SearchMethod.SOBOL: lambda",
                "            SearchMethod.MIDDLING: lambda space, _settings, _goals: MiddlingProposer(space),\n\\g<0>",
            ),
        ),
        "planner/domain/scenario.py": put(
            (r'^    SOBOL = "sobol"', '    MIDDLING = "middling"\n\\g<0>'),
            (r"^        SearchMethod.SOBOL: MethodRow", "        SearchMethod.MIDDLING: MethodRow(),\n\\g<0>"),
        ),
    },
    use=planned(search=TINY["search"] | {"method": "middling"})  # type: ignore[operator]
    + "assert plan.record.search.trials[0].generator == 'middling'\n"
    + "plan.save('middling')\nplanner.load_plan('middling')\n",
)
OBJECTIVE = Addition(
    name="objective",
    edits={
        "planner/domain/objective.py": put(
            (r'^    WATTS = "watts"\n    PARETO', '    PER_WATT = "per_watt"\n\\g<0>'),
            (
                r"^        ObjectiveKind.WATTS: ObjectiveRow",
                '        ObjectiveKind.PER_WATT: ObjectiveRow(unit="requests/s per W", best="The most per W",\n'
                "            value=lambda rate, _price, watts: rate / watts, in_watts=True, per_charge=True),\n\\g<0>",
            ),
        ),
        "planner/files/plan_schema.json": put(
            (r'^            "per_dollar",$', '            "per_dollar",\n            "per_watt",')
        ),
    },
    use=planned(objective={"kind": "per_watt"}, search={"method": "exact", "sizes": [8, 16], "gap": 0.1})
    + "assert 'requests/s per W' in plan.summary()\nplan.save('per-watt')\nplanner.load_plan('per-watt')\n",
)
TARGET = Addition(
    name="manifest target",
    edits={
        # a target of real size, with groups over several nodes, routers, scaling: all that a neighbour has
        "planner/export/targets/gangs.py": like(
            "lws.py",
            (r"^LWS = Target\($", "GANGS = Target("),
            (r'^    name="lws",$', '    name="gangs",'),
        ),
        "planner/export/targets/__init__.py": put(
            (r"^from planner.export.targets.kserve", "from planner.export.targets.gangs import GANGS\n\\g<0>"),
            (r"^            LWS,$", "            LWS,\n            GANGS,"),
        ),
        "planner/domain/serving/targets.py": put(
            (
                r'^        "lws": TargetRow',
                '        "gangs": TargetRow(offers=frozenset({_PROGRAMS, _NAMES, _LABELS})),\n\\g<0>',
            ),
        ),
    },
    use=typed("planner export run --target gangs --monitoring --autoscaling hpa --out gangs")
    + typed("planner export run --check gangs")
    + "from pathlib import Path\nassert 'kind: LeaderWorkerSet' in Path('gangs/autoscaling.yaml').read_text()\n"
    + planned(deploy={"target": "gangs"}),
)
ROUTER = Addition(
    name="router",
    edits={
        "planner/export/routers/shares.py": new(
            '"""A router that knows shares of services alone."""\n\n'
            "from collections.abc import Sequence\n\n"
            "from planner.domain import Endpoints, Plan, RouterBehaviour, Rule, one_layer\n"
            "from planner.domain.serving.programs import Surroundings\n"
            "from planner.domain.serving.targets import Reach\n"
            "from planner.export.objects.documents import yaml_text\n"
            "from planner.export.seams import Deployment, Endpoint, Router, RouterFiles\n\n\n"
            "def _render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:\n"
            "    data = {endpoint.service: str(endpoint.port) for endpoint in endpoints}\n"
            '    labels = {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "planner"}\n'
            '    metadata = {"name": f"{deployment.name}-shares", "labels": labels}\n'
            '    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}\n'
            '    return RouterFiles(files={"shares.yaml": yaml_text(("Shares.",), [document])})\n\n\n'
            "def _behaviour(_plan: Plan, _around: Surroundings, /) -> RouterBehaviour:\n"
            "    drawn = one_layer(Endpoints.SERVER, Rule.RANDOM, by_speed=True)\n"
            '    return RouterBehaviour(name="shares", prefill=drawn, decode=drawn[:1], mixed=drawn)\n\n\n'
            'SHARES = Router(\n    name="shares",\n    needs=(Reach.NAMES,),\n    engines=("vllm",),\n'
            "    render=_render,\n    behaviour=_behaviour,\n)\n"
        ),
        "planner/export/routers/registry.py": put(
            (r"^from planner.export.seams", "from planner.export.routers.shares import SHARES\n\\g<0>"),
            (r"^_ROUTERS: tuple\[Router, ...\] = \(", "\\g<0>SHARES, "),
        ),
    },
    use=typed("planner export run --target lws --router shares --out routed")
    + typed("planner export run --check routed")
    + "from pathlib import Path\nassert Path('routed/shares.yaml').is_file()\n",
)
TWIN = Addition(
    name="router whose choices are priced",
    edits={
        # of real size: labels and annotations on pods, a gateway's variables, steps of the runbook
        "planner/export/routers/twin.py": like(
            "aibrix.py",
            (r'^NAME = "aibrix"$', 'NAME = "twin"'),
            (r'^FILE = "aibrix.yaml"$', 'FILE = "twin.yaml"'),
            (r"^AIBRIX = Router\($", "TWIN = Router("),
        ),
        "planner/export/routers/registry.py": put(
            (r"^from planner.export.seams", "from planner.export.routers.twin import TWIN\n\\g<0>"),
            (r"AIBRIX, DYNAMO\)$", "AIBRIX, TWIN, DYNAMO)"),
        ),
        "planner/domain/serving/programs.py": put(
            (
                r'^        "aibrix": _aibrix,$',
                '\\g<0>\n        "twin": lambda around: replace(_aibrix(around), name="twin"),',
            )
        ),
    },
    use=planned(deploy={"target": "gangs", "router": "twin"}, serving="aggregated", model="qwen3-30b-a3b")
    + "plan.save('twinned')\nplan.export('behind', target='gangs', router='twin')\n"
    + typed("planner export twinned --check behind")
    + typed("planner replay twinned --requests 200 --rate 1")
    + "from pathlib import Path\nassert Path('behind/twin.yaml').is_file()\n",
)
POLICY = Addition(
    name="online policy",
    edits={
        "planner/studies/policies/online/emptiest.py": new(
            '"""The node with the most idle GPUs."""\n\n'
            "import numpy as np\n\n"
            "from planner.domain import TracePod\n"
            "from planner.placement.node_states import NodeState, Reals, best_fit\n"
            "from planner.studies.policies.online.seam import Scene\n\n\n"
            "class Emptiest:\n"
            '    """Spreads pods."""\n\n'
            "    stretched = True\n"
            "    level = 0\n\n"
            "    def __init__(self, scene: Scene) -> None:\n"
            "        self.classes = len(scene.pods)\n\n"
            "    def scores(self, state: NodeState) -> Reals:\n"
            '        """Idle milli-GPU, the same for every class of pods."""\n'
            "        return np.full(self.classes, float(sum(state.gpu_left)))\n\n"
            "    def gpus(self, state: NodeState, pod: TracePod) -> tuple[int, ...]:\n"
            '        """The fullest that fits."""\n'
            "        return best_fit(state.gpu_left, pod)\n"
        ),
        "planner/studies/policies/online/policies.py": put(
            (
                r"^from planner.studies.policies.online.gradient",
                "from planner.studies.policies.online.emptiest import Emptiest\n\\g<0>",
            ),
            (r'^        "fgd":', '        "emptiest": PolicyRow(title="Emptiest", make=Emptiest),\n\\g<0>'),
        ),
        "planner/studies/policies/cluster_command.py": put(
            (r'help="random, dotprod,', 'help="random, emptiest, dotprod,')
        ),
    },
    use=typed(
        "planner simulate cluster --nodes nodes.csv --pods pods.csv --policy emptiest --policy emptiest:0.5+fgd:0.5 "
        "--seeds 1 --quiet"
    ),
)
TERM = Addition(
    name="placement score term",
    edits={
        "planner/domain/placement.py": put(
            (r"^    power: _Weight = 0.1$", "    power: _Weight = 0.1\n    evenness: _Weight = 0.1")
        ),
        "planner/placement/islands/scoring.py": put(
            (
                r'^        ScorePart\(name="preemption"',
                '        ScorePart(name="evenness", value=-len(touched) / gpus, weight=weights.evenness),\n\\g<0>',
            )
        ),
        "planner/files/reference/meanings.yaml": put(
            (r"^  placement.weights.preemption:", "  placement.weights.evenness: Few nodes.\n\\g<0>")
        ),
    },
    use=planned(placement={"weights": {"evenness": 2}})
    + "placed = plan.place(planner.placement.synthesize(24, seed=0, load=0.0, types=[\n"
    + "    planner.placement.NodeType(gpu=gpu, share=0.5) for gpu in ('H200', 'H20')]))\n"
    + "(term,) = [part for part in placed.record.placement.terms if part.name == 'evenness']\n"
    + "assert (term.weight, term.value < 0) == (2, True)\n"
    + "from planner.files.reference import key_rows\n"
    + "assert any(row.path == 'placement.weights.evenness' and row.meaning for row in key_rows('scenario'))\n",
)
STUDY = Addition(
    name="study",
    folder="planner/studies/coins/",
    edits={
        "planner/studies/coins/__init__.py": new('"""How often a coin falls on its head."""\n'),
        "planner/studies/coins/study.py": new(
            '"""The study: throws of each seed."""\n\n'
            "import random\n"
            "from collections.abc import Callable, Iterator, Sequence\n\n"
            "from planner.studies.runner import run_tasks\n\n\n"
            "def throw(seed: int, throws: int, progress: Callable[[float], None] = lambda _: None) -> int:\n"
            '    """Heads among so many throws."""\n'
            "    generator = random.Random(seed)\n"
            "    progress(1.0)\n"
            "    return sum(generator.random() < 0.5 for _ in range(throws))\n\n\n"
            "def run_coins(seeds: Sequence[int], throws: int, processes: int = 1) -> Iterator[int]:\n"
            '    """Heads of each seed."""\n'
            '    return run_tasks("coins", throw, [(seed, throws) for seed in seeds], processes=processes)\n'
        ),
        "planner/studies/coins/command.py": new(
            '"""`planner simulate coins`."""\n\n'
            "from typing import Annotated\n\n"
            "import typer\n\n"
            "from planner.cli import screen\n\n\n"
            'def command(throws: Annotated[int, typer.Option(min=1, help="Throws of a seed.")] = 10) -> None:\n'
            '    """Throw coins."""\n'
            "    from planner.studies.coins.study import run_coins\n\n"
            "    heads = list(run_coins((1, 2), throws))\n"
            "    assert heads == list(run_coins((1, 2), throws, processes=2))\n"
            '    screen.show_text(f"{sum(heads)} heads")\n'
        ),
        "planner/studies/groups.py": put(
            (
                r"^from planner.studies.defragmentation",
                "from planner.studies.coins.command import command as coins\n\\g<0>",
            ),
            (r'^simulate.command\("queue"\)', 'simulate.command("coins")(coins)\n\\g<0>'),
        ),
    },
    use=typed("planner simulate coins --throws 5")
    + typed("planner docs --out docs")
    + "from pathlib import Path\nassert '## planner simulate coins' in Path('docs/commands.md').read_text()\n",
)
GUESTS = (POLICY, STUDY) if (PACKAGE / "studies").is_dir() else ()
ADDITIONS = (GPU, MODEL, ENGINE, METHOD, OBJECTIVE, TARGET, ROUTER, TWIN, TERM, *GUESTS)
RECIPES = (GPU, MODEL, ROUTER, OBJECTIVE)  # those that CONTRIBUTING.md shows line by line
