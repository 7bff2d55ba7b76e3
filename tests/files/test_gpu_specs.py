"""GPU types against Shallowsim's device table, and against nonsense."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from reference_data import reference_rows

from planner.cost.efficiency import FACTOR_NAMES, efficiency_of
from planner.cost.factors import BUILT_IN
from planner.domain.efficiency import ANY_FAMILY
from planner.errors import PlannerError
from planner.files import load_gpu_spec, load_gpu_specs, shipped_scenarios
from planner.files.disk import names
from planner.files.models.gpu_specs import load_prices

SHIPPED = Path(__file__).parents[2] / "gpu_specs"


def test_twelve_devices_match_shallowsims_table() -> None:
    specs = load_gpu_specs()
    rows = reference_rows("shallowsim/shallowsim_gpu_info.csv")
    assert len(rows) == 12
    for row in rows:
        spec = specs[row["gpu_type"]]
        ours = (
            spec.sms,
            spec.sms_for_communication,
            spec.fp16_tflops,
            spec.fp8_tflops,
            spec.fp4_tflops,
            spec.memory_gb,
            spec.reference_memory_gb_s,
            spec.nvlink_gb_s,
            spec.nic_gb_s,
            spec.gpus_per_nvlink_domain,
        )
        assert ours == tuple(float(value) for key, value in row.items() if key != "gpu_type"), spec.name
        if spec.name != "H800":
            assert spec.memory_gb_s == spec.reference_memory_gb_s, spec.name


def test_h800_keeps_the_data_sheets_bandwidth_beside_shallowsims() -> None:
    spec = load_gpu_spec("H800")
    assert (spec.memory_gb_s, spec.reference_memory_gb_s) == (3350, 4000)
    assert any(s.figure == "memory_gb_s" and "4000" in s.source for s in spec.sources)


# dense FP16, FP8 and FP4 in TFLOP/s (half of what is printed with sparsity); GB; GB/s of memory, of the links within a
# host (half of both directions), of the NIC (Gb/s of a host shared out); W
_DATA_SHEETS = {
    "H100": (989, 1979, 0, 80, 3350, 450, 50, 700),
    "A100": (312, 0, 0, 80, 2039, 300, 25, 400),
    "MI325X": (1307.4, 2614.9, 0, 256, 6000, 448, 50, 1000),
    "MI355X": (2516.6, 5033, 10066, 288, 8000, 537.6, 50, 1400),
    "H100-NVL": (1671 / 2, 3341 / 2, 0, 94, 3900, 600 / 2, 400 / 8 / 2, 400),
    "L40S": (362.05, 733, 0, 48, 864, 64 / 2, 400 / 8 / 8, 350),
    "L4": (242 / 2, 485 / 2, 0, 24, 300, 64 / 2, 100 / 8 / 8, 72),
    "A10": (125, 0, 0, 24, 600, 64 / 2, 100 / 8 / 4, 150),
    "A10G": (70, 0, 0, 24, 600, 64 / 2, 100 / 8 / 8, 300),
    "RTX-PRO-6000": (4 * 120, 8 * 120, 16 * 120, 96, 1597, 128 / 2, 1600 / 8 / 8, 600),
}


@pytest.mark.parametrize("name", _DATA_SHEETS)
def test_data_sheets_of_the_devices_shallowsim_lacks(name: str) -> None:
    """Copied from the vendors' data sheets, not from our files."""
    spec = load_gpu_spec(name)
    assert (
        spec.fp16_tflops,
        spec.fp8_tflops,
        spec.fp4_tflops,
        spec.memory_gb,
        spec.memory_gb_s,
        spec.nvlink_gb_s,
        spec.nic_gb_s,
        spec.max_w,
    ) == _DATA_SHEETS[name]


def test_every_figure_of_every_device_has_unit_and_source() -> None:
    specs = load_gpu_specs()
    assert {*specs} == {path.stem for path in SHIPPED.glob("*.yaml")} - {"prices"}
    for spec in specs.values():
        further = (spec.compute_capability, spec.host_link_gb_s, spec.host_memory_gb_s)
        assert len(spec.sources) == 15 + sum(map(bool, further)), spec.name
        assert all(source.unit and source.source for source in spec.sources), spec.name
        assert spec.node_selector, spec.name


