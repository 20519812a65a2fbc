"""matrix.md: outcomes, tasks and claims of each lesson, and where each section of the paper is."""

from pathlib import Path

from course.lessons import ROOT, Claim, lessons

OUT = Path("matrix.md")
SECTIONS = {  # of "Attention Is All You Need"
    "Abstract": "Abstract",
    "1": "Introduction",
    "2": "Background",
    "3": "Model Architecture",
    "Figure 1": "The Transformer: model architecture",
    "3.1": "Encoder and Decoder Stacks",
    "3.2": "Attention",
    "3.2.1": "Scaled Dot-Product Attention",
    "3.2.2": "Multi-Head Attention",
    "3.2.3": "Applications of Attention in our Model",
    "3.3": "Position-wise Feed-Forward Networks",
    "3.4": "Embeddings and Softmax",
    "3.5": "Positional Encoding",
    "4": "Why Self-Attention",
    "5.1": "Training Data and Batching",
    "5.2": "Hardware and Schedule",
    "5.3": "Optimizer",
    "5.4": "Regularization",
    "6.1": "Machine Translation",
    "6.2": "Model Variations (Table 3)",
    "6.3": "English Constituency Parsing",
    "7": "Conclusion",
    "Appendix": "Attention Visualizations",
}


def pages() -> dict[Path, str]:
    """Return the matrix."""
    parts = [
        "# Outcomes, tasks, claims, and the paper\n",
        "Made by `python teaching/make.py`; edit the lessons and the solutions.\n",
        "## What each lesson adds\n",
        *(_lesson(number) for number in lessons()),
        "## Where each section of the paper is\n",
        _sections(),
    ]
    return {OUT: "\n".join(parts)}


def _lesson(number: str) -> str:
    lesson = lessons()[number]
    outcomes = "\n".join(f"- {outcome}" for outcome in lesson.outcomes)
    link = f"[{number} · {lesson.title}](../../notebooks/{lesson.name}.ipynb)"
    rows = [
        f"| {task.number} | {', '.join(f'`{name}`' for name in task.names)} | "
        f"{'★' * task.difficulty} | {task.minutes} | {task.points} |"
        for task in lesson.tasks
    ]
    table = "| task | names | difficulty | minutes | points |\n|---|---|---|---|---|\n"
    practised = table + "\n".join(rows) + "\n\n" if rows else ""
    settled = ", ".join(f"[{c.number}]({_where(c)}) ({c.verdict})" for c in lesson.claims)
    return f"### {link}\n\n{outcomes}\n\n{practised}" + (f"Claims: {settled}\n" if settled else "")


def _where(claim: Claim) -> str:
    """Return the address of what settles a claim."""
    path = claim.path.relative_to(ROOT).as_posix()
    return f"<../../{path}#{claim.anchor or 'Myth-or-fact?'}>"


def _sections() -> str:
    """Return where each section of the paper is.

    Raises `ValueError` for a section that a lesson names and the paper does not have.
    """
    rows = ["| section | title | lesson and place |", "|---|---|---|"]
    for section, title in SECTIONS.items():
        places = [
            f"[{lesson.number} {place}]({lesson.link(place, '../..')})"
            for lesson in lessons().values()
            for place in lesson.paper.get(section, [])
        ]
        rows.append(f"| {section} | {title} | {', '.join(places)} |")
    for lesson in lessons().values():
        if unknown := set(lesson.paper) - set(SECTIONS):
            raise ValueError(f"{lesson.name}: the paper has no section {sorted(unknown)}")
    return "\n".join(rows) + "\n"
