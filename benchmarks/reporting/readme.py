"""`python -m benchmarks.reporting.readme`: write the results into the pages that show them.

Both are made from `benchmarks/results/*.json`; a part that was not measured is left out. A test
fails when they say something else.
"""

import argparse
import statistics
from pathlib import Path

from benchmarks import limits, recipes, table3
from benchmarks.reporting.report import RESULTS, ROOT, markdown, table, tables
from transformer_lab.decoding import LENGTH_PENALTY
from transformer_lab.support.files import read_json, write_atomically

COMMAND = "python -m benchmarks.reporting.readme"
START, END = f"<!-- results: made by {COMMAND} -->", "<!-- end of the results -->"
PAGES = {"README.md": "headlines", "benchmarks/README.md": "full", "teaching/handing_out.md": "hub"}
RATIOS = ("training", "decoding")
OURS = ": transformer_lab"
AGAINST = {
    ": transformer_lab, bfloat16": ": speed in bfloat16, against `nn.Transformer` in float32",
    ": transformer_lab": ": speed against `nn.Transformer` with a dense loss",
}
PRESETS = {
    "dates": ("Dates", "≥ 99.5 % in ≤ 60 s"),
    "multi30k": ("Multi30k En→De, raw, on the CPU", "test2016 ≥ 34 in ≤ 20 min"),
    "multi30k-raw": (
        "Multi30k En→De, raw, the recipe of the next row",
        "test2016 ≥ 39, missed by 0.003",
    ),
    "multi30k-tok": (
        "Multi30k En→De, tokenised, on the CPU",
        "test2016 ≥ 41.02 (Wu et al. 2021, two GPUs)",
    ),
    "multi30k-tok-adam": ("The same with Adam, in float32", "test2016 ≥ 41.02"),
    "multi30k-diverse": (
        "The three tokenised models, 7,000 steps more, with translations by them and by one of "
        "both directions (these four: 4.6 h)",
        "test2016 ≥ 41.02",
    ),
    "multi30k-longer": ("Two of them, 7,000 steps more on the pairs alone", ""),
    "multi30k-tok-rdrop": (
        "The tokenised model at twice the width, with R-Drop, 4,500 steps, on the CPU",
        "test2016 ≥ 41.02",
    ),
}
# Not in the summary: these tables, and what others have overtaken.
OVERTAKEN = {"multi30k-tok-adam", "multi30k-longer", "gpu_quality"}
OWN_TABLES = {"limits": limits.table, "table3": table3.table, "recipes": recipes.table}
GPU = ("quality", "best", "small", "search", "time_to_quality", "ladder", "speed", "inference")
GPU += ("numerics", "lesson")


def read_results(folder: Path = RESULTS) -> dict[str, dict]:
    """Return the results by the names of their files, in the order in which they are shown."""
    names = (*RATIOS, *PRESETS, *OWN_TABLES, *(f"gpu_{part}" for part in GPU))
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: read_json(path) for name, path in paths.items() if path.exists()}


def headlines(results: dict[str, dict]) -> str:
    """Return what somebody who has never heard of the project may want to know, in a few rows."""
    rows = []
    if dates := results.get("dates"):
        seconds = statistics.mean(row["seconds"] for row in dates["rows"])
        right = _scores(dates["rows"], "test").split("%")[0]
        what = "a model reads dates in any form, after less than a minute of training"
        rows.append([what, f"{right}% of unseen dates right after {seconds:.0f} s, two CPU cores"])
    quality = []
    if best := results.get("gpu_best"):
        tok = [row for row in best["rows"] if row["variant"] == "tok"]
        quality.append(f"{_mean_bleu(tok):.1f} trained on one GPU")
    if made := results.get("multi30k-diverse"):
        quality.append(f"{_mean_bleu(made['rows']):.1f} on two CPU cores")
    if quality:
        what = "it translates English captions into German (BLEU, test2016 of Multi30k)"
        rows.append([what, f"{', '.join(quality)}; published (Wu et al. 2021): 41.0"])
    if training := results.get("training"):
        plain, half = _ratios(training, OURS), _ratios(training, f"{OURS}, bfloat16")
        what = "training, against PyTorch's own `nn.Transformer` in float32"
        rows.append([what, f"{plain} as fast; in bfloat16 {half}"])
    if decoding := results.get("decoding"):
        what = "writing 1,024 tokens with a cache, against without"
        rows.append([what, f"{_ratios(decoding, '1024 tokens: cache against none')} as fast"])
    if not rows:
        return "Nothing has been measured yet: `make bench`."
    return markdown(["what", "measured"], rows)


def _mean_bleu(rows: list[dict]) -> float:
    return statistics.mean(row["scores"]["test2016"]["bleu"] for row in rows)


def _ratios(result: dict, ending: str) -> str:
    """Return the ratios of the rows whose names end so, as "1.4 to 1.8 ×"."""
    rows = [row for row in result["rows"] if row["name"].endswith(ending)]
    ratios = [f"{row['ratio']['median']:.1f}" for row in rows]
    return f"{' to '.join(dict.fromkeys((min(ratios), max(ratios))))} ×"


