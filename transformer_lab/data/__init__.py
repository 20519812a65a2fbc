"""What a model learns from: pairs of sentences, and the batches that are made of them.

Read `batches.py`: it pads, shifts and groups. `dates.py`, `multi30k.py` and `pairs.py` each give
pairs of texts; a corpus of your own goes into `pairs.py`'s format, or into a file beside it.
"""

from transformer_lab.data.batches import Batch, batches_by_tokens, pad
from transformer_lab.data.dates import date_pairs
from transformer_lab.data.multi30k import load_multi30k
from transformer_lab.data.pairs import load_pairs

__all__ = ["Batch", "batches_by_tokens", "date_pairs", "load_multi30k", "load_pairs", "pad"]
