"""A leaderboard on pairs that the class has never seen.

python teaching/project/leaderboard.py split pairs.tsv --into folder --salt "a word that you keep"
python teaching/project/leaderboard.py rank folder/hidden.tsv runs/first runs/second
"""

import argparse
import hashlib
import random
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from transformer_lab import load_run  # noqa: E402
from transformer_lab.data.reading import read_pairs  # noqa: E402
from transformer_lab.scoring import score  # noqa: E402
from transformer_lab.support.files import write_atomically  # noqa: E402

HIDDEN, DRAWS = 0.2, 1000  # the share that stays hidden; draws of the bootstrap


def split(pairs: list[tuple[str, str]], salt: str) -> dict[str, list[tuple[str, str]]]:
    """Return the parts "public" and "hidden"; a source is placed by its salted SHA-256.

    Sources that differ in capitals or spaces only stand on the same side. Raises `ValueError` if
    a side is empty or `salt` is.
    """
    if not salt:
        raise ValueError("salt must not be empty: without one anybody could make the hidden part")
    parts = {"public": [], "hidden": []}
    for source, target in pairs:
        text = f"{salt}\n{' '.join(source.casefold().split())}"
        place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
        parts["hidden" if place < HIDDEN else "public"].append((source, target))
    if not all(parts.values()):
        raise ValueError(f"{len(pairs)} pairs are too few to split")
    return parts


def interval(right: list[float], seed: int = 0) -> tuple[float, float]:
    """Return a 95 % bootstrap interval of the mean, resampling sentences."""
    draw = random.Random(seed)
    means = sorted(statistics.fmean(draw.choices(right, k=len(right))) for _ in range(DRAWS))
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1]


def told_apart(first: list[float], other: list[float], seed: int = 0) -> bool:
    """Return whether the paired difference of two hand-ins has an interval without 0."""
    low, high = interval([a - b for a, b in zip(first, other, strict=True)], seed)
    return low > 0 or high < 0


def table(answers: dict[str, list[str]], references: list[str]) -> str:
    """Return the ranking of hand-ins, by name, as Markdown, best exact match first."""
    right = {
        name: [float(a == b) for a, b in zip(texts, references, strict=True)]
        for name, texts in answers.items()
    }
    ranked = sorted(right, key=lambda name: -statistics.fmean(right[name]))
    lines = ["| | run | exact match | 95 % | BLEU | chrF | |", "|---|---|---|---|---|---|---|"]
    for place, name in enumerate(ranked, 1):
        low, high = interval(right[name])
        scores = score("pairs", answers[name], references)
        same = place > 1 and not told_apart(right[ranked[0]], right[name])
        lines.append(
            f"| {place} | {name} | {statistics.fmean(right[name]):.1%} | {low:.1%} to {high:.1%} "
            f"| {scores['bleu']:.1f} | {scores['chrf']:.1f} "
            f"| {'not told from the first' if same else ''} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    splitting = commands.add_parser("split", help="make public.tsv and hidden.tsv of a file")
    splitting.add_argument("pairs", type=Path)
    splitting.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    splitting.add_argument("--salt", required=True, help="a word that only the teacher knows")
    ranking = commands.add_parser("rank", help="score runs on the hidden part")
    ranking.add_argument("hidden", type=Path)
    ranking.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    try:
        if options.command == "split":
            pairs, notes = read_pairs(options.pairs)
            for note in notes:
                print(note, file=sys.stderr)
            for name, part in split(pairs, options.salt).items():
                text = "".join(f"{source}\t{target}\n" for source, target in part)
                write_atomically(options.into / f"{name}.tsv", text.encode())
                print(f"{options.into / name}.tsv: {len(part)} pairs")
        else:
            sources, references = zip(*read_pairs(options.hidden)[0], strict=True)
            answers = {}
            for run in options.runs:
                try:
                    answers[str(run)] = load_run(run).translate(list(sources))
                except (ValueError, OSError) as error:  # the others are ranked
                    print(f"{run} is left out: {error}", file=sys.stderr)
            if not answers:
                raise ValueError("no run could be scored")
            print(table(answers, list(references)))
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
