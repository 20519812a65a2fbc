"""The GPU's benchmarks run at toy size on a CPU, and what they compare is the same work."""

import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import ship
from benchmarks.flops import forward_flops, training_flops
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import engine, lab, numerics
from benchmarks.gpu.engine import BatchedMuon, Corpus, Trainer, Way
from benchmarks.gpu.ensemble import ensemble
from benchmarks.gpu.inference import without_cache
from benchmarks.gpu.power import watts
from benchmarks.recipes import RDrop, TwoAnswers
from transformer_lab import (
    Batch,
    ModelConfig,
    Objective,
    Run,
    TrainConfig,
    Transformer,
    beam_search,
    greedy_decode,
    load_run,
    train_step,
)
from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.runs import find_preset
from transformer_lab.saving import parameters_of
from transformer_lab.support.files import read_json
from transformer_lab.training.fused_loss import losses_and_gradient
from transformer_lab.training.optimizer import make_optimizer
from transformer_lab.training.schedule import learning_rate

PAIRS = [([4 + i % 5] * (1 + i % 7) + [EOS], [4 + i % 6] * (1 + i % 5) + [EOS]) for i in range(23)]
CONFIG = TrainConfig(max_tokens=32, warmup=4, rate_factor=0.5, clip_norm=1.0)
PLAIN = Way(bfloat16=False, graphs=False)


@pytest.fixture(autouse=True)
def fresh_compiler(without_shape_checks):
    torch.compiler.reset()


def model(tiny, **sizes) -> Transformer:
    return tiny(target_vocab_size=11, tie_embeddings=True, **sizes)


# ------------------------------------------------------------------------------------- the command


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert "no CUDA GPU" in line and "--smoke" in line


def test_every_part_runs_at_toy_size_and_writes_its_file(tmp_path, capsys):
    assert gpu.main(["--smoke", "--search", "--output", str(tmp_path), "--commit", "abc"]) == 0
    out = capsys.readouterr().out
    for name in (*gpu.SEARCH, *gpu.PARTS):
        result = json.loads((tmp_path / f"gpu_{name}.json").read_text())
        assert result["smoke"] and result["commit"] == "abc" and result["left_out"] == []
        assert {"hardware", "versions", "seed", "date", "summary", "seconds"} <= set(result)
        assert any(table["rows"] for table in result["tables"]) and f"## {name}" in out
        for table in result["tables"]:
            assert all(len(row) == len(table["columns"]) for row in table["rows"])
    assert out.rindex("wrote ") < out.index("## search"), "the tables come last"
    quality = json.loads((tmp_path / "gpu_quality.json").read_text())
    assert [row["variant"] for row in quality["rows"] + quality["ensemble"]] == [
        *("tok", "tok", "tok", "raw", "tok, ensemble")
    ]
    numerics = json.loads((tmp_path / "gpu_numerics.json").read_text())
    assert all(row["within"] == "yes" for row in numerics["ways"]) and len(numerics["ways"]) == 10
    inference = json.loads((tmp_path / "gpu_inference.json").read_text())
    assert all(row["equal"] == row["sentences"] for row in inference["rows"])


def test_only_some_parts_and_what_fails_is_said(tmp_path, monkeypatch, capsys):
    def broken(lab):
        raise RuntimeError("CUDA error: no kernel image")

    def attempted(lab):
        lab.attempt("one thing", broken, lab)
        assert not lab.has(1e9, "another thing")
        return {"summary": [], "tables": []}

    monkeypatch.setattr(gpu, "SEARCH", {"search": (attempted, 1)})
    monkeypatch.setitem(gpu.PARTS, "speed", (broken, 1))
    monkeypatch.setitem(gpu.PARTS, "numerics", (attempted, 1))
    parts = ["--only", "speed", "--only", "numerics", "--search"]
    assert gpu.main(["--smoke", *parts, "--output", str(tmp_path)]) == 1
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"gpu_search.json", "gpu_numerics.json"}
    captured = capsys.readouterr()
    assert "speed: RuntimeError: CUDA error: no kernel image" in captured.err
    assert "Left out: one thing: RuntimeError: CUDA error" in captured.out
    assert "Left out: another thing: no time" in captured.out


