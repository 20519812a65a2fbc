"""Training: the loss goes down, an interrupted run goes on exactly, nothing else is touched."""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lab import (
    PRESETS,
    Batch,
    ModelConfig,
    Objective,
    Preset,
    TrainConfig,
    Transformer,
    average_checkpoints,
    fit,
    load,
    load_run,
    noam_rate,
    runs,
    sequence_loss,
    train,
    train_step,
    validate,
)
from transformer_lab.config import EOS, PAD
from transformer_lab.saving import parameters_of
from transformer_lab.support.files import read_tensors
from transformer_lab.training import STATE, loop
from transformer_lab.training.checkpoints import identity_of, load_state


def copying_pairs(count: int, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Sentences of different lengths, and the same backwards."""
    rng = random.Random(seed)
    words = [[rng.randrange(4, 9) for _ in range(rng.randint(1, 5))] for _ in range(count)]
    return [([*w, EOS], [*w[::-1], EOS]) for w in words]


PAIRS = copying_pairs(20)
CONFIG = TrainConfig(
    steps=9, max_tokens=30, warmup=4, checkpoint_every=3, average=2, rate_factor=0.5, seed=7
)


def fresh(tiny, **sizes) -> Transformer:
    return tiny(target_vocab_size=11, tie_embeddings=True, **({"dropout": 0.3} | sizes))


def run(tiny, config: TrainConfig = CONFIG, pairs=PAIRS, **options):
    """Train a new model; return its weights, and the history without its seconds."""
    model = fresh(tiny)
    history = fit(model, pairs, config, valid_pairs=PAIRS[:4], progress=False, **options)
    assert not model.training
    return parameters_of(model), [
        {name: value for name, value in record.items() if name != "seconds"} for record in history
    ]


def assert_same(one, other) -> None:
    """Assert that weights and histories are equal, bit for bit."""
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    assert all(torch.equal(one[0][name], other[0][name]) for name in one[0])


class Interruption(Exception):
    pass


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function after which training is interrupted before the given step."""
    learning_rate = loop.learning_rate  # what each step begins with

    def before(last: int | None) -> None:
        def stop_or_go(step, d_model, config):
            if step == last:
                raise Interruption
            return learning_rate(step, d_model, config)

        monkeypatch.setattr(loop, "learning_rate", stop_or_go)

    return before


@pytest.fixture(scope="module")
def uninterrupted(tiny):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "RECORD_EVERY", 2)  # records between the checkpoints, too
        return run(tiny)


# ------------------------------------------------------------------------------------- resumption


@pytest.mark.parametrize("stops", [[n] for n in range(1, 10)] + [[2, 5, 5, 9]], ids=str)
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(
    tiny, tmp_path, interrupt, monkeypatch, uninterrupted, stops
):
    monkeypatch.setattr(loop, "RECORD_EVERY", 2)
    for step in stops:
        interrupt(step)
        with pytest.raises(Interruption):
            run(tiny, folder=tmp_path)
    interrupt(None)
    assert_same(run(tiny, folder=tmp_path), uninterrupted)


def test_a_finished_run_gives_its_result_again(tiny, tmp_path, interrupt):
    first = run(tiny, folder=tmp_path)
    interrupt(10)  # no step is taken
    assert_same(run(tiny, folder=tmp_path), first)


def test_a_run_without_decoder_layers_whose_encoder_learns_nothing_goes_on(tiny, tmp_path):
    def bare():
        return fresh(tiny, num_decoder_layers=0)

    whole, halves = bare(), bare()
    fit(whole, PAIRS, CONFIG, progress=False)
    fit(bare(), PAIRS, replace(CONFIG, steps=6), folder=tmp_path, progress=False)
    fit(halves, PAIRS, CONFIG, folder=tmp_path, progress=False)
    parameters = parameters_of(whole)
    assert all(torch.equal(parameters[name], x) for name, x in parameters_of(halves).items())


class Corpus(Sequence):
    """Pairs that are no list, and whose `repr` says where they lie and not what they hold."""

    def __len__(self):
        return len(PAIRS)

    def __getitem__(self, index):
        return PAIRS[index]


