"""The page of all documents: a table each of claims, and how many hold; and the same as rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import counted, significant
from planner.studies.papers.records import Claim, Paper, Verdict

HEADER = ("Of", "The document says", "Published", "Ours", "Verdict", "Why", "Run")
_ABOUT = (
    "Five documents gave this planner its methods. Figures of theirs that our code can compute stand here beside what "
    "comes out of it, from the raw results of long runs (`planner study papers` writes this page; the results lie in a "
    "folder a study of `planner/studies`); what they measured in production, on GPUs of theirs, does not. "
    "`holds`: as published. `close`: short of it, by what is shown. "
    "`explained`: another figure, for a reason that is shown. `open`: another figure that nobody can explain from what "
    "is published. The commands of the runs and their CPU-seconds stand below each table."
)


def papers_page(claims: Mapping[Paper, Sequence[Claim]]) -> str:
    """The page in Markdown, ending in a newline."""
    parts = ["# The documents, reconciled", _ABOUT, _summary(claims)]
    for paper, rows in claims.items():
        parts += [f"## {paper.title}", f"{paper.reference}. {_counts(rows)}", _claims_table(rows), _runs_table(rows)]
    return "\n\n".join(parts) + "\n"


def claim_rows(claims: Mapping[Paper, Sequence[Claim]]) -> list[dict[str, object]]:
    """A row a claim, for tables and JSON."""
    return [
        {
            "document": paper.title,
            "of": claim.place,
            "claim": claim.words,
            "published": claim.published,
            "ours": claim.ours,
            "verdict": claim.verdict.value,
            "reason": claim.reason,
            "command": claim.run.command,
            "also": "; ".join(run.command for run in claim.also),
            "date": claim.run.date,
            "cpu_s": claim.run.cpu_s,
        }
        for paper, rows in claims.items()
        for claim in rows
    ]


def _summary(claims: Mapping[Paper, Sequence[Claim]]) -> str:
    rows = [
        [paper.title, str(len(rows)), *(str(_count(rows, verdict)) for verdict in Verdict)]
        for paper, rows in claims.items()
    ]
    return table(["Document", "Claims", *(verdict.value for verdict in Verdict)], rows, "l" + "r" * (1 + len(Verdict)))


def _count(rows: Iterable[Claim], verdict: Verdict) -> int:
    return sum(claim.verdict is verdict for claim in rows)


def _counts(rows: Sequence[Claim]) -> str:
    counts = Counter(claim.verdict for claim in rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    return f"Of {counted(len(rows), 'claim')}: {verdicts}."


def _claims_table(rows: Sequence[Claim]) -> str:
    numbers = _numbers(rows)
    cells = [
        [
            *map(escaped, (claim.place, claim.words, claim.published, claim.ours)),
            f"**{claim.verdict.value}**",
            escaped(claim.reason),
            ", ".join(numbers[command] for command in claim.commands),
        ]
        for claim in rows
    ]
    return table(HEADER, cells, "lllllll")


def _runs_table(rows: Sequence[Claim]) -> str:
    """A row a command, by the number that the claims give it; what several tables came of ran once."""
    runs = {command: run for claim in rows for command, run in claim.commands.items()}
    cells = [
        [number, f"`{command}`".replace("|", "\\|"), runs[command].date, significant(runs[command].cpu_s)]
        for command, number in _numbers(rows).items()
    ]
    return table(["Run", "Command", "Day", "CPU-seconds"], cells, "rllr")


def _numbers(rows: Sequence[Claim]) -> dict[str, str]:
    """A number for each command, in order of first mention."""
    ordered = dict.fromkeys(command for row in rows for command in row.commands)
    return {command: str(place) for place, command in enumerate(ordered, 1)}