def test_only_the_recipes_that_are_asked_for_are_tried(tmp_path):
    options = ["--smoke", "--only", "search", "--recipe", "R-Drop", "--output", str(tmp_path)]
    assert gpu.main(options) == 0
    found = json.loads((tmp_path / lab.SEARCH).read_text())
    assert [row["recipe"] for row in found["rows"]] == ["R-Drop"] == [found["chosen"]]
    assert found["rows"][0]["objective"] == "RDrop" and found["left_out"] == []


def test_the_search_decides_which_recipe_is_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "RESULTS", tmp_path / "results")
    here = lab.Lab(torch.device("cpu"), tmp_path)
    assert here.chosen() == lab.USUAL
    (tmp_path / "results").mkdir()
    for folder, chosen in ((tmp_path / "results", "d_model 256"), (tmp_path, "R-Drop")):
        (folder / lab.SEARCH).write_text(json.dumps({"chosen": chosen}))
        assert here.chosen() == chosen
    preset, objective = here.recipe(here.chosen())
    assert preset.training.max_tokens == 4096 and objective is RDrop
    for name in lab.RECIPES:
        here.recipe(name)  # every one of them is a setting that there is


def test_what_is_trained_is_kept_and_trained_again_only_for_another_recipe(tmp_path, monkeypatch):
    def train(*arguments):
        trained.append(arguments)
        return engine.train(*arguments)

    monkeypatch.setattr(lab, "train", train)
    trained, weights = [], []
    for _ in range(2):
        here = lab.Lab(torch.device("cpu"), smoke=True, folder=tmp_path)
        for _ in range(2):
            run, history = here.trained("tok", 0)
            weights.append(parameters_of(run.model))
        assert len(trained) == 1 and history[-1]["step"] == lab.TOY["steps"]
    assert all(torch.equal(weights[0][name], weights[-1][name]) for name in weights[0])
    monkeypatch.setitem(lab.TOY, "dropout", 0.2)
    lab.Lab(torch.device("cpu"), smoke=True, folder=tmp_path).trained("tok", 0)
    assert len(trained) == 2


def test_the_small_models_run_is_kept_with_the_way_it_was_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda self, **options: {})
    assert gpu.main(["--smoke", "--only", "small", "--runs", str(tmp_path)]) == 0
    run, metrics = load_run(tmp_path / "small"), read_json(tmp_path / "small" / "metrics.json")
    assert run.data == "multi30k-raw" and metrics["objective"] == "RDrop"
    assert metrics["training"]["precision"] == "bfloat16" and metrics["training"]["compile"]
    assert metrics["steps"] == lab.TOY["steps"]
    sizes = lab.RECIPES[lab.SMALL][0]
    largest = find_preset("multi30k-raw", {name: sizes[name] for name in lab.NARROWER}).model
    with torch.device("meta"):
        assert 2 * sum(p.numel() for p in Transformer(largest).parameters()) <= ship.LIMIT


