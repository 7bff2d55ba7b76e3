"""Proposals of layouts with a routing table: searched for, solved for, or those of a saved plan."""

from functools import partial

from planner.assignment import LayoutAnswer
from planner.domain import Certificate, Evaluation, IslandClass, Layout, Plan, SearchRecord
from planner.evaluation.assembly import assemble, assemble_flows, estimates_of, network_bottleneck
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goodput import service_of
from planner.evaluation.judging import judge
from planner.layouts.certificate import certified_again, certify
from planner.layouts.feasibility import require_saved_rate, require_target
from planner.layouts.proposals import ProposedPlan
from planner.layouts.sensitivity import sensitivity_of


def proposed_table(
    evaluator: Evaluator,
    best: Evaluation,
    record: SearchRecord,
    answer: LayoutAnswer | None,
    saved: Certificate | None = None,
) -> ProposedPlan:
    """The best layout; its islands lie on nodes where the scenario names a cluster. `answer`: the exact method's, where
    it made the layout; `saved`: the certificate of a plan that has the layout already."""
    assert best.assignment is not None, "a layout that serves has an assignment"
    question, scenario = evaluator.question, evaluator.question.scenario
    layout, assignment, table, names, placement = best.layout, best.assignment, evaluator.table(best.layout), None, None
    if evaluator.fleet is not None:
        from planner.evaluation.placing import placed_layout  # noqa: PLC0415  (a plan on no nodes needs none of it)

        placed = placed_layout(table, layout, assignment, question, evaluator.fleet, advises=True)
        assignment, table, names, placement = placed.assignment, placed.table, placed.names, placed.placement
        layout = placed.layout
        require_target(scenario, assignment.throughput_rps)
    islands, routing = assemble(scenario.inventory, layout, table, assignment, names)
    if saved is None:
        certificate = certify(scenario, evaluator, best.layout, assignment.throughput_rps, answer)
    else:
        certificate = certified_again(scenario, saved, best.layout, assignment.throughput_rps)
    return ProposedPlan(
        assignment=assignment,
        islands=islands,
        routing=routing,
        record=record,
        certificate=certificate,
        estimates=estimates_of(table, islands),
        worths=partial(sensitivity_of, evaluator=evaluator),
        placement=placement,
        service=service_of(question, assignment, table),
        flows=assemble_flows(scenario.model, table, assignment, names),
        network_bottleneck=network_bottleneck(table, assignment),
    )


def saved_table(evaluator: Evaluator, saved: Plan) -> ProposedPlan:
    """The layout of a saved plan. Raises InputError where it does not serve what the plan says."""
    layout = Layout.of(IslandClass(gpu=island.gpu, size=island.size) for island in saved.islands)
    evaluation = judge(evaluator.table(layout), layout, evaluator.question)
    require_saved_rate(saved, evaluation.throughput_rps if evaluation.assignment else 0.0, "layout serves")
    return proposed_table(evaluator, evaluation, saved.search, None, saved=saved.certificate)
