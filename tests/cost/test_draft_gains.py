"""What drafts bring: against runs that were measured with and without, and as batches grow."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from benchmark_evidence import known_runs
from cost_figures import gpu, model

from planner.cost.arrays import Array
from planner.cost.benchmarks.prediction import Predictions
from planner.cost.device import CostContext
from planner.cost.step import Steps, step_ms
from planner.domain import BenchmarkRun, CostSettings, Metric, NamedRun, Phase
from planner.domain.serving.speculation import DraftMethod, DraftModel, Speculation

DRAFTED = 3  # of the runs
BATCHES = 2.0 ** np.arange(11)
OWN_LAYERS = Speculation(tokens=DRAFTED)
EAGLE = Speculation(method=DraftMethod.EAGLE, tokens=DRAFTED, draft=DraftModel(uri="draft"))


def alike(run: BenchmarkRun) -> object:
    """All that two runs have in common that differ in drafts."""
    precision = replace(run.precision, mtp_tokens=0)
    lengths = (run.input_tokens, run.output_tokens, run.concurrency)
    return (run.gpu, run.engine, run.model, precision, run.decode, *lengths)


def pairs() -> list[tuple[NamedRun, NamedRun]]:
    """Aggregated runs with drafts, each with one of the same configuration without."""
    runs = [entry for entry in known_runs() if entry.run.concurrency and not entry.run.disaggregated]
    plain = {alike(entry.run): entry for entry in runs if not entry.run.precision.mtp_tokens}
    drafting = [entry for entry in runs if entry.run.precision.mtp_tokens == DRAFTED]
    return [(entry, plain[alike(entry.run)]) for entry in drafting if alike(entry.run) in plain]


def gains(listed: list[tuple[NamedRun, NamedRun]], rates: Mapping[tuple[str, int, Metric], float]) -> Array:
    keys = [[(entry.run.file, entry.run.row, Metric.OUTPUT_RATE) for entry in pair] for pair in listed]
    return np.array([rates[drafting] / rates[plain] for drafting, plain in keys])


def measured_gains(listed: list[tuple[NamedRun, NamedRun]]) -> Array:
    every = [entry.run for pair in listed for entry in pair]
    return gains(
        listed, {(run.file, run.row, Metric.OUTPUT_RATE): dict(run.measured)[Metric.OUTPUT_RATE] for run in every}
    )


def predicted_gains(listed: list[tuple[NamedRun, NamedRun]], tokens_per_pass: float | None) -> Array:
    """By the factor of each engine, or where every pass yields so many tokens."""
    given = [(replace(d, run=replace(d.run, mtp_gain=tokens_per_pass)), plain) for d, plain in listed]
    return gains(given, Predictions([entry for pair in given for entry in pair]).of(None))


def test_there_are_fourteen_pairs() -> None:
    """All of DeepSeek-R1 on NVIDIA's and AMD's GPUs, by three engines."""
    listed = pairs()
    assert len(listed) == 14
    assert {entry.run.model for pair in listed for entry in pair} == {"deepseek-r1"}
    assert len({drafting.run.gpu for drafting, _ in listed}) == 3


@pytest.mark.parametrize("tokens_per_pass", [None, OWN_LAYERS.gained(DRAFTED)], ids=["engines", "published"])
def test_gains_are_those_that_were_measured(tokens_per_pass: float | None) -> None:
    """To 15 % in the mean: with the engines' tokens a pass, which these runs were fitted with, and with the published
    chances that plans count on, which they were not."""
    listed = pairs()
    errors = predicted_gains(listed, tokens_per_pass) / measured_gains(listed) - 1
    assert np.abs(errors).mean() <= 0.15
    assert abs(errors.mean()) <= 0.06


def test_gains_fall_as_measured_ones_do() -> None:
    """Of runs that differ in the requests in flight alone, more of them gain less, measured and predicted."""
    listed = pairs()
    measured, predicted = measured_gains(listed), predicted_gains(listed, OWN_LAYERS.gained(DRAFTED))
    falling = 0
    for first, (one, _) in enumerate(listed):
        for later, (other, _) in enumerate(listed):
            more = replace(one.run, concurrency=other.run.concurrency)
            if alike(more) == alike(other.run) and (one.run.concurrency or 0) < (other.run.concurrency or 0):
                assert measured[later] < measured[first]
                assert predicted[later] < predicted[first]
                falling += 1
    assert falling == 6


def gain_by_batch(name: str, shape: str, tp: int, dp: int, speculation: Speculation, length: int = 1000) -> Array:
    steps = Steps.at(Phase.DECODE, tp, dp, 1, length=length, batch=BATCHES)
    context = CostContext(gpu=gpu(name), model=model(shape), settings=CostSettings())
    plain = step_ms(context, steps)
    return plain / step_ms(replace(context, settings=CostSettings(speculation=speculation)), steps)


@pytest.mark.parametrize("drafted", [1, 2, 3])
@pytest.mark.parametrize(("name", "tp"), [("H200", 8), ("H100", 8), ("MI300X", 4)])
def test_a_dense_model_never_gains_more_at_a_larger_batch(name: str, tp: int, drafted: int) -> None:
    """Down from nearly all accepted tokens to nearly nothing, or less."""
    speculation = replace(EAGLE, tokens=drafted)
    gain = gain_by_batch(name, "llama-3.1-70b", tp, 1, speculation)
    assert (np.diff(gain) <= 1e-12).all()
    assert 0.9 * speculation.gained(drafted) < gain[0] < speculation.gained(drafted)
    assert gain[-1] - 1 < (gain[0] - 1) / 8


@pytest.mark.parametrize("drafted", [1, 2, 3])
@pytest.mark.parametrize(("name", "dp"), [("H200", 32), ("DGX-B200", 32), ("H20", 32)])
def test_experts_gain_less_once_all_of_them_are_read_anyway(name: str, dp: int, drafted: int) -> None:
    """Few tokens hit few experts, and those that are verified hit as many more: only where most are read without them
    does the gain fall with every larger batch, to nothing and below."""
    gain = gain_by_batch(name, "deepseek-v3", 1, dp, replace(OWN_LAYERS, tokens=drafted))
    every_expert = BATCHES * dp * 8 / 256 > 3  # 95 % of the experts are hit
    assert (np.diff(gain[every_expert]) <= 1e-12).all()
    assert gain[-1] < 1
    assert gain[-1] < 0.65 * gain.max()


def test_nothing_drafted_is_none() -> None:
    assert gain_by_batch("H200", "deepseek-v3", 8, 1, Speculation(tokens=0)).tolist() == [1.0] * len(BATCHES)


@pytest.mark.parametrize(
    ("speculation", "tokens", "gained"),
    [
        (Speculation(), 3, 1 + 0.8 + 0.4 + 0.24),
        (Speculation(), 4, 1 + 0.8 + 0.4 + 0.24 + 0.144),
        (Speculation(method=DraftMethod.EAGLE), 2, 1 + 0.7 + 0.7 * 0.68),
        (Speculation(acceptance=(0.9, 0.5)), 3, 1 + 0.9 + 0.45 + 0.225),
        (Speculation(acceptance=(0.9,)), 0, 1),
        (CostSettings(mtp_tokens=2, mtp_acceptance=0.8).drafting, 2, 1 + 0.8 + 0.64),
    ],
)
def test_tokens_of_a_pass(speculation: Speculation, tokens: int, gained: float) -> None:
    """Each counts if all before it did; beyond the last chance that is known it holds on."""
    assert speculation.gained(tokens) == pytest.approx(gained)


def test_published_tokens_of_a_pass() -> None:
    """LMSYS and vLLM: 1.81, 2.18 and 2.44 of DeepSeek; 1.70, 2.18 and 2.47 of three EAGLE-3 drafts in the mean."""
    for speculation, published in ((Speculation(), (1.81, 2.18, 2.44)), (EAGLE, (1.700, 2.178, 2.474))):
        found = [speculation.gained(tokens) for tokens in (1, 2, 3)]
        assert found == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("name", "speculation", "carried"),
    [
        ("deepseek-v3", Speculation(), False),
        ("DeepSeek-R1-0528", Speculation(), False),
        ("glm-4.5", Speculation(), True),
        ("glm-4.5", Speculation(acceptance=(0.8,)), False),
        ("llama-3.1-8b", EAGLE, False),
        ("llama-3.1-70b", EAGLE, True),
    ],
)
def test_whose_chances_they_are(name: str, speculation: Speculation, carried: bool) -> None:
    assert speculation.carried_over(name) is carried