# ----------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("bucketed", [True, False])
def test_an_epoch_holds_every_sentence_once_in_the_same_shapes(bucketed):
    corpus = Corpus(PAIRS, 32, bucketed=bucketed)
    epochs = [corpus.epoch(torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    shapes = []
    for batches in epochs:
        seen = []
        for width, rows, tokens in batches:
            source, target = corpus.take(width, rows)
            assert source.shape == (len(rows), width) and target.shape == (len(rows), width + 1)
            assert (target[:, 0] == BOS).all()
            assert tokens == (source != PAD).sum() + (target[:, 1:] != PAD).sum() - sum(
                rows == len(PAIRS)
            )  # an empty sentence has an EOS, which no model must predict
            for row, s, t in zip(rows.tolist(), source.tolist(), target.tolist(), strict=True):
                expected = ([EOS], []) if row == len(PAIRS) else PAIRS[row]
                assert [i for i in s if i != PAD] == expected[0]
                assert [i for i in t if i != PAD] == [BOS, *expected[1]]
                seen += [row] if row < len(PAIRS) else []
        assert sorted(seen) == list(range(len(PAIRS)))
        shapes.append(sorted((len(rows), width) for width, rows, _ in batches))
    assert epochs[0][0][1].tolist() != epochs[1][0][1].tolist()
    assert not bucketed or shapes[0] == shapes[1]
    assert not bucketed or all(rows * width <= 32 for rows, width in shapes[0])


# ------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize(
    "settings",
    [
        {"label_smoothing": 0.0},
        {"label_smoothing": 0.1, "weight_decay": 0.1},
        {"optimizer": "muon", "schedule": "linear", "steps": 8, "rate_factor": 0.05},
    ],
    ids=["as it is", "smoothing, decay", "Muon, straight down"],
)
@pytest.mark.parametrize("fused", [True, False])
def test_a_step_is_the_packages_step(tiny, settings, fused):
    config = replace(CONFIG, adam_epsilon=1e-4, **settings)
    trainer = Trainer(model(tiny), PAIRS, config, replace(PLAIN, fused_adam=fused))
    batches = Corpus(PAIRS, config.max_tokens).endless(config.seed)
    theirs = model(tiny).train()
    objective = Objective(theirs, config)
    optimizer = make_optimizer(theirs, config)
    trainer.prepare()
    losses = []
    for step in range(1, 6):
        trainer.take_step()
        width, rows, _ = next(batches)
        optimizer.param_groups[0]["lr"] = learning_rate(step, 8, config)
        batch = Batch(*trainer.corpus.take(width, rows))
        losses.append(train_step(objective, batch, optimizer, clip_norm=1.0))
    close = 5e-4 if config.optimizer == "muon" else 1e-5  # its products are in bfloat16
    for name, parameter in parameters_of(trainer.model).items():
        assert_close(parameter, parameters_of(theirs)[name], rtol=1e-4, atol=close)
    assert trainer.mean_loss() == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)