def summary(results: dict[str, dict]) -> str:
    """Return one table of what was measured beside what was aimed at."""
    rows = []
    results = {name: results[name] for name in results if name not in OVERTAKEN}
    for name, result in results.items():
        if name in RATIOS:
            rows += [
                [
                    _against(row["name"]),
                    *(f"{row['ratio']['median']:.1f} ×", row["target"]),
                ]
                for row in result["rows"]
                if row.get("target")
            ]
        elif name in PRESETS:
            rows.append(_preset_row(name, result["rows"]))
        elif name not in OWN_TABLES:
            rows += result["summary"]
    if not rows:
        return "Nothing has been measured yet: `make bench`."
    lines = markdown(["what", "measured", "target"], rows)
    shown = [result for name, result in results.items() if name not in OWN_TABLES]
    machines = " and ".join(dict.fromkeys(map(_machine, shown)))
    side = "some runs side by side: times of different rows cannot be compared"
    return f"{lines}\n\nMeasured on {machines}, {side}."


def _against(name: str) -> str:
    for ending, meaning in AGAINST.items():
        name = name.removesuffix(ending) + meaning if name.endswith(ending) else name
    return name


def full(results: dict[str, dict]) -> str:
    """Return the summary, then every table under the machine and versions that it came from."""
    sections = [f"### In one table\n\n{summary(results)}"]
    for name, result in results.items():
        if name in RATIOS:
            body = table(result["rows"])
        elif name in PRESETS:
            body = _preset_table(result["rows"])
        elif name in OWN_TABLES:
            body = OWN_TABLES[name](result)
        else:
            body = tables(result)
        sections.append(f"### {name}\n\n{_about(result)}\n\n{body}")
    return "\n\n".join(sections)


def hub(_: dict[str, dict], path: Path = RESULTS / "hub.json") -> str:
    """Return the table of what each lesson needs, which stands on its own page alone."""
    if not path.exists():
        return "Nothing has been measured yet: `python -m benchmarks.hub`."
    result = read_json(path)
    return f"{tables(result)}\n\n{_about(result)}"


def _preset_row(name: str, rows: list[dict]) -> list[str]:
    what, target = PRESETS[name]
    names = sorted(rows[0]["scores"], key=lambda name: name == "mscoco")  # the target's test first
    tests = ", ".join(f"{test} {_scores(rows, test)}" for test in names)
    seconds = statistics.mean(row["seconds"] for row in rows)
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    seeds = f"{len(rows)} seeds" if len(rows) > 1 else "one seed"
    return [f"{what}, {seeds}", f"{tests}, in {time} of training", target]


def _preset_table(rows: list[dict]) -> str:
    tests = list(rows[0]["scores"])
    lines = [
        [row["seed"], f"{row['seconds']:.0f}", f"{row['parameters']:,}"]
        + [_scores([row], test) + _interval(row["scores"][test]) for test in tests]
        for row in rows
    ]
    scores = [score for row in rows for score in row["scores"].values()]
    signatures = {score["signature"] for score in scores if len(score) > 1}
    about = [f"sacreBLEU: `{signature}`" for signature in sorted(signatures)]
    if any("low" in score for score in scores):
        about.append("From … to: 95 % of the draws of a bootstrap over the sentences.")
    if "scores_paper_alpha" in rows[0]:
        paper = [{"scores": row["scores_paper_alpha"]} for row in rows]
        means = ", ".join(f"{test} {_scores(paper, test)}" for test in tests)
        about.append(f"At the paper's length penalty, {LENGTH_PENALTY}: {means}.")
    columns = ["seed", "training, s", "parameters", *tests]
    return "\n\n".join([markdown(columns, lines), *about])


def _scores(rows: list[dict], test: str) -> str:
    """Return the mean over the rows, and the lowest and highest if they differ."""
    scores = [row["scores"][test] for row in rows]
    if "bleu" in scores[0]:
        values, sign, unit = [score["bleu"] for score in scores], "BLEU ", ""
    else:
        values, sign, unit = [100 * score["exact_match"] for score in scores], "", " % right"
    spread = f" ({min(values):.2f} to {max(values):.2f})" if min(values) < max(values) else ""
    return f"{sign}{statistics.mean(values):.2f}{unit}{spread}"


def _interval(score: dict) -> str:
    """Return the range of the bootstrap over the sentences, if it was taken."""
    return f", {score['low']:.1f} to {score['high']:.1f}" if "low" in score else ""


def _about(result: dict) -> str:
    versions, commit = result["versions"], result["commit"]
    return (
        f"{_machine(result)}; PyTorch {versions['torch']}, Python {versions['python']}; "
        f"{result['date'][:10]}, commit {commit[:8]}{', changed' if commit.endswith('+') else ''}."
    )


def _machine(result: dict) -> str:
    hardware = result["hardware"]
    return hardware.get("gpu") or f"{hardware['cpu']}, threads: {result['threads']}"


def renew(text: str, section: str) -> str:
    """Return the page with the section between its two markers; `ValueError` if one is missing."""
    before, found, rest = text.partition(START)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"the page must hold {START} and {END}")
    return f"{before}{START}\n\n{section}\n\n{END}{after}"


def main() -> None:
    """Write the pages."""
    argparse.ArgumentParser(prog=COMMAND, description=__doc__).parse_args()
    results = read_results()
    for name, kind in PAGES.items():
        path = ROOT / name
        section = {"headlines": headlines, "full": full, "hub": hub}[kind](results)
        write_atomically(path, renew(path.read_text(), section).encode())
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
