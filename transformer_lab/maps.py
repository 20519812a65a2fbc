"""What every attention in a model has looked at (lesson 11)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.attention import MultiHeadAttention
from transformer_lab.model import Transformer
from transformer_lab.support.validation import require_type


def attention_maps(
    model: Transformer, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
) -> dict[str, Float[Tensor, "B H Lq Lk"]]:
    """Return the weights of every attention in the model, by the name of its module.

    No gradients; the model is run in the mode that it is in, so call `model.eval()` first.
    Raises `ValueError` as the model does.
    """
    require_type(model, nn.Module, "model")
    maps = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):

            def record(module, inputs, output, name=name):
                # The model asks for no weights; `forward` again, as a call would be recorded too.
                maps[name] = module.forward(*inputs, return_weights=True)[1]

            handles.append(module.register_forward_hook(record))
    try:
        with torch.no_grad():
            model(source, target)
    finally:
        for handle in handles:
            handle.remove()
    return maps