@pytest.mark.parametrize("rate", [0.05, torch.tensor(0.05)], ids=["number", "tensor"])
def test_many_matrices_at_once_take_the_steps_of_pytorchs_muon(rate):
    shapes = [(8, 16), (16, 8), (8, 16), (8, 8)]
    ours, theirs = ([torch.nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    batched = BatchedMuon(ours, {"lr": rate, "weight_decay": 0.1})
    single = torch.optim.Muon(theirs, 0.05, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    torch.manual_seed(0)
    for _ in range(4):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = other.grad = torch.randn(one.shape)
        batched.step(), single.step()
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("way", [PLAIN, Way(compiled=True, compile_with="eager")], ids=str)
def test_setting_up_leaves_the_model_as_it_was(tiny, way, optimizer):
    trainer = Trainer(model(tiny), PAIRS, replace(CONFIG, optimizer=optimizer), way)
    trainer.prepare()
    before = parameters_of(model(tiny))
    assert all(torch.equal(p, before[name]) for name, p in parameters_of(trainer.model).items())
    states = [state for each in trainer.optimizers for state in each.state.values()]
    assert states and all((tensor == 0).all() for state in states for tensor in state.values())
    assert trainer.step == 0 and trainer.mean_loss() == 0


def test_what_was_recorded_is_played_for_every_shape(tiny, monkeypatch):
    """A stand-in for CUDA's graphs, which read their inputs where they lay when recorded."""
    played = []

    class Graph:
        def __init__(self, work):
            self.work = work

        def pool(self):
            return "pool"

        def replay(self):
            played.append(self)
            self.work()

    def record(work, pool):
        assert pool == ("pool" if recorded else None)
        recorded.append(Graph(work))
        work()
        return recorded[-1]

    recorded = []
    monkeypatch.setattr(engine, "record", record)
    ours, plain = (Trainer(model(tiny), PAIRS, CONFIG, PLAIN) for _ in range(2))
    ours.records = True
    ours.prepare(), plain.prepare()
    for _ in range(12):
        ours.take_step(), plain.take_step()
    assert len(played) == 12 and set(played) == set(recorded) and len(recorded) > 1
    for name, parameter in parameters_of(ours.model).items():
        assert torch.equal(parameter, parameters_of(plain.model)[name])


def test_where_graphs_cannot_be_recorded_training_does_without_and_says_so(tiny, monkeypatch):
    def record(work, pool):
        work()
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(engine, "record", record)
    ours, plain = (Trainer(model(tiny), PAIRS, CONFIG, PLAIN) for _ in range(2))
    ours.records = True
    here = lab.Lab(torch.device("cpu"), smoke=True)
    assert here.prepare(ours) > 0 and here.prepare(plain) > 0
    (line,) = here.left_out
    assert "recording CUDA graphs: RuntimeError: operation not permitted" in line
    for trainer in (ours, plain):
        engine.train(trainer, 5, every=5)
    for name, parameter in parameters_of(ours.model).items():
        assert torch.equal(parameter, parameters_of(plain.model)[name])


def test_every_rung_of_the_ladder_trains_alike(tiny):
    """In float32 and without dropout, none of them changes the result."""
    expected = None
    for switch in (None, "sdpa", "fused_adam", "resident", "compiled"):
        way = replace(PLAIN, compile_with="eager")
        way = replace(way, **{switch: switch == "compiled"}) if switch else way
        trainer = Trainer(model(tiny), PAIRS, replace(CONFIG, adam_epsilon=1e-4), way)
        trainer.prepare()
        history, snapshots = engine.train(trainer, 8, every=3)
        assert [record["step"] for record in history] == [3, 6, 8] and len(snapshots) == 3
        expected = expected or snapshots[-1]
        for name, tensor in snapshots[-1].items():
            assert_close(tensor, expected[name], rtol=1e-3, atol=1e-4, msg=switch)


def test_r_drop_of_padded_rows_is_that_of_the_real_ones(tiny, monkeypatch):
    """On a GPU padding goes through the loss, too, and must count nothing."""
    objective = RDrop(model(tiny), CONFIG)
    source, target = Corpus(PAIRS, 32).take(8, torch.arange(6))
    real = objective(source, target)
    real.backward()
    gradients = [p.grad.clone() for p in objective.parameters()]
    objective.zero_grad()
    states = objective.states(source.repeat(2, 1), target[:, :-1].repeat(2, 1)).flatten(0, 1)
    matrix, targets = objective.states.model.generator.weight, target[:, 1:].flatten()
    padded = TwoAnswers.apply(states, matrix, targets, objective.label_smoothing, RDrop.weight)
    padded.backward()
    assert (targets == PAD).any()
    assert_close(padded, real)
    for parameter, gradient in zip(objective.parameters(), gradients, strict=True):
        assert_close(parameter.grad, gradient)


def test_where_no_gpu_is_no_power_is_told():
    with watts(torch.device("cpu")) as found:
        pass
    assert found == {}


def test_training_in_bfloat16_is_close_to_float32(tiny):
    losses = {}
    for bfloat16 in (True, False):
        trainer = Trainer(model(tiny), PAIRS, CONFIG, replace(PLAIN, bfloat16=bfloat16))
        trainer.prepare()
        losses[bfloat16] = [record["loss"] for record in engine.train(trainer, 12, every=3)[0]]
    assert losses[True] != losses[False]
    assert losses[True] == pytest.approx(losses[False], rel=0.02)


def test_one_compiled_layer_of_a_kind_serves_all_layers_and_shapes(tiny):
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    sizes = {"d_model": 14, "d_ff": 20}  # equal to no length: torch treats equals as one
    deep = model(tiny, num_encoder_layers=4, num_decoder_layers=3, **sizes)
    trainer = Trainer(deep, PAIRS, CONFIG, Way(compiled=True, compile_with=count))
    trainer.prepare()
    engine.train(trainer, 8, every=8)
    assert len(graphs) == 2, "encoder layer, decoder layer"


def test_one_compiled_loss_serves_chunks_of_every_size():
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(losses_and_gradient, backend=count, dynamic=True)
    for N in (7, 12, 20):
        logits, targets = torch.randn(N, 9), torch.randint(1, 9, (N,))
        for one, other in zip(
            compiled(logits.clone(), targets, 0.1),
            losses_and_gradient(logits.clone(), targets, 0.1),
            strict=True,
        ):
            assert_close(one, other)
    assert len(graphs) == 1


def test_a_gradient_that_is_wrong_is_noticed(monkeypatch):
    """Compiled against eager is a comparison that can fail."""
    here = lab.Lab(torch.device("cpu"), smoke=True)
    preset, _ = here.recipe()
    compile_as_before = Trainer._compile

    def compile_wrongly(self):
        compile_as_before(self)
        self.objective.label_smoothing += 0.1

    monkeypatch.setattr(Trainer, "_compile", compile_wrongly)
    rows = numerics.compare_ways(here, here.task("tok"), preset)
    assert {row["way"] for row in rows if row["within"] == "no"} == {  # and not the plain one
        "torch.compile",
        "torch.compile, CUDA graphs",
    }


# -------------------------------------------------------------------------------------- arithmetic


def test_the_operations_are_those_that_pytorch_counts():
    c = ModelConfig(
        source_vocab_size=30,
        target_vocab_size=50,
        d_model=16,
        num_heads=2,
        d_ff=24,
        num_encoder_layers=3,
        num_decoder_layers=2,
        dropout=0.0,
    )
    transformer, ids = Transformer(c), torch.full((4, 9), 5)
    for module in transformer.modules():
        if isinstance(module, engine.MultiHeadAttention):
            module.__class__ = engine.PlainAttention  # a fused kernel has no products to count
    with FlopCounterMode(display=False) as counter:
        transformer(ids, ids[:, :7]).sum().backward()
    ours = forward_flops(c, [9] * 4, [7] * 4)
    assert sum(ours.values()) * 3 == training_flops(c, [9] * 4, [7] * 4)
    assert counter.get_total_flops() == training_flops(c, [9] * 4, [7] * 4)


# ---------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("seed", range(4))
def test_without_a_cache_the_same_is_written(tiny, seed):
    run = Run(None, tiny(seed=seed), None, "multi30k-tok", 4)
    slow = without_cache(run)
    source = torch.randint(4, 11, (12, 6), generator=torch.Generator().manual_seed(seed))
    source[:, -1], source[::2, 3:] = EOS, PAD
    for decode in (greedy_decode, lambda m, s: beam_search(m, s, beam=4)):
        assert torch.equal(decode(slow.model, source), decode(run.model, source))
    assert type(run.model) is Transformer and slow.model is not run.model


def test_an_ensemble_writes_by_the_mean_of_the_probabilities(tiny):
    runs = [Run(None, tiny(seed=seed), None, "multi30k-tok", 4) for seed in range(3)]
    source = torch.randint(4, 11, (12, 6), generator=torch.Generator().manual_seed(0))
    source[:, -1], source[::2, 3:] = EOS, PAD
    for decode in (greedy_decode, lambda m, s: beam_search(m, s, beam=4)):
        alone, together = (decode(ensemble(runs[:n]).model, source) for n in (1, 3))
        assert torch.equal(alone, decode(runs[0].model, source))
    target = torch.full((12, 1), BOS)
    probabilities = [run.model(source, target).softmax(dim=-1) for run in runs]
    model = ensemble(runs).model
    logits = model.decode(target, *model.encode(source), cache=model.new_cache())
    assert_close(logits.softmax(dim=-1), torch.stack(probabilities).mean(dim=0))
    assert not torch.equal(alone, together) and type(runs[0].model) is Transformer
