"""What a machine with a GPU does, imitated; what stays on its CPU, and what is said."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.imitated_gpu import imitated_gpu
from transformer_lab import (
    Batch,
    Run,
    TrainConfig,
    attention_maps,
    beam_search,
    cli,
    fit,
    greedy_decode,
    load_run,
    plots,
    runs,
    sample,
    sequence_loss,
    train,
    validate,
)
from transformer_lab.runs import PRETRAINED

SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1}
SIZES |= {"num_decoder_layers": 1, "steps": 2, "max_tokens": 300}
SAID = "The model runs on cuda (an imitated GPU)."
DATE = "friday 15 february 2019"


@pytest.fixture(autouse=True)
def gpu(without_shape_checks):
    with imitated_gpu():
        yield


@pytest.fixture(autouse=True)
def little_data(monkeypatch, captions):
    monkeypatch.setattr(runs, "NUM_TRAINING_DATES", 500)
    monkeypatch.setattr(runs, "NUM_TEST_DATES", 30)
    monkeypatch.setattr(
        runs, "load_multi30k", lambda _: dict.fromkeys(("train", "val", "test2016"), captions)
    )


def place(model):
    (device,) = {x.device.type for x in (*model.parameters(), *model.buffers())}
    return device


# ---- The imitation


def refused(error, work, *words):
    with pytest.raises(error, match=".*".join(words)):
        work()


def test_tensors_of_two_places_refuse_to_meet():
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    model = nn.Linear(3, 3).cuda()
    for work in (
        lambda: here + there,
        lambda: there.mul_(here),
        lambda: torch.cat([here, there]),
        lambda: here[there.long()],
        lambda: torch.equal(here, there),
        lambda: model(here),
        lambda: nn.functional.embedding(torch.tensor([1]), model.weight),
        lambda: nn.MSELoss()(model(there), here),
    ):
        refused(RuntimeError, work, "Expected all tensors to be on the same device")
    for work in (there.numpy, lambda: np.asarray(there), lambda: np.mean([there])):
        refused(TypeError, work, "can't convert cuda:0", "to numpy")
    generator = torch.Generator()
    refused(
        RuntimeError,
        lambda: there.multinomial(1, generator=generator),
        "Expected a 'cuda' device type for generator",
    )
    with pytest.raises(AssertionError, match="device"):
        torch.testing.assert_close(here, there)


def test_what_may_meet_meets_and_results_stay_where_they_were_made():
    here, there = torch.arange(3.0), torch.arange(3.0).to("cuda")
    assert there.is_cuda and not here.is_cuda and here.to(there).is_cuda
    for result in (
        there + 1,
        there * torch.tensor(2.0),
        there[torch.tensor([0, 2])],
        there[:2].view(1, 2),
        there.softmax(dim=0).detach(),
        torch.zeros_like(there),
        torch.stack([there, there]),
        nn.Parameter(there),
        there.double().cpu().cuda(),
    ):
        assert result.device == torch.device("cuda:0")
    assert there.cpu().numpy().tolist() == there.tolist() == here.copy_(there).tolist()
    there[0], there[1:] = torch.tensor(5.0), torch.ones(2)
    assert there.tolist() == [5.0, 1.0, 1.0] and there.cpu().device == here.device
    assert here.to("cpu") is here and there.to("cuda") is there


def test_a_model_moves_as_a_whole_and_so_do_its_gradients():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.randn(4, 2, device="cuda")).square().sum().backward()
    optimizer.step()
    assert all(p.grad.is_cuda for p in model.parameters()) and place(model) == "cuda"
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    assert place(model.cpu()) == "cpu" and not model[0].weight.grad.is_cuda


# ---- The package


def test_models_of_dates_stay_on_the_cpu_unless_a_device_is_named(tmp_path, capsys):
    run = train("dates", tmp_path / "here", progress=False, **SIZES)
    assert place(run.model) == "cpu" and "cuda" not in capsys.readouterr().out
    again = train("dates", tmp_path / "there", progress=False, device="cuda", **SIZES)
    assert place(again.model) == "cuda"
    ours, theirs = (dict(each.model.named_parameters()) for each in (run, again))
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name].cpu())
    assert place(load_run(tmp_path / "there").model) == "cpu"


def test_what_else_is_trained_goes_to_the_gpu_and_says_so(tmp_path, capsys):
    sizes = SIZES | {"source_vocab_size": 80, "target_vocab_size": 80}
    run = train("multi30k", tmp_path / "named", progress=False, device="cpu", **sizes)
    assert place(run.model) == "cpu" and SAID not in capsys.readouterr().out
    run = train("multi30k", tmp_path / "run", progress=False, **sizes)
    assert place(run.model) == "cuda" and capsys.readouterr().out.splitlines() == [SAID]
    weights, written, read = run.cross_attention("a red dog")
    assert weights.device.type == "cpu" and weights.shape[-2:] == (len(written), len(read))
    assert set(run.evaluate()) == {"test2016"}


def test_a_run_that_was_interrupted_goes_on_there(tmp_path):
    train("dates", tmp_path, progress=False, device="cuda", **SIZES)
    run = train("dates", tmp_path, progress=False, device="cuda", **SIZES | {"steps": 4})
    assert place(run.model) == "cuda"


def test_the_command_line_does_the_same(tmp_path, capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    dates, captions = str(tmp_path / "dates"), str(tmp_path / "captions")
    assert cli.main(["train", "dates", "--output", dates, *options]) == 0
    assert "dates on cpu: " in capsys.readouterr().err
    assert cli.main(["train", "multi30k", "--output", captions, "--vocab-size=80", *options]) == 0
    assert "multi30k on cuda: " in capsys.readouterr().err
    for run, told in ((dates, []), (captions, [SAID])):
        for command in (["translate", "--explain", DATE], ["evaluate"]):
            assert cli.main([*command, "--run", run]) == 0
            said = [line for line in capsys.readouterr().err.splitlines() if "runs on" in line]
            assert said == told
            assert cli.main([*command, "--run", run, "--device=cpu"]) == 0
            assert SAID not in capsys.readouterr().err


def test_a_model_on_the_gpu_is_trained_read_drawn_and_asked_there(tmp_path):
    model = load_run(PRETRAINED / "dates_0").model.to("cuda")
    tokenizer = load_run(PRETRAINED / "dates_0").tokenizer
    run = Run.from_model(model, tokenizer)
    pairs = [(tokenizer.encode(DATE), tokenizer.encode("2019-02-15"))] * 8
    batch = Batch.from_pairs(pairs)
    with pytest.raises(RuntimeError, match="same device"):
        model(batch.source, batch.target_in)
    batch = batch.to("cuda")
    with torch.no_grad():
        logits = model(batch.source, batch.target_in)
    assert logits.is_cuda and sequence_loss(logits, batch.target_out) < 0.1
    assert validate(model, pairs)["accuracy"] == 1
    written = greedy_decode(model, batch.source), beam_search(model, batch.source, beam=3)
    assert {tokenizer.decode(tokens) for rows in written for tokens in rows} == {"2019-02-15"}
    drawn = sample(model, batch.source, generator=torch.Generator().manual_seed(0))
    assert drawn.is_cuda
    weights = attention_maps(model, batch.source, batch.target_in)[
        "decoder.layers.1.cross_attention"
    ]
    plots.plot_attention(weights[0, 0], [*"2019-02-15", "end"], [*DATE, "end"])
    for precision in ("float32", "bfloat16"):
        config = TrainConfig(steps=2, warmup=2, max_tokens=200, precision=precision)
        fit(model, pairs, config, valid_pairs=pairs, folder=tmp_path / precision, progress=False)
        assert place(model) == "cuda"
    run.save(tmp_path / "saved")
    assert place(load_run(tmp_path / "saved").model) == "cpu"
