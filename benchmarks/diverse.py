"""More pairs out of the same pairs: data diversification [1], for the comparison.

The models that are there translate the training set, each in its own words, and each goes on with
all of it. The three of `multi30k-tok` write German for the English captions; the first of them,
trained on in both directions, writes English for the German ones. No other text is used.

[1] Nguyen et al. 2020, Data Diversification: A Simple Strategy For Neural Machine Translation.
"""

from pathlib import Path

from transformer_lab import PRESETS, Run, load_run, train
from transformer_lab.data.pairs import TextPairs
from transformer_lab.runs import METRICS, load_task
from transformer_lab.support.files import read_json, write_atomically
from transformer_lab.support.validation import require

PRESET, TEACHERS = "multi30k-tok", (0, 1, 2)
STEPS = 7000  # of a pupil, after the 8,000 that made it a teacher


def train_diverse(folder: Path, *, seed: int, **settings) -> Run:
    """Return the run in `folder`: the teacher of this seed, trained on with what all have made.

    The teachers' folders lie beside it, shared with `benchmarks.quality`; what is there is not
    made again.
    """
    pairs, made, runs = load_task(PRESET)["train"], set(), folder.parent
    teachers = [finished(runs / f"{PRESET}-{n}", seed=n, **settings) for n in TEACHERS]
    for teacher in teachers:
        made.update(translated(teacher, pairs, teacher.folder))
    own = {"start": teachers[0], "more_pairs": turned(pairs), "seed": 0}
    both_ways = finished(runs / "both-directions-0", **own, **settings)
    made.update(turned(translated(both_ways, turned(pairs), both_ways.folder)))
    own = {"start": teachers[seed], "more_pairs": sorted(made - set(pairs)), "seed": seed}
    return train(PRESET, folder, **own, steps=STEPS, **settings)


def train_longer(folder: Path, *, seed: int, **settings) -> Run:
    """Return the run in `folder`, the control: as many steps more, with the pairs alone."""
    teacher = finished(folder.parent / f"{PRESET}-{seed}", seed=seed, **settings)
    return train(PRESET, folder, start=teacher, seed=seed, steps=STEPS, **settings)


def finished(folder: Path, **settings) -> Run:
    """Return the run in `folder`, trained to its end if it is not there.

    Raises `ValueError` if what is there was trained in another precision.
    """
    if not (folder / METRICS).exists():
        return train(PRESET, folder, **settings)
    asked = settings.get("precision", PRESETS[PRESET].training.precision)
    found = read_json(folder / METRICS)["training"]["precision"]
    require(found == asked, f"{folder} must be a run in {asked}, got one in {found}")
    return load_run(folder)


def turned(pairs: TextPairs) -> TextPairs:
    """Return each pair the other way round."""
    return [(target, source) for source, target in pairs]


def translated(run: Run, pairs: TextPairs, folder: Path) -> TextPairs:
    """Return the sources with the run's own translations, which are kept in the folder."""
    path, sources = folder / "translations.txt", [source for source, _ in pairs]
    if not path.exists():
        texts = run.translate(sources, progress=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "\n".join(texts).encode())
    return list(zip(sources, path.read_text(encoding="utf-8").split("\n"), strict=True))
