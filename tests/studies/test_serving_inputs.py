"""Files of a serving study: read as written, refused with file, row and column; LLMs priced by the cost model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from planner.cost import decode_time, prefill_time
from planner.errors import InputError
from planner.studies.serving.arrivals import ArrivalLaw, draw_counts, read_azure_functions, requests_of
from planner.studies.serving.inputs import read_machines, read_minutes, read_models, read_outages, read_requests
from planner.studies.serving.priced_models import LlmLengths, machine_memory_mb, priced_llm
from planner.studies.serving.records import InferenceKind, MachineType, Outage, ServingRequest
from planner.studies.serving.warsaw import TOTALS, dnn_models, llm_models

MACHINES = "machine,count,slots,memory_mb,load_mbit_s,reserve\nm,2,3,4000,8192,1\nn,1,,,,\n"
MODELS = """model,kind,machine,size_mb,step_s,prompt_s,most_batch,sla_s,requests
a,single,m,100,0.02,,,,30
a,single,n,100,0.04,,,,
b,batched,m,500,1:0.1;4:0.2,,4,,20
c,continuous-batch,n,900,1:0.01;8:0.02,1:0.1;1000:0.5,8,12,10
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_files_are_read_as_written(tmp_path: Path) -> None:
    machines = read_machines(written(tmp_path, MACHINES))
    assert machines[0] == MachineType(name="m", machines=2, slots=3, memory_mb=4000.0, load_mbit_s=8192.0, reserve=1)
    assert machines[1] == MachineType(name="n", machines=1)
    table = read_models(written(tmp_path, MODELS), machines, LlmLengths())
    a, b, c = table.models
    assert table.totals == {"a": 30.0, "b": 20.0, "c": 10.0}
    assert (a.times["m"].step.at(1), a.times["n"].step.at(1), a.sla_s) == (0.02, 0.04, None)
    assert [b.times["m"].step.at(size) for size in (1, 2, 4, 5)] == pytest.approx([0.1, 0.4 / 3, 0.2, 0.7 / 3])
    prompt = c.times["n"].prompt
    assert [prompt.at(tokens) for tokens in (0, 1, 500.5, 1000)] == pytest.approx([0.1, 0.1, 0.3, 0.5])
    assert (c.kind, c.times["n"].most_batch, c.sla_s) == (InferenceKind.CONTINUOUS_BATCH, 8, 12.0)
    asked = read_requests(
        written(tmp_path, "arrival_s,model,prompt_tokens,output_tokens\n2,c,10,20\n1,a,,\n"), table.models
    )
    assert asked == (
        ServingRequest(arrival_s=1.0, model=0, output_tokens=1),
        ServingRequest(arrival_s=2.0, model=2, prompt_tokens=10, output_tokens=20),
    )
    counts = read_minutes(written(tmp_path, "minute,model,requests\n2,a,5\n0,b,1\n"), table.models)
    assert counts == {"a": [0, 0, 5], "b": [1, 0, 0], "c": [0, 0, 0]}
    outages = read_outages(written(tmp_path, "machine,start_s,end_s\n0,5,9\n1,7,\n"))
    assert outages == (Outage(machine=0, start_s=5.0, end_s=9.0), Outage(machine=1, start_s=7.0))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a,single,m", "a,guess,m", "row 1, column kind must be one of single"),
        ("a,single,n", "a,batched,n", "row 2, column kind must be the same"),
        ("a,single,n", "a,single,x", "row 2, column machine must be one of m, n"),
        ("a,single,n", "a,single,m", "row 2, column machine"),
        ("m,100,0.02", "m,-1,0.02", "row 2, column size_mb must be the same"),
        ("m,500", "m,-1", "row 3, column size_mb must be a number above 0"),
        ("m,100,0.02", "m,100,soon", "row 1, column step_s"),
        ("1:0.1;4:0.2", "4:0.1;1:0.2", "row 3, column step_s"),
        ("1:0.1;4:0.2", "1:0.2;4:0.1", "row 3, column step_s"),
        ("1:0.1;4:0.2", "1:nan", "row 3, column step_s"),
        (",4,,20", ",0,,20", "row 3, column most_batch"),
        ("8,12,10", "8,0,10", "row 4, column sla_s"),
        ("8,12,10", "8,12,ten", "row 4, column requests"),
        ("model,kind", "model,sort", "must have columns model, kind; missing: kind"),
    ],
)
def test_models_are_refused_by_row_and_column(tmp_path: Path, old: str, new: str, said: str) -> None:
    machines = (MachineType(name="m", machines=1), MachineType(name="n", machines=1))
    assert old in MODELS
    with pytest.raises(InputError, match=said) as refused:
        read_models(written(tmp_path, MODELS.replace(old, new, 1)), machines, LlmLengths())
    assert "table.csv" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_machines, "machine,count\nm,-1\n", "row 1, column count"),
        (read_machines, "machine,count\nm,1\nm,1\n", "row 2, column machine"),
        (read_machines, "machine,count,slots\nm,1,0\n", "row 1, column slots"),
        (read_machines, "machine,count,gpu\nm,1,H9999\n", "row 1, column gpu: .*H9999"),
        (lambda path: read_requests(path, dnn_models()), "arrival_s,model\n-1,VGG16\n", "row 1, column arrival_s"),
        (lambda path: read_requests(path, dnn_models()), "arrival_s,model\nnan,VGG16\n", "row 1, column arrival_s"),
        (lambda path: read_requests(path, dnn_models()), "arrival_s,model\n1,VGG17\n", "row 1, column model"),
        (lambda path: read_requests(path, dnn_models()), "arrival_s,model\n", "only a header came"),
        (lambda path: read_minutes(path, dnn_models()), "minute,model,requests\n0,VGG16,1.5\n", "column requests"),
        (
            lambda path: read_minutes(path, dnn_models()),
            "minute,model,requests\n0,VGG16,1\n0,VGG16,1\n",
            "row 2, column minute must come once for VGG16",
        ),
        (read_outages, "machine,start_s,end_s\n0,1,-4\n", "row 1, column end_s"),
    ],
)
def test_tables_are_refused_by_row_and_column(
    tmp_path: Path, read: Callable[[Path], object], text: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read(written(tmp_path, text))


def test_arrivals_fall_on_their_minutes() -> None:
    models = dnn_models()
    counts = {"VGG16": [0, 7, 2], "Whisper": [3]}
    asked = requests_of(models, counts, ArrivalLaw(totals={}), 5)
    minutes = [(int(request.arrival_s // 60), models[request.model].name) for request in asked]
    assert sorted(minutes) == [(0, "Whisper")] * 3 + [(1, "VGG16")] * 7 + [(2, "VGG16")] * 2
    assert asked != requests_of(models, counts, ArrivalLaw(totals={}), 6)
    law = ArrivalLaw(totals=TOTALS, scale=0.1, minutes=5, spike_minutes=(2, 90), spike_factor=3.0)
    drawn = draw_counts(models, law, 1)
    assert {name: sum(row) for name, row in drawn.items()} == {
        name: round(0.1 * total) for name, total in TOTALS.items()
    }
    assert {len(row) for row in drawn.values()} == {5}


def test_drawn_tokens_have_their_means() -> None:
    models = llm_models()
    law = ArrivalLaw(totals={}, prompt_tokens=500.0, tokens={models[0].name: (2048.0, 28.0)})
    asked = requests_of(models, {models[0].name: [20_000], models[1].name: [20_000]}, law, 3)
    for place, means in ((0, (2048.0, 28.0)), (1, (500.0, 200.0))):
        mine = [(request.prompt_tokens, request.output_tokens) for request in asked if request.model == place]
        assert np.mean(mine, axis=0) == pytest.approx(means, rel=0.03)
        assert np.min(mine) >= 1


def test_azure_functions_are_summed_by_model(tmp_path: Path) -> None:
    """Every function is called k times in minute k: a model of 3 functions gets 3 k, whatever is drawn."""
    header = "HashOwner,HashApp,HashFunction,Trigger," + ",".join(map(str, range(1, 21)))
    row = "o,a,f,http," + ",".join(map(str, range(1, 21)))
    path = written(tmp_path, "\n".join([header, *[row] * 40]) + "\n")
    models = dnn_models()
    counts = read_azure_functions(path, models, minutes=4, seed=1, functions=3)
    first = counts["VGG16"][0]
    assert list(counts.values()) == [[first, first + 3, first + 6, first + 9]] * 9
    assert first % 3 == 0
    assert 1 <= first // 3 <= 17
    for minutes, functions, said in ((21, 3, "at least 21 of minutes"), (4, 5, "45 in all")):
        with pytest.raises(InputError, match=said):
            read_azure_functions(path, models, minutes=minutes, seed=1, functions=functions)
    bad = written(tmp_path, f"{header}\n" + row.replace(",http,1,2,", ",http,-1,x,").replace(",20", ",x") + "\n")
    with pytest.raises(InputError, match="row 1 must hold 24 cells"):
        read_azure_functions(bad, models, minutes=20, seed=1, functions=1)


def test_llms_are_priced_by_the_cost_model() -> None:
    machines = (
        MachineType(name="two", machines=1, gpu="H100", gpus=2),
        MachineType(name="one", machines=1, gpu="L40S"),
        MachineType(name="cpu", machines=1),
    )
    lengths = LlmLengths(prompt_tokens=1000, output_tokens=200, most_batch=16)
    priced = priced_llm("chat", "qwen3-30b-a3b", machines, lengths=lengths)
    assert set(priced.times) == {"two"}  # 61 GB of weights do not fit on an L40S
    times = priced.times["two"]
    step_ms = decode_time("H100", 1100, tp=2, batch_size=8, devices=2, model="qwen3-30b-a3b").total_ms
    prompt_ms = prefill_time("H100", 2048, tp=2, dp=1, model="qwen3-30b-a3b").total_ms
    assert times.step.at(8) == pytest.approx(float(step_ms) / 1000)
    assert times.prompt.at(2048) == pytest.approx(float(prompt_ms) / 1000)
    assert times.most_batch == 16
    assert 60_000 < priced.size_mb < 64_000
    assert times.memory_mb is not None
    assert times.memory_mb > priced.size_mb
    assert machine_memory_mb(machines[2]) is None
    assert 140_000 < (machine_memory_mb(machines[0]) or 0) < 160_000


def test_the_largest_batch_is_what_the_cache_leaves_room_for() -> None:
    """70 B parameters in 16 bit on two H100: some 4 GB a GPU are left for caches of long sequences."""
    machines = (MachineType(name="two", machines=1, gpu="H100", gpus=2),)
    batches = [
        priced_llm("chat", "llama-3.1-70b", machines, lengths=LlmLengths(prompt_tokens=prompt, most_batch=64))
        .times["two"]
        .most_batch
        for prompt in (200, 2000)
    ]
    assert batches[0] > batches[1] >= 1


@pytest.mark.parametrize(
    ("llm", "kind", "gpu", "said"),
    [
        ("llama-3.1-405b", InferenceKind.CONTINUOUS_BATCH, "L40S", "fits on none"),
        ("llama-9", InferenceKind.CONTINUOUS_BATCH, "H100", "llama-9"),
        ("qwen3-30b-a3b", InferenceKind.BATCHED, "H100", "token by token"),
    ],
)
def test_llms_that_cannot_be_priced_are_refused(llm: str, kind: InferenceKind, gpu: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        priced_llm("chat", llm, (MachineType(name="m", machines=1, gpu=gpu),), kind=kind)
