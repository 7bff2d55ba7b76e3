"""The fit to step times: against factors that the test itself made data with; and what vouches for an estimate."""

from dataclasses import replace

import pytest
from cost_figures import gpu

from planner.cost import BUILT_IN, doubts, fit_calibration, predict_ms
from planner.cost.efficiency import efficiency_of, merged, origin_of
from planner.domain import Calibration, Factor, Measurement, Origin, Phase
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


class TestUsersMeasurements:
    def test_known_factors_are_found_again(self) -> None:
        truth = Calibration(name="truth", factors=(shared("kernels_decode", "hopper", 0.5),))
        rows = made_with(truth, [step("H200", Phase.DECODE, n, b) for n, b in ((1024, 32), (4096, 64), (8192, 128))])
        fit = fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")
        assert fit.calibration.factor("kernels_decode", "hopper").value == pytest.approx(0.5, rel=0.02)
        assert fit.mean_error("before") > 0.2
        assert fit.mean_error("after") < 0.01
        assert fit.mean_error("left_out") < 0.02

    def test_many_points_tell_the_fixed_time_too(self) -> None:
        slow = (shared("kernels_decode", "hopper", 0.6), replace(shared("step_decode_ms", "hopper", 15), unit="ms"))
        steps = [step("H200", Phase.DECODE, n, b) for n in (512, 8192) for b in (4, 64, 256)]
        rows = made_with(Calibration(name="truth", factors=slow), steps)
        fit = fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")
        found = merged(fit.calibration)
        assert found.factor("kernels_decode", "hopper").value == pytest.approx(0.6, rel=0.03)
        assert found.factor("step_decode_ms", "hopper").value == pytest.approx(15, rel=0.1)

    def test_leaving_out_is_a_fit_without_the_point(self) -> None:
        truth = Calibration(name="truth", factors=(shared("kernels_decode", "hopper", 0.5),))
        rows = made_with(truth, [step("H200", Phase.DECODE, n, b) for n, b in ((1024, 32), (4096, 64), (8192, 128))])
        rows[0] = replace(rows[0], ms=rows[0].ms * 1.3)
        records = {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}
        point = fit_calibration(rows, *records, name="all").points[0]
        without = fit_calibration(rows[1:], *records, name="without").calibration
        predicted = predict_ms(rows[0], gpu("H200"), load_model("deepseek-v3"), without)
        assert point.left_out_ms == pytest.approx(predicted, rel=1e-3)

    def test_a_family_that_is_new_begins_with_its_vendors_factors(self) -> None:
        llama = load_model("llama-3.1-70b")
        one = replace(step("L40S", Phase.DECODE, 2048, 16, dp=1), model="llama-3.1-70b", tp=8, ep=1)
        rows = [replace(one, ms=predict_ms(one, gpu("L40S"), llama), row=1)]
        fit = fit_calibration(rows, {"L40S": gpu("L40S")}, {"llama-3.1-70b": llama}, name="mine")
        found = fit.calibration.factor("kernels_decode", "ada").value
        assert found == pytest.approx(BUILT_IN.factor("kernels_decode", "nvidia").value, rel=1e-3)

    def test_what_was_not_measured_keeps_its_factors(self) -> None:
        truth = Calibration(name="truth", factors=(shared("kernels_decode", "hopper", 0.5),))
        rows = made_with(truth, [step("H200", Phase.DECODE, 4096, 64)])
        fit = fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")
        for name in ("H20", "GB200-NVL72"):
            assert efficiency_of(gpu(name), fit.calibration) == efficiency_of(gpu(name), None)
        before = efficiency_of(gpu("H200"), None)
        assert efficiency_of(gpu("H200"), fit.calibration).kernels_prefill == before.kernels_prefill

    def test_nothing_to_fit_is_refused(self) -> None:
        rows = [replace(step("H200", Phase.DECODE, 4096, 64), fitted=False)]
        with pytest.raises(InputError, match="at least one"):
            fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": load_model("deepseek-v3")}, name="mine")


# what was measured of each family; DeepSeek-R1 and DeepSeek-V3 are one network, and each counts where the other was
HOPPER = "7 models on H100, H200, H800"  # both, gpt-oss-120b, kimi-k2, both sizes of Llama, qwen3-235b-a22b
BLACKWELL = "7 models on DGX-B200, DGX-B300, GB200-NVL72"  # as of Hopper, but qwen3-30b-a3b and not kimi-k2
AMPERE = "gpt-oss-120b on A100 and llama-3.1-70b on A100 and qwen3-235b-a22b on A100"
H20_DECODE = "deepseek-r1 on H20 and deepseek-v3 on H20 and qwen3-30b-a3b on H20"
CDNA4 = "deepseek-r1 on MI355X and deepseek-v3 on MI355X"
NVIDIA = "8 models on A100, DGX-B200, DGX-B300, GB200-NVL72, H20, H100, H200, H800"


