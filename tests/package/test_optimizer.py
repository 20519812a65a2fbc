"""Muon beside Adam: who moves what, what is stored of it, and that it fits the equations."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from transformer_lab import TrainConfig, Transformer, fit
from transformer_lab.config import EOS
from transformer_lab.saving import parameters_of
from transformer_lab.training.optimizer import MuonAndAdam, make_optimizer

PAIRS = [([4, 5, EOS], [6, EOS]), ([5, EOS], [4, 6, EOS]), ([6, 4, EOS], [5, 5, EOS])]
CONFIG = TrainConfig(
    steps=6, max_tokens=8, warmup=2, checkpoint_every=2, average=2, optimizer="muon", seed=3
)


@pytest.fixture
def model(tiny) -> Transformer:
    """A model whose two embeddings and last linear layer are three matrices."""
    return tiny(target_vocab_size=11, dropout=0.0)


def trained(model: Transformer, config: TrainConfig = CONFIG, **options):
    fit(model, PAIRS, config, progress=False, **options)
    return parameters_of(model)


def test_muon_has_the_matrices_inside_the_layers_and_adam_the_rest(model):
    optimizer = make_optimizer(model, CONFIG)
    muon, adam = ({id(p) for p in part.param_groups[0]["params"]} for part in optimizer.parts)
    names = {name: id(p) for name, p in model.named_parameters()}
    assert muon | adam == set(names.values()) and not muon & adam
    for name, parameter in model.named_parameters():
        inside = ".layers." in name and parameter.ndim == 2
        assert (names[name] in muon) == inside, name
    assert {"source_embedding.table", "generator.weight"} <= set(names)


def test_each_step_is_that_of_the_two_side_by_side(model):
    optimizer = make_optimizer(model, replace(CONFIG, weight_decay=0.2))
    copies = {p: p.detach().clone().requires_grad_() for p in model.parameters()}
    muon, adam = ([copies[p] for p in part.param_groups[0]["params"]] for part in optimizer.parts)
    two = (
        torch.optim.Muon(muon, weight_decay=0.2, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(adam, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0),
    )
    for step in range(3):
        for parameter, copy in copies.items():
            parameter.grad = torch.randn(parameter.shape)
            copy.grad = parameter.grad.clone()
        for one in (optimizer, *two):
            one.param_groups[0]["lr"] = 0.1 / (step + 1)
            one.step()
    for parameter, copy in copies.items():
        assert_close(parameter.detach(), copy.detach())


def test_a_step_of_muon_stretches_no_direction_much_more_than_another():
    """A gradient with one strong direction: Adam's step is as lopsided as it, Muon's is not."""
    layers = torch.nn.ModuleList([torch.nn.Linear(8, 8, bias=False)])
    network = torch.nn.ModuleDict({"layers": layers, "other": torch.nn.Linear(8, 8, bias=False)})
    optimizer = MuonAndAdam(network, CONFIG)
    inside, outside = network["layers"][0].weight, network["other"].weight
    before = inside.detach().clone(), outside.detach().clone()
    values = torch.diag(torch.tensor([100.0, 1, 1, 1, 1, 1, 1, 1]))
    turns = torch.linalg.qr(torch.randn(2, 8, 8))[0]
    inside.grad = outside.grad = turns[0] @ values @ turns[1]
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    for old, new, at_most in ((before[0], inside, 2.0), (before[1], outside, None)):
        stretched = torch.linalg.svdvals((new - old).detach())
        ratio = float(stretched[0] / stretched[-1])
        assert ratio < at_most if at_most else ratio > 5


def test_a_run_goes_on_as_if_it_had_not_been_interrupted(tiny, tmp_path):
    def fresh():
        return tiny(target_vocab_size=11, tie_embeddings=True, dropout=0.3)

    whole = trained(fresh())
    trained(fresh(), replace(CONFIG, steps=4), folder=tmp_path)
    gone_on = trained(fresh(), folder=tmp_path)
    assert all(torch.equal(whole[name], gone_on[name]) for name in whole)
    without = trained(fresh(), replace(CONFIG, optimizer="adam"))
    assert not all(torch.equal(whole[name], without[name]) for name in whole)


def test_adams_numbers_are_no_state_of_muon(tiny, tmp_path):
    model = tiny(target_vocab_size=11)
    trained(model, replace(CONFIG, optimizer="adam", steps=2), folder=tmp_path)
    with pytest.raises(ValueError, match="other training settings"):
        trained(model, folder=tmp_path)


def test_a_model_without_layers_has_nothing_for_muon(tiny):
    bare = tiny(num_encoder_layers=0, num_decoder_layers=0)
    with pytest.raises(ValueError, match='optimizer="muon" needs a model with layers'):
        make_optimizer(bare, CONFIG)


def test_a_stored_count_of_steps_goes_where_its_parameter_is(model):
    groups = make_optimizer(model, CONFIG).state_dict()["param_groups"]
    elsewhere, count = torch.empty(1, device="meta"), torch.tensor(3.0)
    place = torch.optim.Optimizer._process_value_according_to_param_policy
    assert place(elsewhere, count, 0, groups, "step").device == elsewhere.device
