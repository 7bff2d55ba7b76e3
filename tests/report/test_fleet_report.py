"""A fleet in words, tables and a page: the answer first, its figures those of the document."""

from dataclasses import replace

import pytest
from page_checks import check_cells, check_charts, check_words
from small_fleets import small_fleet

from planner.domain.fleets import BatchFill, FleetAim, FleetObjective, ServiceShare
from planner.report.fleets import tables
from planner.report.fleets.page import fleet_page, fleet_summary, gpus_plot
from planner.report.fleets.words import verdict
from planner.runs.fleets import fleet_html


def test_the_answer_comes_first() -> None:
    fleet = small_fleet()
    head = fleet_summary(fleet).split("\n## ")[0]
    assert f"Each of 2 services is promised {tables.times(fleet.value)} its demand" in head
    assert "80.00 USD/hour" in head
    assert "No division of the GPUs reaches more than" in head
    assert "of the best" in head


@pytest.mark.parametrize(
    ("aim", "value", "bound", "words"),
    [
        (FleetAim.MULTIPLE, 0.8, 0.81, "is promised 80.0 % of its demand: the GPUs are too few"),
        (FleetAim.TARGET, 60.0, 60.0, "60.00 USD/hour rent what promises the demands of 2 services"),
        (FleetAim.TARGET, 60.0, 54.0, "costs less than 54.00 USD/hour: this one is within 11.1 % of the best"),
        (FleetAim.WEIGHTED, 30.0, 31.0, "30.0 requests/s are promised, by weight; 2 of 2 services in full"),
        (FleetAim.PRIORITY, 2.0, 2.0, "2 of 2 services are promised in full"),
    ],
)
def test_every_aim_has_its_words(aim: FleetAim, value: float, bound: float, words: str) -> None:
    fleet = replace(small_fleet(), value=value, bound=bound)
    fleet = replace(fleet, fleet=replace(fleet.fleet, objective=FleetObjective(kind=aim)))
    assert words in verdict(fleet)


def test_tables_have_the_figures_of_the_document() -> None:
    fleet = small_fleet()
    rows = tables.services(fleet).records()
    assert [row["promised_rps"] for row in rows] == [share.promised_rps for share in fleet.shares]
    frame = tables.service_rows(fleet).frame()
    assert frame["gpus_H20"].sum() + frame["gpus_H200"].sum() == 32
    assert frame["rent_usd_per_hour"].sum() == pytest.approx(80.0)
    worth = tables.nodes(fleet).records()[0]
    assert (worth["gpu"], worth["gpus"], worth["chat_rps"]) == ("H20", 8, dict(fleet.worths[0].requests)["chat"])
    assert "(services/chat/summary.md)" in fleet_summary(fleet)


def test_what_is_short_idle_and_shared_is_told() -> None:
    fleet = small_fleet()
    short = ServiceShare(service="chat", demand_rps=20.0, promised_rps=10.0)
    chat, other = fleet.parts
    shared = replace(chat, deployment=replace(chat.deployment, parts=(("chat", 0.5), ("oss", 0.5))))
    waiting = replace(
        other,
        deployment=replace(other.deployment, parts=(("nightly", 1.0),)),
        gpus=((other.gpus[0][0], other.gpus[0][1] - 8),),
    )
    changed = replace(
        fleet,
        shares=(short, *fleet.shares[1:]),
        parts=(shared,),
        batches=(BatchFill(service="nightly", part=waiting, tokens_a_day=4e8, asked_tokens_a_day=1e9),),
    )
    text = fleet_summary(changed)
    assert "chat gets 50 % of its demand: 10.0 of 20.0 requests/s" in text
    assert "Nobody has 8 H20" in text
    assert "nightly does 400,000,000 tokens a day on what others leave, 40 % of what is asked for" in text
    assert "some with oss" in text
    assert "nightly does nothing: others leave no GPU" in fleet_summary(fleet)


def test_the_page_has_all_of_it() -> None:
    fleet = small_fleet()
    page = fleet_page(fleet, linked="report.html")
    check_charts(page, [gpus_plot(fleet)])
    check_words(page)
    check_cells(page)
    html = fleet_html(fleet).decode()
    assert '<a href="services/chat/report.html">chat</a>' in html
    assert html == fleet_html(fleet).decode()


def test_a_fleet_without_prices_tells_of_no_rent() -> None:
    fleet = small_fleet()
    rows = tuple(replace(row, rent_usd_per_hour=None, marginal_usd_per_hour=None) for row in fleet.shares)
    inventory = fleet.fleet.inventory
    items = tuple(replace(item, price_usd_per_gpu_hour=0.0, price_known=False) for item in inventory.items)
    unpriced = replace(fleet.fleet, inventory=replace(inventory, items=items))
    text = fleet_summary(replace(fleet, shares=rows, fleet=unpriced))
    assert "USD" not in text


def test_where_more_nodes_are_worth_nothing_no_table_says_so() -> None:
    fleet = small_fleet()
    plenty = tuple(replace(worth, change=0.0, requests=()) for worth in fleet.worths)
    cheapest = replace(fleet.fleet, objective=FleetObjective(kind=FleetAim.TARGET))
    chat, other = fleet.parts
    smaller = (chat, replace(other, gpus=(("H200", 8),)))
    text = fleet_summary(replace(fleet, worths=plenty, parts=smaller, fleet=cheapest))
    assert "One more node of any type is worth nothing" in text
    assert "GPU type" not in text
    assert "Not rented: 8 H20" in text