class TestOrigins:
    @pytest.mark.parametrize(
        ("name", "model", "phase", "origin", "told"),
        [
            ("H800", "deepseek-v3", Phase.PREFILL, Origin.PUBLISHED, HOPPER),
            ("H800", "deepseek-r1", Phase.PREFILL, Origin.PUBLISHED, HOPPER),
            ("H100", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, HOPPER),
            ("H100", "llama-3.1-70b", Phase.PREFILL, Origin.PUBLISHED, HOPPER),
            ("H100", "llama-3.1-70b", Phase.DECODE, Origin.PUBLISHED, HOPPER),
            ("H100", "qwen3-30b-a3b", Phase.DECODE, Origin.CARRIED, HOPPER),
            ("H800", "llama-3.1-70b", Phase.DECODE, Origin.CARRIED, HOPPER),
            ("H200", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, HOPPER),
            ("H200", "deepseek-r1", Phase.DECODE, Origin.PUBLISHED, HOPPER),
            ("H200", "deepseek-v2", Phase.DECODE, Origin.CARRIED, HOPPER),
            ("GB200-NVL72", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, BLACKWELL),
            ("DGX-B200", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, BLACKWELL),
            ("DGX-B300", "llama-3.1-70b", Phase.DECODE, Origin.CARRIED, BLACKWELL),
            ("H20", "qwen3-30b-a3b", Phase.DECODE, Origin.PUBLISHED, H20_DECODE),
            ("H20", "deepseek-r1", Phase.DECODE, Origin.PUBLISHED, H20_DECODE),
            ("H20", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, H20_DECODE),
            ("H20", "qwen3-30b-a3b", Phase.PREFILL, Origin.PUBLISHED, "qwen3-30b-a3b on H20"),
            ("H20", "deepseek-r1", Phase.PREFILL, Origin.CARRIED, "qwen3-30b-a3b on H20"),
            ("H20", "deepseek-v3", Phase.PREFILL, Origin.CARRIED, "qwen3-30b-a3b on H20"),
            ("MI300X", "deepseek-v3", Phase.PREFILL, Origin.PUBLISHED, "4 models on MI300X"),
            ("MI300X", "qwen3-30b-a3b", Phase.PREFILL, Origin.CARRIED, "4 models on MI300X"),
            ("MI355X", "deepseek-v3", Phase.DECODE, Origin.PUBLISHED, CDNA4),
            ("A100", "deepseek-v3", Phase.DECODE, Origin.CARRIED, AMPERE),
            ("L40S", "llama-3.1-70b", Phase.DECODE, Origin.CARRIED, NVIDIA),
        ],
    )
    def test_a_measurement_vouches_for_its_own_gpu_and_models_of_its_shape_only(
        self, name: str, model: str, phase: Phase, origin: Origin, told: str
    ) -> None:
        came, said = origin_of(gpu(name), load_model(model), phase, None)
        assert came is origin
        measured, _, fitted = said.partition(": ")
        assert measured == f"measured {'with' if ' models on ' in told else 'on'} {told}"
        assert fitted.startswith("fitted to ")

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
        rows = made_with(BUILT_IN, [step("H200", Phase.DECODE, 4096, 64)])
        fit = fit_calibration(rows, {"H200": gpu("H200")}, {"deepseek-v3": deepseek}, name="mine")
        assert origin_of(gpu("H200"), deepseek, Phase.DECODE, fit.calibration)[0] is Origin.USER
        assert origin_of(gpu("H100"), deepseek, Phase.DECODE, fit.calibration)[0] is Origin.CARRIED
        assert origin_of(gpu("H200"), llama, Phase.DECODE, fit.calibration)[0] is Origin.CARRIED

    def test_a_file_of_before_models_vouches_for_its_gpus(self) -> None:
        old = replace(shared("kernels_decode", "hopper", 0.6), gpus=("H200",))
        mine = Calibration(name="mine", factors=(old,))
        said = origin_of(gpu("H200"), load_model("deepseek-v3"), Phase.DECODE, mine)
        assert said == (Origin.USER, "measured on H200: made up")
        assert origin_of(gpu("H100"), load_model("deepseek-v3"), Phase.DECODE, mine)[0] is Origin.CARRIED


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
        assert any("at its bound" in one for one in doubts(fit))
        assert any("row 3 is" in one for one in doubts(fit))
