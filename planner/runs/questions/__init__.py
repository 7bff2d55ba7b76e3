"""Questions about money in one line: the cheapest fleet for a rate, the best for a budget, the most of a fleet.

Doors: `cheapest_fleet`, `best_fleet_for`, `most_of_fleet`; each plans the scenario that the question stands for.
"""

from planner.runs.questions.asking import best_fleet_for, cheapest_fleet, most_of_fleet
from planner.runs.questions.documents import Demand, Draft, MoneyAnswer, MoneyQuestion, draft_text
from planner.runs.questions.words import answer_document, answer_text

__all__ = [
    "Demand",
    "Draft",
    "MoneyAnswer",
    "MoneyQuestion",
    "answer_document",
    "answer_text",
    "best_fleet_for",
    "cheapest_fleet",
    "draft_text",
    "most_of_fleet",
]
