"""The `routing:` and `survive:` sections of a scenario, and what goes with which form of routing."""

from dataclasses import replace

from planner.domain import RoutingForm, RoutingSettings, Scenario, ServingForm, SurvivalSettings, require_buckets
from planner.domain.serving.routing import DEFAULT_FORM
from planner.errors import InputError
from planner.files.records import read_record
from planner.files.sections import Section


def read_routing(section: Section) -> RoutingSettings:
    """How requests find their island; without a form it is up to `with_form`."""
    return read_record(RoutingSettings, section, form=_form)


def _form(section: Section) -> RoutingForm | None:
    return DEFAULT_FORM if section.is_empty("form") else section.choice("form", RoutingForm)


def read_survival(section: Section) -> SurvivalSettings:
    """What must remain of the rate when nodes are lost."""
    return read_record(SurvivalSettings, section)


def with_form(file: str, scenario: Scenario) -> Scenario:
    """The scenario with its forms of routing and serving resolved. InputError where one does not go with the rest."""
    if scenario.bucketed and scenario.beyond_buckets:
        key = scenario.beyond_buckets.partition(":")[0]
        raise InputError(
            f"{file}: routing.form: buckets does not go with {scenario.beyond_buckets}, which their programme does not "
            "know.",
            hint=f"Set routing.form to table, or change or leave out {key}.",
        )
    if scenario.survive.share:
        require_buckets(scenario, "where survive.share is set", origin=file, instead="leave out survive")
    if scenario.serving_form is not ServingForm.SPLIT and scenario.beyond_mixed:
        raise InputError(
            f"{file}: serving must be split with {scenario.beyond_mixed}, which servers of both phases do not know, "
            f"got {scenario.serving_form.value}.",
            hint=f"Set serving to split, or change {scenario.beyond_mixed.partition(':')[0]}.",
        )
    routing = replace(scenario.routing, form=scenario.routing_form)
    return replace(scenario, routing=routing, serving=scenario.serving_form)
