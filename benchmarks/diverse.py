"""More pairs out of the same pairs: data diversification [1], for the comparison.

The models that are there translate the training set, each in its own words, and a model of the same
size learns all of it. The three of `multi30k-tok` write German for the English captions; one that
was trained in both directions writes English for the German ones. No other text is used.

[1] Nguyen et al. 2020, Data Diversification: A Simple Strategy For Neural Machine Translation.
"""

from pathlib import Path

from transformer_lab import Run, train
from transformer_lab.data.pairs import TextPairs
from transformer_lab.runs import load_task
from transformer_lab.support.files import write_atomically

PRESET, TEACHERS = "multi30k-tok", (0, 1, 2)
BOTH_WAYS = {"seed": 0, "steps": 16_000, "checkpoint_every": 500}
STEPS = {"steps": 16_500, "checkpoint_every": 500}


def train_diverse(folder: Path, **settings) -> Run:
    """Return the run in `folder`, trained on the pairs and on what its teachers made of them.

    Their folders lie beside it, shared with `benchmarks.quality`; what is there is not made again.
    """
    pairs, made = load_task(PRESET)["train"], set()
    alike = {name: settings[name] for name in ("precision",) if name in settings}
    for seed in TEACHERS:
        teacher = train(PRESET, folder.parent / f"{PRESET}-{seed}", seed=seed, **alike)
        made.update(translated(teacher, pairs))
    both = folder.parent / "both-directions-0"
    teacher = train(PRESET, both, more_pairs=turned(pairs), **BOTH_WAYS | alike)
    made.update(turned(translated(teacher, turned(pairs))))
    more_pairs = sorted(made - set(pairs))
    return train(PRESET, folder, more_pairs=more_pairs, **STEPS | settings)


def turned(pairs: TextPairs) -> TextPairs:
    """Return each pair the other way round."""
    return [(target, source) for source, target in pairs]


def translated(run: Run, pairs: TextPairs) -> TextPairs:
    """Return the sources with the run's own translations, which are kept in its folder."""
    path, sources = run.folder / "translations.txt", [source for source, _ in pairs]
    if not path.exists():
        texts = run.translate(sources, progress=True)
        write_atomically(path, "\n".join(texts).encode())
    return list(zip(sources, path.read_text(encoding="utf-8").split("\n"), strict=True))
