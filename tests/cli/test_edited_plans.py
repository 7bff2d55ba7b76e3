"""A plan.json that somebody has edited is not reported and not exported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import TINY, Command

Edit = Callable[[dict[str, Any]], None]


def _set(key: str, value: object, *path: str | int) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path:
            place = place[step]
        place[key] = value

    return edit


EDITS: dict[str, tuple[Edit, str]] = {
    "bolder": (_set("throughput_rps", 1e6), "tokens_per_s"),
    "cheaper": (_set("price_usd_per_hour", 1.0), "price_usd_per_hour"),
    "fewer GPUs": (_set("H200", 11, "scenario", "inventory"), "price_usd_per_hour"),
    "busier": (_set("utilisation", 7, "islands", 0), "utilisation"),
    "other odds": (_set("probability", 0.9, "routing", 0), "probability"),
    "other share": (_set("share", 0.5, "routing", 0), "shares"),
    "larger batch": (_set("batch_size", 99_999, "islands", 0), "batch size"),
    "other phase": (_set("phase", "decode", "islands", 0), "does not prefill"),
    "island's price": (_set("price_usd_per_hour", 0.5, "islands", 0), "its price"),
    "lost route": (lambda document: document["routing"].pop(), "shares"),
}


@pytest.fixture
def run(planner: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY)
    assert planner("plan", "tiny.yaml", "--out", "run", "--quiet").status == 0
    return Path("run")


def test_every_edit_is_seen_by_report_and_export(planner: Command, run: Path) -> None:
    sound = (run / "plan.json").read_text()
    for name, (edit, word) in EDITS.items():
        document = json.loads(sound)
        edit(document)
        (run / "plan.json").write_text(json.dumps(document))
        for command in (("report", "run"), ("export", "run", "--out", "manifests")):
            answer = planner(*command)
            assert answer.status == 2, (name, answer.err)
            assert word in answer.err, (name, answer.err)
            assert "internal" not in answer.err
    assert not Path("manifests").exists()
    (run / "plan.json").write_text(sound)
    assert planner("report", "run").status == 0


def test_images_for_other_vendors_come_from_the_command_line(planner: Command, run: Path) -> None:
    given = planner("export", "run", "--out", "manifests", "--image", "NVIDIA=registry.example/vllm:1.2.3")
    assert given.status == 0, given.err
    assert any("registry.example/vllm:1.2.3" in file.read_text() for file in Path("manifests").glob("*.yaml"))
    for wrong in ("NVIDIA", "=x:1", "NVIDIA=x:latest"):
        assert planner("export", "run", "--out", "other", "--image", wrong).status == 2
    assert not Path("other").exists()