def test_a_run_on_pairs_that_are_no_list_goes_on_with_the_same_ones(tiny, tmp_path):
    first = run(tiny, pairs=Corpus(), folder=tmp_path)
    assert_same(run(tiny, pairs=Corpus(), folder=tmp_path), first)
    with pytest.raises(ValueError, match="other data settings"):
        run(tiny, pairs=PAIRS[1:], folder=tmp_path)


def test_pairs_for_validation_are_checked_before_the_first_step(
    tiny, monkeypatch, without_shape_checks
):
    monkeypatch.setattr(loop, "train_step", lambda *_, **__: pytest.fail("a step was taken"))
    with pytest.raises(ValueError, match="pairs must be a list"):
        fit(fresh(tiny), PAIRS, CONFIG, valid_pairs=[3], progress=False)


def test_a_folder_changes_nothing(tiny, tmp_path):
    assert_same(run(tiny, folder=tmp_path), run(tiny))


@pytest.mark.parametrize("first", [6, 7])
def test_a_run_can_be_made_longer(tiny, tmp_path, first):
    run(tiny, replace(CONFIG, steps=first), folder=tmp_path)
    longer, history = run(tiny, folder=tmp_path)
    expected, expected_history = run(tiny)
    assert all(torch.equal(longer[name], expected[name]) for name in expected)
    if first % CONFIG.checkpoint_every == 0:  # else there is one more record, where it had ended
        assert history == expected_history


def test_a_run_that_was_made_longer_and_interrupted_at_once_goes_on(tiny, tmp_path, interrupt):
    run(tiny, replace(CONFIG, steps=7), folder=tmp_path)  # its last snapshot is no longer run's
    interrupt(8)
    with pytest.raises(Interruption):
        run(tiny, folder=tmp_path)
    interrupt(None)
    longer, _ = run(tiny, folder=tmp_path)
    expected, _ = run(tiny)
    assert all(torch.equal(longer[name], expected[name]) for name in expected)


def test_a_sentence_of_the_models_length_can_be_validated(tiny):
    model, long = tiny(max_length=4100), [4] * 4050
    (*_, last) = fit(model, PAIRS, CONFIG, valid_pairs=[([4], long)], progress=False)
    assert last["valid_loss"] > 0


def test_the_folder_holds_the_last_snapshots_and_nothing_left_over(tiny, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / ".training-state.safetensors.x1.part").write_bytes(b"half")
    (tmp_path / "checkpoints" / ".step-00000003.safetensors.y2.part").write_bytes(b"half")
    (tmp_path / "checkpoints" / "step-00000002.safetensors").write_bytes(b"forgotten")
    run(tiny, folder=tmp_path)
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    snapshots = {f"checkpoints/step-{step:08d}.safetensors" for step in (6, 9)}
    assert files == snapshots | {STATE, "checkpoints/.lock"}


def test_two_runs_at_once_in_one_folder_are_refused_and_the_first_goes_on(tiny, tmp_path):
    refused = []

    def second(history):
        with pytest.raises(ValueError, match="is in use: another run writes to it"):
            run(tiny, folder=tmp_path)
        refused.append(len(history))

    first, _ = run(tiny, folder=tmp_path, on_record=second)
    expected, _ = run(tiny)
    assert refused and all(torch.equal(first[name], expected[name]) for name in expected)
    run(tiny, folder=tmp_path)  # once it has ended, the folder is free


def test_the_result_is_the_mean_of_the_last_snapshots(tiny, tmp_path):
    result, _ = run(tiny, folder=tmp_path)
    saved = [read_tensors(p)[0] for p in sorted((tmp_path / "checkpoints").glob("step-*"))]
    assert len(saved) == CONFIG.average
    for name, tensor in result.items():
        assert not torch.equal(saved[0][name], saved[1][name])
        assert_close(tensor, (saved[0][name] + saved[1][name]) / 2)


