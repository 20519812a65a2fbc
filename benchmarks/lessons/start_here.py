"""`python -m benchmarks.lessons.start_here`: what lesson 00 says of one short run, for five seeds.

The code is the lesson's own, loaded from its notebook.
"""

from functools import partial
from tempfile import TemporaryDirectory

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report
from transformer_lab import Run, date_pairs, train

SEEDS = range(5)
TOY = {"steps": 4, "checkpoint_every": 1, "d_model": 8, "num_heads": 1, "num_decoder_layers": 1}
MONTHS = "january february march april may june july august september october november december"

lesson = partial(lesson_code, "00", "SETTINGS", "changed_answers", "right_parts")


def parts(code: dict, pairs: list, answers: list[str]) -> dict:
    """Return the share of right months and years, by the form of the month."""
    shares = {}
    for form, named in (("by name", True), ("in numbers", False)):
        chosen = [i for i, (text, _) in enumerate(pairs) if any(map(str.isalpha, text)) == named]
        right = code["right_parts"]([pairs[i] for i in chosen], [answers[i] for i in chosen])
        for part in ("month", "year"):
            shares[f"{part} right, {form}"] = right[part]
    return shares | {"exact match": code["right_parts"](pairs, answers)["exact"]}


def swapped(truths: list[str], answers: list[str]) -> dict:
    """Return the share of wrong answers that have the right digits in a wrong order.

    By chance: the same on average if the wrong parts are other dates' parts, wrong ones as well.
    """
    dates = [truth.split("-") for truth in truths]
    both = zip(dates, (answer.split("-") for answer in answers), strict=True)
    wrong = [(truth, answer) for truth, answer in both if truth != answer]
    by_model = sum(same_digits(truth, answer) for truth, answer in wrong)
    by_chance = 0.0
    for truth, answer in wrong:
        others = strangers(truth, answer, dates)
        by_chance += sum(same_digits(truth, other) for other in others) / max(len(others), 1)
    return {
        "wrong answers with the right digits": by_model / len(wrong),
        "the same if wrong parts were by chance": by_chance / len(wrong),
    }


def same_digits(truth: list[str], answer: list[str]) -> bool:
    return sorted("".join(truth)) == sorted("".join(answer))


def strangers(truth: list[str], answer: list[str], dates: list[list[str]]) -> list[list[str]]:
    """Return `truth` with each date's parts where `answer` is wrong, if all of them are wrong."""
    parts = [i for i in range(3) if answer[i : i + 1] != [truth[i]]]
    return [
        [other[i] if i in parts else truth[i] for i in range(3)]
        for other in dates
        if parts and all(other[i] != truth[i] for i in parts)
    ]


def weights(run: Run, pairs: list) -> dict:
    """Return the weight of the month's rows on the month's name, on average over many dates."""
    named = [
        (text, month) for text, _ in pairs for month in MONTHS.split() if month in text.lower()
    ]
    on_name, even = [], []
    for text, month in named[:200]:
        maps, _, read = run.cross_attention(text)
        start = text.lower().index(month)
        rows = maps[-1].mean(dim=0)[5:7, start : start + len(month)]
        on_name.append(rows.sum().item() / 2)
        even.append(len(month) / len(read))
    mean = {"month's rows on its name": on_name, "the same if even": even}
    return {name: sum(values) / len(values) for name, values in mean.items()}


def measure(*, smoke: bool = False) -> list[dict]:
    """Return a row for each seed."""
    code, rows = lesson(), []
    count = 40 if smoke else 1000
    pairs = date_pairs(count, seed=3, split="test")
    settings = TOY if smoke else code["SETTINGS"]
    for seed in range(1) if smoke else SEEDS:
        with TemporaryDirectory() as folder:
            run = train("dates", folder, progress=False, seed=seed, **settings)
        answers = run.translate([text for text, _ in pairs])
        row = parts(code, pairs, answers)
        row |= swapped([iso for _, iso in pairs], answers) | weights(run, pairs)
        changed = code["changed_answers"](run, count=2 * count)
        row |= {f"changed by {name}": share for name, share in changed.items()}
        rows.append(
            {"seed": seed, "steps": settings["steps"]}
            | {name: round(share, 4) for name, share in row.items()}
        )
    return rows


def table(rows: list[dict]) -> str:
    """Return mean and range over the seeds as Markdown."""
    lines = ["| share | mean | lowest to highest | seeds |", "|---" * 4 + "|"]
    for name in [key for key in rows[0] if key not in ("seed", "steps")]:
        values = [row[name] for row in rows]
        mean, spread = sum(values) / len(values), f"{min(values):.3f} to {max(values):.3f}"
        lines.append(f"| {name} | {mean:.3f} | {spread} | {len(values)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write start_here.json, print the table."""
    options = report.read_options("start_here", __doc__, arguments)
    result = report.describe_run("start_here", smoke=options.smoke)
    result["rows"] = measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "start_here.json", result)
    print(table(result["rows"]))


if __name__ == "__main__":
    main()