def test_links_within_a_host_are_nvlink_or_else_pcie_and_say_so() -> None:
    """GPUs that no NVLink joins reach each other at PCIe's rate within their host, not over the NIC."""
    specs = load_gpu_specs()
    for name in ("L40S", "L4", "A10", "A10G", "RTX-PRO-6000"):
        spec = specs[name]
        (source,) = (s.source for s in spec.sources if s.figure == "nvlink_gb_s")
        assert "no NVLink; PCIe" in source, name
        assert spec.gpus_per_nvlink_domain == spec.gpus_per_host, name
        assert spec.nic_gb_s < spec.nvlink_gb_s, name
    pairs = specs["H100-NVL"]
    assert (pairs.gpus_per_nvlink_domain, pairs.gpus_per_host, pairs.host_link_gb_s) == (2, 8, 128 / 2)
    assert all(spec.linked_gpus >= spec.gpus_per_host for spec in specs.values())


def test_types_in_no_fit_take_the_factors_of_their_vendor() -> None:
    """Nothing is fitted on them alone: no other family's figures are theirs."""
    own = {factor.family for factor in BUILT_IN.factors} - {ANY_FAMILY}
    specs = load_gpu_specs()
    unfitted = {name: specs[name].family for name in ("L40S", "L4", "RTX-PRO-6000")}
    assert set(unfitted.values()) == {"ada", "blackwell_workstation"}
    assert not own & set(unfitted.values())
    for name in unfitted:
        for factor in FACTOR_NAMES:
            assert getattr(efficiency_of(specs[name], None), factor) == BUILT_IN.factor(factor, "nvidia").value
    shared = [factor for factor in FACTOR_NAMES if BUILT_IN.factor(factor, "nvidia").family == "nvidia"]
    assert {"kernels_prefill", "kernels_decode"} <= set(shared)


def test_only_families_that_were_measured_have_factors_of_their_own() -> None:
    specs = load_gpu_specs()
    families = {spec.family for spec in specs.values()}
    fitted = [factor for factor in BUILT_IN.factors if factor.family in families]
    assert {specs["MI355X"].family, specs["H200"].family} <= {factor.family for factor in fitted}
    for factor in fitted:
        if factor.measured:
            assert {specs[name].family for name in factor.gpus} == {factor.family}, factor


def test_hosts_and_efficiency_curves() -> None:
    specs = load_gpu_specs()
    assert (specs["GB200-NVL72"].gpus_per_host, specs["GB300-NVL72"].gpus_per_host) == (4, 4)
    assert {specs[name].family for name in ("H20", "H20-3E")} == {"h20"}


def test_prices_of_the_study_are_kept() -> None:
    prices = load_prices()
    study = {name: price.usd_per_hour for name, price in prices.items() if "Rignall 2025" in price.source}
    assert study == {"H200": 4, "H800": 2, "H20": 1}


def test_every_type_that_can_be_rented_has_a_price_with_month_and_provider_or_is_called_an_estimate() -> None:
    specs = load_gpu_specs()
    assert {name for name, spec in specs.items() if spec.price is None} >= {"Rubin-NVL144", "RubinU-NVL576"}
    assert set(load_prices()) <= set(specs)
    for name, price in load_prices().items():
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", price.date), name
        of_a_provider = re.match(r"[A-Z]\w+.*, .*(on demand|list price)", price.source)
        assert of_a_provider or price.source.startswith(("estimate: ", "Rignall 2025")), name
        assert 0 < price.usd_per_hour < 20, name


def test_unknown_gpu_lists_the_nearest_and_all(refused: Callable[..., None]) -> None:
    refused(lambda: load_gpu_spec("h2000"), "h2000", hint="Did you mean H200")
    refused(lambda: load_gpu_spec("h2000"), hint="RubinU-NVL576")
    refused(lambda: load_gpu_spec("b200"), hint="Did you mean DGX-B200")


