"""The fit to step times: against factors that the test itself made data with; and what vouches for an estimate."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu

from planner.cost import BUILT_IN, band_of, doubts, fit_calibration, predict_ms
from planner.cost.efficiency import efficiency_of
from planner.cost.residuals.bands import origin_of, relation_of
from planner.domain import Calibration, CostSettings, Factor, Measurement, Origin, Phase, Relation
from planner.errors import InputError
from planner.files import load_model, load_published_measurements

FACTS = {  # tokens/s per GPU of the facts' table, in its order; the last two are a day of production
    ("H800", Phase.PREFILL, 32, 4096): 7839,
    ("H800", Phase.DECODE, 128, 4096): 2324,
    ("H100", Phase.PREFILL, 32, 4096): 6288,
    ("H100", Phase.DECODE, 72, 2000): 2785,
    ("GB200-NVL72", Phase.DECODE, 48, 2000): 7583,
    ("H800", Phase.PREFILL, 32, 4989): 73_700 / 8,
    ("H800", Phase.DECODE, 144, 4989): 14_800 / 8,
}


def step(name: str, phase: Phase, length: int, batch: int, ms: float = 1.0, dp: int = 8) -> Measurement:
    return Measurement(
        gpu=name, model="deepseek-v3", phase=phase, tp=1, dp=dp, ep=dp, length=length, batch=batch, ms=ms
    )


def made_with(calibration: Calibration, steps: list[Measurement]) -> list[Measurement]:
    """Measurements as a machine with these factors would give them."""
    model = load_model("deepseek-v3")
    return [replace(m, ms=predict_ms(m, gpu(m.gpu), model, calibration), row=k) for k, m in enumerate(steps, 1)]


def shared(name: str, family: str, value: float) -> Factor:
    return Factor(name=name, family=family, value=value, unit="1", origin=Origin.USER, source="made up")


class TestPublishedMeasurements:
    def test_every_row_of_the_facts_is_there(self) -> None:
        rows = load_published_measurements()
        for (name, phase, ep, length), rate in FACTS.items():
            found = [m for m in rows if (m.gpu, m.phase, m.ep, m.length) == (name, phase, ep, length)]
            assert any(m.tokens_per_s_per_gpu == pytest.approx(rate, rel=2e-4) for m in found)
        assert all(m.source for m in rows)


PLACE = "H200 deepseek-r1 vllm"  # as DeepSeek-V3 is known
RECORDS = {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}


def decode_steps(engine: str = "vllm") -> list[Measurement]:
    """Three, by an engine whose kernels were measured."""
    return [replace(step("H200", Phase.DECODE, n, b), engine=engine) for n, b in ((1024, 32), (4096, 64), (8192, 128))]


class TestUsersMeasurements:
    @pytest.mark.parametrize("engine", ["vllm", ""])
    @pytest.mark.parametrize("value", [0.5, 1.3])
    def test_a_known_pace_is_found_again(self, value: float, engine: str) -> None:
        """Over measured kernels as over formulas alone, but for what shrinks it to 1."""
        place = f"H200 deepseek-r1 {engine}".strip()
        rows = made_with(
            Calibration(name="truth", factors=(shared("pace_decode", place, value),)), decode_steps(engine)
        )
        fit = fit_calibration(rows, *RECORDS, name="mine")
        (factor,) = fit.calibration.factors
        assert (factor.name, factor.family) == ("pace_decode", place)
        assert abs(np.log(factor.value / value)) < 0.1 * abs(np.log(value))
        assert fit.mean_error("before") > 0.2
        assert fit.mean_error("after") < fit.mean_error("left_out") < 0.1

    def test_more_points_move_it_more(self) -> None:
        """By hand: n logs of ln(0.9), each known to 3 %, a pace to 15 %: n / (n + 1/25) of it."""
        truth = Calibration(name="truth", factors=(shared("pace_decode", PLACE, 0.9),))
        rows = made_with(truth, decode_steps())
        for count in (1, 2, 3):
            fit = fit_calibration(rows[:count], *RECORDS, name="mine")
            share = np.log(fit.calibration.factors[0].value) / np.log(0.9)
            assert share == pytest.approx(count / (count + 1 / 25), rel=1e-3)

    def test_leaving_out_is_a_fit_without_the_point(self) -> None:
        truth = Calibration(name="truth", factors=(shared("pace_decode", PLACE, 0.8),))
        rows = made_with(truth, decode_steps())
        rows[0] = replace(rows[0], ms=rows[0].ms * 1.3)
        point = fit_calibration(rows, *RECORDS, name="all").points[0]
        without = fit_calibration(rows[1:], *RECORDS, name="without").calibration
        predicted = predict_ms(rows[0], gpu("H200"), load_model("deepseek-v3"), without)
        assert point.left_out_ms == pytest.approx(predicted, rel=1e-9)

    def test_a_later_fit_goes_on_from_its_base(self) -> None:
        truth = Calibration(name="truth", factors=(shared("pace_decode", PLACE, 0.6),))
        other = shared("layer_us", "cdna3", 20.0)
        base, rows = Calibration(name="base", factors=(shared("pace_decode", PLACE, 0.6), other)), decode_steps()
        fit = fit_calibration(made_with(truth, rows), *RECORDS, name="mine", base=base)
        assert fit.calibration.factors[0].value == pytest.approx(0.6, rel=1e-9)
        assert other in fit.calibration.factors  # and what no step bears on is kept
        assert fit.mean_error("before") < 1e-9

    def test_one_place_moves_no_other(self) -> None:
        rows = [replace(m, ms=m.ms * 2) for m in made_with(BUILT_IN, decode_steps())]
        calibration = fit_calibration(rows, *RECORDS, name="mine").calibration
        elsewhere = [
            replace(rows[0], gpu="H100"),
            replace(rows[0], engine="sglang"),
            replace(rows[0], engine=""),
            replace(rows[0], phase=Phase.PREFILL, batch=2),
        ]
        for m in elsewhere:
            assert predict_ms(m, gpu(m.gpu), load_model("deepseek-v3"), calibration) == predict_ms(
                m, gpu(m.gpu), load_model("deepseek-v3")
            )
        llama = replace(rows[0], model="llama-3.1-70b", tp=8, dp=1, ep=1)
        before, after = (predict_ms(llama, gpu("H200"), load_model("llama-3.1-70b"), of) for of in (None, calibration))
        assert before == after

    def test_nothing_to_fit_is_refused(self) -> None:
        rows = [replace(step("H200", Phase.DECODE, 4096, 64), fitted=False)]
        with pytest.raises(InputError, match="at least one"):
            fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")


class TestOrigins:
    @pytest.mark.parametrize(
        ("name", "model", "engine", "origin", "told"),
        [
            ("H800", "deepseek-v3", "", Origin.PUBLISHED, "deepseek-r1 on H800: published measurements"),
            ("H200", "deepseek-v3", "sglang", Origin.PUBLISHED, "deepseek-r1 on H200 by sglang: published"),
            ("H100", "llama-3.1-70b", "trt", Origin.PUBLISHED, "llama-3.1-70b on H100 by trt: published"),
            ("H20", "qwen3-30b-a3b", "", Origin.PUBLISHED, "qwen3-30b-a3b on H20: published"),
            ("H800", "llama-3.1-70b", "", Origin.CARRIED, "no measurement of this model on this GPU type"),
            ("H200", "deepseek-v2", "", Origin.CARRIED, "no measurement of this model"),
            ("L40S", "llama-3.1-70b", "vllm", Origin.CARRIED, "no measurement of this model or of its like"),
        ],
    )
    def test_what_was_measured_together_is_called_so(
        self, name: str, model: str, engine: str, origin: Origin, told: str
    ) -> None:
        settings = CostSettings(engine=engine)
        for phase in Phase:
            came, said = origin_of(gpu(name), load_model(model), phase, settings)
            assert came is origin
            assert said.startswith(told)

    def test_origins_and_bands_say_the_same(self) -> None:
        for name in ("H100", "H200", "H800", "H20", "DGX-B200", "GB200-NVL72", "MI300X", "MI355X", "L40S", "A100"):
            for model in ("deepseek-v3", "gpt-oss-120b", "llama-3.1-70b", "qwen3.5-397b-a17b", "nemotron-3-nano"):
                for engine in ("", "vllm", "sglang"):
                    settings = CostSettings(engine=engine)
                    origin, said = origin_of(gpu(name), load_model(model), Phase.DECODE, settings)
                    band = band_of(gpu(name), load_model(model), Phase.DECODE, settings)
                    assert (origin is Origin.PUBLISHED) == (band.relation is Relation.SAME)
                    assert origin is Origin.PUBLISHED or said == band.relation.words

    @pytest.mark.parametrize(
        ("models", "told"),
        [
            (1, "measured on a on L4 and b on L4, L40S"),
            (2, "measured on a on L4 and b on L4, L40S and c on L40S"),
            (3, "measured with 4 models on L4, L40S"),
        ],
    )
    def test_more_than_three_models_are_counted_not_named(self, models: int, told: str) -> None:
        places = (("L4", "a"), ("L4", "b"), ("L40S", "b"), ("L40S", "c"), ("L40S", "d"))[: models + 2]
        factor = replace(shared("kernels_decode", "ada", 0.6), gpus=("L4", "L40S"), measured=places)
        assert factor.provenance == f"{told}: made up"

    def test_a_users_measurement_comes_first(self) -> None:
        deepseek, llama = load_model("deepseek-v3"), load_model("llama-3.1-70b")
        rows = made_with(BUILT_IN, [replace(step("H200", Phase.DECODE, 4096, 64), engine="vllm")])
        calibrated = CostSettings(engine="vllm", calibration=fit_calibration(rows, *RECORDS, name="mine").calibration)
        first = (Origin.USER, "measured on deepseek-v3 on H200: fitted to 1 measurement")
        assert origin_of(gpu("H200"), deepseek, Phase.DECODE, calibrated) == first
        assert origin_of(gpu("H200"), deepseek, Phase.MIXED, calibrated) == first
        others = [
            (gpu("H200"), deepseek, Phase.PREFILL, calibrated),
            (gpu("H200"), deepseek, Phase.DECODE, replace(calibrated, engine="sglang")),
            (gpu("H100"), deepseek, Phase.DECODE, calibrated),
            (gpu("H200"), llama, Phase.DECODE, calibrated),
        ]
        for other in others:
            assert origin_of(*other)[0] is not Origin.USER
        assert relation_of(gpu("H200"), deepseek, "vllm", calibrated.calibration) is Relation.SAME


def test_a_factor_is_the_familys_or_its_vendors_or_that_of_any() -> None:
    values = {"any": 0.3, "nvidia": 0.5, "hopper": 0.7}
    known = [shared("kernels_decode", family, value) for family, value in values.items()]
    for names, value in ((("hopper", "nvidia"), 0.7), (("ada", "nvidia"), 0.5), (("cdna3", "amd"), 0.3)):
        assert Calibration(name="made up", factors=tuple(known)).factor("kernels_decode", *names).value == value
    assert efficiency_of(gpu("L40S"), None).kernels_decode == BUILT_IN.factor("kernels_decode", "nvidia").value
    assert efficiency_of(gpu("MI300X"), None).kernels_decode == BUILT_IN.factor("kernels_decode", "cdna3").value
    with pytest.raises(KeyError, match="kernels_decode"):
        Calibration(name="empty", factors=()).factor("kernels_decode", "hopper")


def test_data_sheet_figures_are_not_factors() -> None:
    for factor in BUILT_IN.factors:
        assert factor.unit
        assert factor.source
        assert factor.value > 0 or factor.name == "ttft_answers"  # some engines' first token waits for no other
    shares = ("gemm", "expert", "attention_prefill", "attention_decode", "memory", "nvlink", "overlap")
    assert all(f.value <= 1 for f in BUILT_IN.factors if f.name in shares or f.name.startswith(("kernels", "nic")))


class TestWhatCannotHaveBeenMeasured:
    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"tp": 3, "dp": 32, "ep": 96}, "row 7: tp: must divide the 128 attention heads"),
            ({"tp": 16, "dp": 2, "ep": 32}, "row 7: tp: must stay within one host"),
            ({"dp": 300, "ep": 300}, "row 7: devices: must be at most the 256 experts"),
            ({"dp": 1, "ep": 1}, "row 7: the weights of deepseek-v3 must fit on 1 H20"),
            ({"length": 4_096_000}, "row 7: length must be at most the 163840 tokens"),
            ({"batch": 1e9}, "row 7: the cache of the batch must fit"),
            ({"ms": 0.001}, "row 7: ms must be at least what the data sheet allows"),
        ],
    )
    def test_is_refused_with_its_row(self, changed: dict[str, float], said: str) -> None:
        possible = replace(step("H20", Phase.DECODE, 4096, 32, ms=80.0, dp=32), row=7)
        records = {"H20": gpu("H20")}, {"deepseek-v3": load_model("deepseek-v3")}
        assert fit_calibration([possible], *records, name="mine").points
        with pytest.raises(InputError, match=said):
            fit_calibration([replace(possible, **changed)], *records, name="mine")

    def test_a_doubtful_fit_is_told(self) -> None:
        odd = replace(step("H20", Phase.DECODE, 4096, 32, ms=1e6, dp=32), row=3)
        fit = fit_calibration([odd], {"H20": gpu("H20")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")
        assert any("row 3 is" in one for one in doubts(fit))
