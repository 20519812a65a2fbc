"""What a model learns from: pairs of sentences, and the batches that are made of them.

Read `batches.py`: it pads, shifts and groups. `dates.py`, `multi30k.py` and `pairs.py` each give
pairs of texts; `reading.py` reads the files of a corpus of your own for `pairs.py`, which splits
and keeps them.
`letters.py` gives the English captions letter by letter, for models that only go on with what
they read; `scenes.py` draws pictures and says what they show.
"""

from transformer_lab.data.batches import Batch, batches_by_tokens, pad
from transformer_lab.data.dates import date_pairs
from transformer_lab.data.letters import Letters, caption_letters
from transformer_lab.data.multi30k import load_multi30k
from transformer_lab.data.pairs import load_pairs
from transformer_lab.data.scenes import Scene, scenes

__all__ = [
    "Batch",
    "Letters",
    "Scene",
    "batches_by_tokens",
    "caption_letters",
    "date_pairs",
    "load_multi30k",
    "load_pairs",
    "pad",
    "scenes",
]
