"""More pairs out of the same pairs: data diversification [1], for the comparison.

Three short runs learn to translate, and one learns both directions. They translate the training
set, each in its own words: English captions into German, and the last one German captions into
English. Then each of the three goes on, with all that was made. No other text is used.

[1] Nguyen et al. 2020, Data Diversification: A Simple Strategy For Neural Machine Translation.
"""

from pathlib import Path

from transformer_lab import Run, load_run, train
from transformer_lab.data.pairs import TextPairs
from transformer_lab.runs import METRICS, load_task
from transformer_lab.support.files import write_atomically

PRESET, TEACHERS = "multi30k-tok", (0, 1, 2)
# Muon comes as far in 400 steps as Adam in 1,000 (validation loss, one seed: recipes.json).
MUON = {"optimizer": "muon", "weight_decay": 0.1, "rate_factor": 1.6, "warmup": 300}
MUON |= {"precision": "bfloat16", "checkpoint_every": 100, "average": 8}
TEACHER = MUON | {"steps": 2200}
BOTH_WAYS = MUON | {"steps": 3000}
PUPIL = MUON | {"steps": 4600, "dropout": 0.2}  # four epochs of all that was made
DECODING = {"beam": 2, "alpha": 0.6}  # of the translations


def train_diverse(folder: Path, seed: int, **settings) -> Run:
    """Return the run in `folder`: the teacher of this seed, and what all of them made, learned.

    The teachers' folders lie beside it; what is there is not made again.
    """
    pairs, made, teachers = load_task(PRESET)["train"], set(), {}
    for number in TEACHERS:
        own = folder.parent / f"teacher-{number}"
        teachers[number] = trained(own, seed=number, **TEACHER)
        made.update(translated(teachers[number], pairs))
    both = trained(folder.parent / "both-directions-0", more_pairs=turned(pairs), **BOTH_WAYS)
    made.update(turned(translated(both, turned(pairs))))
    made = sorted(made - set(pairs))
    settings = PUPIL | {"seed": seed, "more_pairs": made, "start_from": teachers[seed]} | settings
    return trained(folder, **settings)


def trained(folder: Path, **settings) -> Run:
    """Return the run in `folder`, trained unless it is whole."""
    if (folder / METRICS).exists():
        return load_run(folder)
    return train(PRESET, folder, **{"progress": False} | settings)


def turned(pairs: TextPairs) -> TextPairs:
    """Return each pair the other way round."""
    return [(target, source) for source, target in pairs]


def translated(run: Run, pairs: TextPairs) -> TextPairs:
    """Return the sources with the run's own translations, which are kept in its folder."""
    path, sources = run.folder / "translations.txt", [source for source, _ in pairs]
    if not path.exists():
        texts = run.translate(sources, progress=True, **DECODING)
        write_atomically(path, "\n".join(texts).encode())
    return list(zip(sources, path.read_text(encoding="utf-8").split("\n"), strict=True))