def test_averaging_takes_the_mean_of_each_tensor_and_keeps_its_kind():
    one = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([1.0]).bfloat16()}
    other = {"a": torch.tensor([3.0, 6.0]), "b": torch.tensor([2.0]).bfloat16()}
    mean = average_checkpoints([one, other])
    assert mean["a"].tolist() == [2.0, 4.0] and one["a"].tolist() == [1.0, 2.0]
    assert mean["b"].tolist() == [1.5] and mean["b"].dtype == torch.bfloat16


CHANGED = {
    "another seed": (replace(CONFIG, seed=8), PAIRS, {}, "seed is 7 there, got 8"),
    "another rate": (replace(CONFIG, rate_factor=0.4), PAIRS, {}, "other training settings"),
    "another schedule": (
        replace(CONFIG, schedule="linear"),
        *(PAIRS, {}, "other training settings"),
    ),
    "another model": (CONFIG, PAIRS, {"d_ff": 14}, "other model settings"),
    "another dropout": (CONFIG, PAIRS, {"dropout": 0.2}, "other model settings"),
    "dropout elsewhere": (CONFIG, PAIRS, {"activation_dropout": False}, "got False"),
    "other data": (CONFIG, PAIRS[::-1], {}, "other data settings"),
    "fewer steps": (replace(CONFIG, steps=3), PAIRS, {}, "holds 6 steps already, got steps=3"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_folder_with_another_run_is_refused_and_left_alone(tiny, tmp_path, change):
    run(tiny, replace(CONFIG, steps=6), folder=tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    config, pairs, sizes, message = CHANGED[change]
    with pytest.raises(ValueError, match=message):
        fit(fresh(tiny, **sizes), pairs, config, folder=tmp_path, progress=False)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_a_run_that_started_with_other_weights_is_another_run(tiny, tmp_path):
    teacher, other = (parameters_of(fresh(tiny, seed=seed)) for seed in (1, 2))
    config = replace(CONFIG, steps=3)
    first = run(tiny, config, start=teacher, folder=tmp_path / "taught")
    assert_same(run(tiny, config, start=teacher, folder=tmp_path / "taught"), first)
    run(tiny, config, folder=tmp_path / "random")
    for folder, start in (("random", teacher), ("taught", other), ("taught", None)):
        with pytest.raises(ValueError, match="holds a run with other start settings"):
            run(tiny, config, start=start, folder=tmp_path / folder)


def test_a_rate_that_falls_to_zero_belongs_to_a_number_of_steps(tiny, tmp_path):
    config = replace(CONFIG, schedule="linear", checkpoint_every=1)
    history = run(tiny, config, folder=tmp_path)[1]
    rates = [record["rate"] for record in history]
    peak = 0.5 * noam_rate(4, 8, 4)
    assert rates[3] == max(rates) == pytest.approx(peak)
    assert rates[3:] == pytest.approx([peak * left / 6 for left in (6, 5, 4, 3, 2, 1)])
    with pytest.raises(ValueError, match="other training settings"):
        run(tiny, replace(config, steps=12), folder=tmp_path)


# ---------------------------------------------------------------------------- when training breaks


def test_a_folder_that_cannot_be_made_is_noticed_before_the_first_step(tiny, tmp_path):
    (tmp_path / "file").write_text("text")
    config, folder = replace(CONFIG, checkpoint_every=40, steps=40), tmp_path / "file" / "run"
    records = []
    with pytest.raises(OSError):
        fit(fresh(tiny), PAIRS, config, folder=folder, on_record=records.append, progress=False)
    assert not records


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run_and_the_last_checkpoint_survives(
    tiny, tmp_path, uninterrupted, monkeypatch, value
):
    monkeypatch.setattr(loop, "RECORD_EVERY", 2)
    model = fresh(tiny)

    def break_the_model(history):
        if history[-1]["step"] == 4:
            with torch.no_grad():
                model.generator.weight[5] = value

    with pytest.raises(ValueError, match="the loss became nan at or before step 6"):
        fit(
            model,
            PAIRS,
            CONFIG,
            valid_pairs=PAIRS[:4],
            folder=tmp_path,
            on_record=break_the_model,
            progress=False,
        )
    assert_same(run(tiny, folder=tmp_path), uninterrupted)


def test_a_checkpoint_with_broken_weights_is_never_written(tiny, tmp_path, monkeypatch):
    def broken_step(objective, batch, optimizer, **options):
        loss = train_step(objective, batch, optimizer, **options)  # finite: it was before the step
        if model_step() == 6:
            with torch.no_grad():
                objective.states.model.generator.weight[5] = float("inf")
        return loss

    def model_step() -> int:
        counted.append(1)
        return len(counted)

    counted = []
    monkeypatch.setattr(loop, "train_step", broken_step)
    with pytest.raises(ValueError, match=r"step 6: .* must be finite, got NaN or ∞"):
        run(tiny, folder=tmp_path)
    monkeypatch.undo()
    assert_same(run(tiny, folder=tmp_path), run(tiny))


def test_a_rate_far_too_high_is_noticed(tiny):
    config = replace(CONFIG, rate_factor=1e6, steps=200, checkpoint_every=200)
    pairs = [([4, EOS], [8] * 9 + [EOS])]
    try:
        history = fit(fresh(tiny), pairs, config, progress=False)
    except ValueError as error:
        assert "lower rate_factor" in str(error)
    else:
        assert all(np.isfinite(record["loss"]) for record in history)


# ---------------------------------------------------------------------------------------- the steps


def test_training_learns(tiny):
    pairs, sizes = copying_pairs(6), fresh(tiny, dropout=0.0, d_model=16).config
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Transformer(sizes)
    before = validate(model, pairs)
    config = TrainConfig(
        steps=160, max_tokens=60, warmup=100, checkpoint_every=160, average=1, label_smoothing=0.0
    )
    seen = []
    history = fit(
        model,
        pairs,
        config,
        valid_pairs=pairs,
        on_record=lambda records: seen.append(len(records)),
        progress=False,
    )
    after = validate(model, pairs)
    assert after["loss"] < 0.3 < 2.0 < before["loss"] and after["accuracy"] > 0.9
    assert [record["step"] for record in history] == [*range(20, 161, 20)]
    assert seen == [*range(1, 9)]
    assert history[-1]["valid_loss"] == pytest.approx(after["loss"], rel=1e-5)
    assert "valid_loss" not in history[0]
    for record in history:
        assert record["rate"] == pytest.approx(noam_rate(record["step"], 16, config.warmup))
    tokens = sum(len(target) for _, target in pairs)
    assert history[-1]["tokens"] >= 20 * tokens // 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_step_follows_the_gradient_of_the_mean_loss(tiny, smoothing):
    batch = Batch.from_pairs(PAIRS[:5])
    ours, theirs = fresh(tiny, dropout=0.0), fresh(tiny, dropout=0.0)
    config = replace(CONFIG, label_smoothing=smoothing)
    objective = Objective(ours, config)
    loss = train_step(objective, batch, torch.optim.SGD(ours.parameters(), lr=0.1))
    logits = theirs(batch.source, batch.target_in)
    expected = sequence_loss(logits, batch.target_out, smoothing)
    expected.backward()
    torch.optim.SGD(theirs.parameters(), lr=0.1).step()
    assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    for name, parameter in parameters_of(ours).items():
        assert_close(parameter, parameters_of(theirs)[name], rtol=1e-4, atol=1e-6)


def test_a_long_gradient_is_clipped(tiny):
    model = fresh(tiny, dropout=0.0)
    before = {name: p.detach().clone() for name, p in parameters_of(model).items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train_step(Objective(model, CONFIG), Batch.from_pairs(PAIRS[:5]), optimizer, clip_norm=0.01)
    moved = [(p - before[name]).norm() for name, p in parameters_of(model).items()]
    assert_close(torch.stack(moved).norm(), torch.tensor(0.01), rtol=1e-3, atol=0)


def test_evaluation_does_not_depend_on_the_batches_or_the_mode(tiny):
    model = fresh(tiny).train()
    scores = validate(model, PAIRS, max_tokens=8)
    assert model.training
    model.eval()
    again = validate(model, PAIRS)
    assert not model.training
    losses, hits, count = 0.0, 0, 0
    for source, target in PAIRS:
        batch = Batch.from_pairs([(source, target)])
        logits = model(batch.source, batch.target_in)
        losses += sequence_loss(logits, batch.target_out).item() * len(target)
        hits += (logits.argmax(-1) == batch.target_out).sum().item()
        count += len(target)
    for result in (scores, again):
        assert result["loss"] == pytest.approx(losses / count, rel=1e-5)
        assert result["perplexity"] == pytest.approx(np.exp(losses / count), rel=1e-5)
        assert result["accuracy"] == pytest.approx(hits / count)


def test_batches_go_on_where_they_were_and_each_epoch_holds_every_sentence_once():
    def first(count, skip=0):
        batches = loop._endless_batches(PAIRS, CONFIG, skip)
        return [next(batches).source.tolist() for _ in range(count)]

    everything = first(24)
    for skip in range(20):
        assert first(4, skip) == everything[skip : skip + 4]
    sizes = [len(batch) for batch in everything]
    per_epoch = next(n for n in range(1, 24) if sum(sizes[:n]) == len(PAIRS))
    for start in (0, per_epoch):
        sentences = [
            tuple(i for i in row if i != PAD)
            for batch in everything[start : start + per_epoch]
            for row in batch
        ]
        assert sorted(sentences) == sorted(tuple(source) for source, _ in PAIRS)
    assert everything[:per_epoch] != everything[per_epoch : 2 * per_epoch]


# ----------------------------------------------------------------------------- the preset for a GPU


def toy(preset: Preset, **settings) -> tuple[ModelConfig, TrainConfig]:
    model = replace(
        preset.model,
        source_vocab_size=11,
        target_vocab_size=11,
        d_model=16,
        d_ff=24,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
    )
    small = {"steps": 6, "max_tokens": 40, "warmup": 40, "checkpoint_every": 3}
    return model, replace(preset.training, **(small | settings))


def losses(sizes: ModelConfig, config: TrainConfig, pairs=PAIRS) -> list[float]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Transformer(sizes)
    history = fit(model, pairs, config, valid_pairs=pairs, progress=False)
    return [record[name] for record in history for name in ("loss", "valid_loss")]


def test_bfloat16_training_is_close_to_float32():
    sizes, config = toy(PRESETS["multi30k-tok"], precision="bfloat16")
    low, high = losses(sizes, config), losses(sizes, replace(config, precision="float32"))
    assert low != high
    assert low == pytest.approx(high, rel=0.01)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_largest_product_is_in_the_precision_asked_for(tiny, precision):
    objective = Objective(fresh(tiny), replace(CONFIG, precision=precision))
    ids = torch.tensor([[4, 5, EOS]])
    assert objective.states(ids, ids).dtype == getattr(torch, precision)


@pytest.mark.parametrize(("precision", "fused"), [("float32", True), ("bfloat16", False)])
def test_bfloat16_on_a_cpu_leaves_the_fused_attention(tiny, precision, fused):
    """PyTorch's takes ten times as long backward, in bfloat16, as in float32."""
    objective = Objective(fresh(tiny), replace(CONFIG, precision=precision)).train()
    ids = torch.tensor([[4, 5, EOS], [4, EOS, PAD]])
    with Calls("_scaled_dot_product_flash_attention_for_cpu") as calls:
        objective(ids, ids).backward()
    assert bool(calls.count) == fused


def test_one_compilation_serves_batches_of_every_shape(tiny, monkeypatch, without_shape_checks):
    """A size that is written into a message, for one, would make torch.compile read it again."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    real_compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **o: real_compile(f, backend=count, **o))
    model = fresh(tiny, dropout=0.0)
    config = replace(CONFIG, compile=True)
    compiled = Objective(model, config)
    eager = Objective(model, CONFIG)
    for B, Ls, Lt in ((3, 5, 7), (4, 6, 9), (2, 9, 5), (7, 3, 12)):  # torch treats equals as one
        source = torch.randint(4, 11, (B, Ls), generator=torch.Generator().manual_seed(B))
        target = torch.randint(4, 11, (B, Lt), generator=torch.Generator().manual_seed(B))
        assert_close(compiled(source, target), eager(source, target), rtol=1e-5, atol=1e-5)
    assert len(graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_is_meant_for_a_gpu_trains_on_a_cpu_at_toy_size(
    monkeypatch, without_shape_checks, backend
):
    """Captured by torch.compile; and, if asked for, compiled to C++ too, which takes a minute."""
    if backend == "inductor" and not os.environ.get("TEST_INDUCTOR"):
        pytest.skip("compiling takes a minute: set TEST_INDUCTOR=1 for it")
    real_compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **o: real_compile(f, backend=backend, **o))
    sizes, config = toy(PRESETS["multi30k-tok"], precision="bfloat16", compile=True)
    pairs = [pair for pair in copying_pairs(60) if len(pair[0]) == 4]  # one shape, one compilation
    eager = losses(sizes, replace(config, compile=False, precision="float32"), pairs)
    assert losses(sizes, config, pairs) == pytest.approx(eager, rel=0.01)


def tiny_train(folder: Path) -> None:
    """Train a few dates through `train`, in a moment."""
    pairs = [(f"{d}/{m}/1990", f"1990-{m:02}-{d:02}") for d in range(1, 8) for m in (1, 10)]
    sizes, config = toy(PRESETS["dates"])
    preset = Preset(data="dates", model=replace(sizes, max_length=32), training=config)
    with pytest.MonkeyPatch.context() as patch:
        splits = {"train": pairs[:10], "val": pairs[10:12], "test": pairs[12:]}
        patch.setattr(runs, "load_task", lambda *_: splits)
        train(preset, folder, progress=False, device="cpu")


# --------------------------------------------------------------------------------------- randomness


def test_the_callers_random_numbers_stay_as_they_were(tiny, tmp_path, without_shape_checks):
    model = fresh(tiny)
    torch.manual_seed(5)
    states = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    fit(model, PAIRS, CONFIG, folder=tmp_path / "fit", progress=False)
    tiny_train(tmp_path / "run")
    load(tmp_path / "run")
    load_run(tmp_path / "run").translate("1/2/1990")
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]


# ------------------------------------------------------------------------- faults found by reading


class Calls(TorchDispatchMode):
    """Counts how often an operation is called, such as the reading of a number from a tensor: on a
    GPU, each waits for the device.
    """

    def __init__(self, operation: str = "_local_scalar_dense"):
        super().__init__()
        self.operation, self.count = getattr(torch.ops.aten, operation).default, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is self.operation
        return function(*args, **(kwargs or {}))


def test_a_good_loss_looks_at_the_numbers_once_and_builds_no_message():
    logits, targets = torch.zeros(2, 3, 9), torch.tensor([[4, 5, 2], [6, 2, 0]])
    with Calls() as looks:
        sequence_loss(logits, targets)
    assert looks.count == 1


def test_evaluate_leaves_the_mode_as_it_was_even_if_it_fails(tiny):
    model = fresh(tiny).train()
    with pytest.raises(ValueError, match="from 0 to"):
        validate(model, [([4, EOS], [99, EOS])])
    assert model.training


def test_the_state_is_read_without_a_side_effect(tiny, tmp_path):
    run(tiny, folder=tmp_path)
    model = fresh(tiny)
    before = {name: p.detach().clone() for name, p in parameters_of(model).items()}
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    history, snapshots, _ = load_state(tmp_path, identity_of(model, CONFIG, PAIRS))
    assert history[-1]["step"] == CONFIG.steps and list(snapshots) == [6, 9]
    assert all(torch.equal(before[name], p) for name, p in parameters_of(model).items())
    assert files == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