def test_an_extra_folder_adds_types_and_prices(tmp_path: Path) -> None:
    text = (SHIPPED / "H100.yaml").read_text(encoding="utf-8").replace("name: H100", "name: X1")
    (tmp_path / "X1.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "prices.yaml").write_text('X1: {usd_per_hour: 3, date: "2025-01", source: ours}', encoding="utf-8")
    specs = load_gpu_specs(tmp_path)
    assert {*specs} == {*load_gpu_specs(), "X1"}
    assert specs["X1"].price.usd_per_hour == 3


def test_a_spec_without_the_drivers_memory_says_what_counts_instead(tmp_path: Path) -> None:
    """Files from before `memory_mib` stay readable and plan as before."""
    lines = (SHIPPED / "H100.yaml").read_text(encoding="utf-8").splitlines()
    older = [line for line in lines if not line.startswith("memory_mib:")]
    assert len(older) == len(lines) - 1
    (tmp_path / "H100.yaml").write_text("\n".join(older), encoding="utf-8")
    spec = load_gpu_specs(tmp_path)["H100"]
    assert (spec.memory_mib, spec.device_gb) == (0, 80)
    (source,) = (s for s in spec.sources if s.figure == "memory_mib")
    for words in ("memory_gb counts, at 10^9 bytes a GB", "add memory_mib", "nvidia-smi"):
        assert words in source.source


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: H100", "name: H101", ("name", "H100", "'H101'")),
        ("unit: GB/s", "unit: TB/s", ("memory_gb_s.unit", "GB/s", "'TB/s'")),
        ("81559, unit: MiB", "81559, unit: MB", ("memory_mib.unit", "MiB", "'MB'")),
        ("81559", "79.6", ("memory_mib.value", "within 10 % of memory_gb (80 GB), 68665 to 83923", "79.6")),
        ("81559", "85520809984", ("memory_mib.value", "68665 to 83923")),
        ("value: 700", "value: '700'", ("max_w.value", "number", "'700' (str)")),
        ("value: 700", "value: .nan", ("max_w.value", "finite", "nan")),
        ("value: 70,", "value: 701,", ("idle_w.value", "at most max_w (700)")),
        ("value: 20,", "value: 132,", ("sms_for_communication.value", "less than sms (132)")),
        ("sms:", "sm:", ("sm is not a known key",)),
        ("family: hopper", "family: volta", ("family", "one of ampere, ada, hopper, h20", "'volta'")),
        ("NVIDIA-H100-80GB-HBM3", "'bad value'", ("node_selector.nvidia.com/gpu.product", "'bad value'")),
        ("nvidia.com/gpu.product", "Nvidia/'x'", ("node_selector", "label key")),
        ("value: 132, ", "", ("sms.value", "it is missing")),
    ],
)
def test_a_faulty_spec_names_file_key_rule_and_value(
    tmp_path: Path, refused: Callable[..., None], old: str, new: str, words: tuple[str, ...]
) -> None:
    text = (SHIPPED / "H100.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "H100.yaml").write_text(text.replace(old, new), encoding="utf-8")
    refused(lambda: load_gpu_specs(tmp_path), str(tmp_path / "H100.yaml"), *words)


def test_an_installed_package_finds_its_data_inside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*load_gpu_specs()}
    monkeypatch.setattr(names, "_PACKAGE", tmp_path / "planner")
    with pytest.raises(PlannerError, match="gpu_specs/ is missing"):
        load_gpu_specs()
    inside = tmp_path / "planner" / "_shipped"
    (inside / "workloads" / "scenarios").mkdir(parents=True)
    (inside / "workloads" / "scenarios" / "a.yaml").write_text("", encoding="utf-8")
    shutil.copytree(SHIPPED, inside / "gpu_specs")
    assert {*load_gpu_specs()} == before
    assert set(shipped_scenarios()) == {"a"}


def test_compute_capabilities_are_cudas(tmp_path: Path) -> None:
    """NVIDIA's table of CUDA GPUs; another vendor's have none, and of Rubin none is published."""
    specs = load_gpu_specs()
    told = {name: spec.compute_capability for name, spec in specs.items() if spec.compute_capability}
    hopper = dict.fromkeys(("H100", "H100-NVL", "H200", "H800", "H20", "H20-3E"), 9.0)
    blackwell = {"DGX-B200": 10.0, "GB200-NVL72": 10.0, "DGX-B300": 10.3, "GB300-NVL72": 10.3, "RTX-PRO-6000": 12.0}
    ampere = {"A100": 8.0, "A10": 8.6, "A10G": 8.6, "L4": 8.9, "L40S": 8.9}
    assert (ampere | hopper | blackwell).items() <= told.items()
    assert {specs[name].vendor for name in told} == {"NVIDIA"}
    of_family = {"A100": 8.0, "A10": 8.0, "L4": 8.9, "H20": 9.0, "RTX-PRO-6000": 12.0, "DGX-B200": 0.0, "MI300X": 0.0}
    for name, expected in of_family.items():
        text = (SHIPPED / f"{name}.yaml").read_text()
        own = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("compute_capability"))
        (tmp_path / f"{name}.yaml").write_text(own)
        assert load_gpu_spec(name, tmp_path).compute_capability == expected  # of the family, where it has one
