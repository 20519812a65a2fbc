"""The command line, as people and other programs use it."""

import errno
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import fields

import matplotlib.pyplot as plt
import pytest
import torch

from transformer_lab import PRESETS, ModelConfig, TrainConfig, cli, load_run, runs, train
from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.presets import ABOUT
from transformer_lab.support.files import locked, read_json, read_tensors
from transformer_lab.training import CHECKPOINTS, STATE

TINY = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
AS_OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
DATE = "friday 15 february 2019"


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Train a model that has learnt next to nothing, and whose test set is small."""
    folder = tmp_path_factory.mktemp("run") / "dates"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "NUM_TRAINING_DATES", 500)
        patch.setattr(runs, "NUM_TEST_DATES", 30)
        return train("dates", folder, steps=40, max_tokens=300, progress=False, **TINY)


@pytest.fixture(autouse=True)
def few_dates(monkeypatch):
    monkeypatch.setattr(runs, "NUM_TRAINING_DATES", 500)
    monkeypatch.setattr(runs, "NUM_TEST_DATES", 30)


@pytest.fixture
def with_few_dates(tmp_path):
    """Return a script that is the command line with few dates, for processes of their own."""
    script = tmp_path / "few.py"
    script.write_text(
        "import sys\n"
        "from transformer_lab import cli, runs\n"
        "runs.NUM_TRAINING_DATES, runs.NUM_TEST_DATES = 500, 30\n"
        "sys.exit(cli.main())\n"
    )
    return script


def start(*command, **options):
    """Start Python in a process of its own, which hears Ctrl-C whoever started the tests."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # A process that a shell starts in the background ignores SIGINT, and so do its children.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen([sys.executable, *map(str, command)], env=environment, **options)
    finally:
        signal.signal(signal.SIGINT, before)


# ---- Help


@pytest.mark.parametrize("command", [[], ["train"], ["translate"], ["evaluate"]])
def test_help_says_what_the_command_does_and_gives_an_example(command, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main([*command, "--help"])
    text = capsys.readouterr().out
    assert exit.value.code == 0
    assert f"transformer-lab {' '.join(command)}".strip() in text.split("\n\n")[0]
    assert any(line.startswith("  transformer-lab ") for line in text.splitlines())


def test_without_a_command_comes_the_help(capsys):
    assert cli.main([]) == 2
    assert "transformer-lab train dates" in capsys.readouterr().out


def test_every_setting_of_model_and_training_has_an_option(monkeypatch, tmp_path):
    values = {int: "3", float: "0.5", str: "float32"}
    arguments, expected = [], {}
    for field in (*fields(ModelConfig), *fields(TrainConfig)):
        if field.name.endswith("vocab_size"):
            continue
        flag, kind = f"--{field.name.replace('_', '-')}", type(field.default)
        arguments += [flag] if kind is bool else [flag, values[kind]]
        expected[field.name] = True if kind is bool else kind(values[kind])
    seen = settings_of(monkeypatch, "multi30k", *arguments, "--vocab-size", "99")
    assert seen == expected | {"source_vocab_size": 99, "target_vocab_size": 99}
    assert settings_of(monkeypatch, "dates", "--post-norm", "--no-compile") == {
        "pre_norm": False,
        "compile": False,
    }


def settings_of(monkeypatch, preset, *arguments):
    """Return the settings that reach `train`; it goes no further."""
    seen = {}

    def record(preset, output, *, device, progress, on_note, **settings):
        seen.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "train", record)
    monkeypatch.setattr(cli, "require_trainable", lambda *_: None)
    assert cli.main(["train", preset, "--output", "no folder", *arguments]) == 130
    return seen


# ---- Training


def test_train_makes_a_run_folder_and_says_how_good_it_is(tmp_path, capsys):
    folder = tmp_path / "new" / "run"
    settings = ["--steps=20", "--max-tokens=300", "--seed=5", "--post-norm", *AS_OPTIONS]
    assert cli.main(["train", "dates", "--output", str(folder), *settings]) == 0
    names = {path.name for path in folder.iterdir()}
    files = {"config.json", "tokenizer.json", "weights.safetensors", "history.json", "metrics.json"}
    assert files <= names
    metrics, config = read_json(folder / "metrics.json"), read_json(folder / "config.json")
    assert {"seed", "hardware", "versions", "seconds", "scores"} <= set(metrics)
    assert metrics["seed"] == 5 and metrics["steps"] == 20
    assert config["pre_norm"] is False and config["d_model"] == 16
    captured = capsys.readouterr()
    assert "exactly right" in captured.out and "20/20" in captured.err
    assert f'translate --run {folder} "friday' in captured.out


def test_a_finished_run_keeps_the_machine_that_trained_it(tmp_path, monkeypatch):
    settings = {"max_tokens": 300, "progress": False, **TINY}
    train("dates", tmp_path, steps=2, **settings)
    trained_on = read_json(tmp_path / "metrics.json")
    monkeypatch.setattr(runs, "describe_hardware", lambda _: "another machine")
    train("dates", tmp_path, steps=2, **settings)
    assert read_json(tmp_path / "metrics.json") == trained_on
    train("dates", tmp_path, steps=3, **settings)
    assert read_json(tmp_path / "metrics.json")["hardware"] == "another machine"


def test_what_a_run_has_learned_is_written_while_the_folder_is_its_own(tmp_path, monkeypatch):
    def write(run, *_, **__):
        with pytest.raises(ValueError, match="is in use"), locked(run.folder / CHECKPOINTS):
            pass
        written.append(run)

    written = []
    monkeypatch.setattr(runs.Run, "finish", write)
    train("dates", tmp_path, steps=2, max_tokens=300, progress=False, **TINY)
    assert len(written) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--num-heads=3"], "a multiple of --num-heads, got --d-model=64 and --num-heads=3"),
        (["--steps=0"], "--steps must be"),
        (["--vocab-size=100"], "--vocab-size must be left out for dates"),
        (["--device=nonsense"], "--device must be one that this machine has (cpu"),
        (["--device=cup"], "got 'cup'; did you mean cpu?"),
        (["--device=meta"], "got 'meta'"),
        (["--max-length=9"], "--max-length must be at least"),
    ],
)
def test_a_wrong_setting_is_one_line_on_stderr(arguments, words, tmp_path, capsys):
    assert cli.main(["train", "dates", "--output", str(tmp_path / "run"), *arguments]) == 2
    captured = capsys.readouterr()
    *before, line = captured.err.splitlines()
    assert line.startswith("transformer-lab: error: ") and words in line
    assert not before or "max-length" in words, "the data are read only if the rest is right"
    assert captured.out == ""


def test_an_error_is_said_where_something_else_has_set_a_rank(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "3")  # as schedulers of clusters do; torchrun sets LOCAL_RANK too
    assert cli.main(["train", "dates", "--output", str(tmp_path / "run"), "--steps=0"]) == 2
    assert "error: --steps must be" in capsys.readouterr().err
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert not cli.is_first_process()


def test_a_gpu_without_enough_memory_is_one_line_on_stderr(monkeypatch, capsys):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB.")

    monkeypatch.setattr(cli, "train", full)
    assert cli.main(["train", "dates", "--output", "no folder", "--device=cpu"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "transformer-lab: error: CUDA out of memory. Tried to allocate 9 GiB."


def test_a_machine_without_enough_memory_is_one_line_on_stderr_and_a_bug_is_none(
    monkeypatch, capsys
):
    problems = ["[enforce] DefaultCPUAllocator: can't allocate memory: 28 GB.\nError 12", "a bug"]

    def full(*_, **__):
        raise RuntimeError(problems.pop(0))

    monkeypatch.setattr(cli, "train", full)
    command = ["train", "dates", "--output", "no folder", "--device=cpu"]
    assert cli.main(command) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "transformer-lab: error: there is not enough memory: 28 GB. Error 12"
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(command)


def test_an_unknown_preset_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["train", "date", "--output", "run"])
    assert exit.value.code == 2
    message = capsys.readouterr().err
    assert all(name in message for name in PRESETS) and "did you mean dates?" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "dates", "--output=x", "--stpes=3"], "--stpes=3; did you mean --steps?"),
        (["translate", "--explian", DATE], "--explian; did you mean --explain?"),
        (["evaluate", "--jsno"], "--jsno; did you mean --json?"),
        (["train", "dates", "--output=x", "--zzz"], "unrecognized argument --zzz\n"),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_that_is_like_it(arguments, words, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(arguments)
    assert exit.value.code == 2 and words in capsys.readouterr().err


def test_the_help_has_the_presets_with_their_hours_and_the_defaults(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {about}" in text for name, about in ABOUT.items())
    assert {*ABOUT} == {*PRESETS}
    for name in ("dates", "multi30k"):
        model, training = PRESETS[name].model, PRESETS[name].training
        for value in (model.d_model, model.dropout, training.steps, training.warmup):
            assert f"{name} {value}" in text


@pytest.mark.parametrize("preset", ["base", "big"])
def test_the_papers_models_warn_with_the_hours_that_they_take(preset, monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    notes = []
    monkeypatch.setattr(runs, "load_task", stop)
    with pytest.raises(KeyboardInterrupt):
        train(preset, tmp_path / "run", on_note=notes.append)
    assert len(notes) == 1 and "hours on an H200" in notes[0]


def test_a_full_disk_says_that_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        (tmp_path / STATE).touch()
        raise OSError(errno.ENOSPC, "No space left on device", "weights")

    monkeypatch.setattr(cli, "train", full)
    assert cli.main(["train", "dates", "--output", str(tmp_path)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "No space left on device: 'weights'. Make room on the disk. The same command" in line


@pytest.mark.parametrize("output", ["a_file/run", "/proc/run"])
def test_a_folder_that_cannot_be_written_is_refused_before_work_begins(
    output, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    assert cli.main(["train", "dates", "--output", output]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"error: {output} cannot be written" in line
    with pytest.raises(ValueError, match=f"{output} cannot be written"):
        train("dates", output)


def test_a_finished_training_says_so_and_how_it_goes_on(tmp_path, capsys):
    command = ["train", "dates", "--output", str(tmp_path), "--max-tokens=300", *AS_OPTIONS]
    assert cli.main([*command, "--steps=2"]) == 0
    assert "finished before" not in capsys.readouterr().err
    assert cli.main([*command, "--steps=2"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("This training was finished before") and "--steps 4" in last
    assert cli.main([*command, "--steps=4"]) == 0
    assert "finished before" not in capsys.readouterr().err


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_schedule_that_ends_needs_another_folder_for_a_longer_run(schedule):
    metrics = {"steps": 9, "training": {"schedule": schedule}}
    assert "another folder" in cli._longer(metrics)


@pytest.fixture
def sentences(tmp_path):
    """A file of twelve pairs, and one line that is none."""
    path = tmp_path / "sentences.tsv"
    path.write_text("".join(f"say {i} 'x'\t{i}\n" for i in range(12)) + "no tab\n")
    return path


def test_sentences_of_your_own_are_learnt_scored_and_translated(sentences, tmp_path, capsys):
    run, settings = tmp_path / "my run", ["--steps=2", "--skip-bad", *AS_OPTIONS]
    command = ["train", "pairs", "--data", str(sentences), "--output", str(run), *settings]
    assert cli.main(command) == 0
    captured = capsys.readouterr()
    (note,) = (x for x in captured.err.splitlines() if x.startswith("transformer-lab: note: "))
    assert "1 without a tab (line 13); they are left out" in note
    assert "test: 0.00% exactly right, BLEU 0" in captured.out and "eff:yes" in captured.out
    assert cli.main(["evaluate", "--run", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == read_json(run / "metrics.json")["scores"]
    example = shlex.split(captured.out.splitlines()[-1])
    assert example[:4] == ["transformer-lab", "translate", "--run", str(run)]
    assert cli.main(example[1:]) == 0 and example[4].endswith("'x'")


@pytest.mark.parametrize("way", ["one file", "two files", "columns", "reversed"])
def test_pairs_are_read_as_the_options_say(way, tmp_path, capsys):
    rows = [(f"{100 + i}", f"say {i}", f"{200 + i}", f"sag {i}") for i in range(12)]
    files = {"one": (1, 3), "en": (1,), "de": (3,), "all": (0, 1, 2, 3), "turned": (3, 1)}
    for name, columns in files.items():
        text = "".join("\t".join(row[c] for c in columns) + "\n" for row in rows)
        (tmp_path / name).write_text(text)
    one, en, de, all_, turned = (str(tmp_path / name) for name in files)
    arguments = {
        "one file": ["pairs", "--data", one],
        "two files": ["--data", en, de, "pairs"],
        "columns": ["--data", all_, "pairs", "--columns", "2,4"],
        "reversed": ["pairs", "--reverse", "--data", turned, "--valid", de, en],
    }[way]
    run = ["--output", str(tmp_path / "run"), "--steps=1", *AS_OPTIONS]
    assert cli.main(["train", *arguments, *run]) == 0
    said = [x for x in capsys.readouterr().err.splitlines() if "note" in x]
    sides = [
        line.split("\t") for line in (tmp_path / "run/pairs/train.tsv").read_text().splitlines()
    ]
    assert sides and all(a == b.replace("sag", "say") and b[:3] == "sag" for a, b in sides)
    assert any(" has 4 columns: column 2 is " in note for note in said) == (way == "columns")


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("1\tGo.\t2\tVa !\n", [], "line 1 has 4 columns, 1 = 1, 2 = Go., 3 = 2, 4 = Va !: choose"),
        ("1\tGo.\t2\tVa !\n", [], "choose two, as --columns=2,4"),
        ("Go.\tVa !\n", ["--columns=2"], "--columns must be two different numbers from 1"),
        ("Go.\tVa !\n" * 3 + "Go.\n", [], "; --skip-bad leaves them out"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_option_as_it_is_typed(
    content, arguments, words, tmp_path, capsys
):
    file = tmp_path / "pairs.tsv"
    file.write_text(content)
    command = ["train", "pairs", "--data", str(file), "--output", str(tmp_path / "run")]
    assert cli.main([*command, *arguments]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_the_help_says_what_is_done_with_pairs_and_scores_unless_told(capsys):
    for command, words in {
        "train": ["--columns S,T", "(1,2 of two columns", "--reverse", "--data FILE [TARGETS ...]"],
        "evaluate": ["--tokenize NAME", "(13a; none for multi30k-tok; zh for pairs"],
    }.items():
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert all(each in text for each in words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dates", "--data=sentences.tsv"], "--data must go with the preset pairs"),
        (["multi30k", "--skip-bad"], "--skip-bad must go with the preset pairs"),
        (["multi30k", "--reverse"], "--reverse must go with the preset pairs"),
        (["dates", "--columns=1,2"], "--columns must go with the preset pairs"),
        (["pairs", "--data", "a", "b", "c"], "must come from one file, or from two"),
        (["pairs"], "needs --data=FILE"),
        (
            ["pairs", "--valid=a", "--test=b"],
            "needs --data=FILE, a file with a source, a tab and a target in each line, got test",
        ),
        (["pairs", "--data=no/such/file"], "no/such/file must be a file"),
    ],
)
def test_files_of_pairs_go_with_the_preset_pairs(arguments, words, tmp_path, capsys):
    assert cli.main(["train", *arguments, "--output", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("transformer-lab: error: ") and words in line
    assert not (tmp_path / "run").exists()


def test_ctrl_c_says_how_to_go_on_and_the_same_command_goes_on(
    with_few_dates, without_shape_checks, tmp_path, capsys
):
    folder = tmp_path / "run"
    command = ["train", "dates", "--output", str(folder), "--checkpoint-every=5", *AS_OPTIONS]
    process = start(with_few_dates, *command, "--steps=100000")
    while not (folder / STATE).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "The same command goes on from the last checkpoint" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    step = read_tensors(folder / STATE)[1]["history"][-1]["step"]
    assert cli.main([*command, f"--steps={step + 5}"]) == 0
    steps = [record["step"] for record in json.loads((folder / "history.json").read_text())]
    assert step in steps and steps[-1] == step + 5
    assert f" {step}/{step + 5}" in capsys.readouterr().err


def test_ctrl_c_before_the_first_checkpoint_says_that_it_starts_again(monkeypatch, capsys):
    settings_of(monkeypatch, "dates")
    assert "no checkpoint yet" in capsys.readouterr().err.splitlines()[-1]


def test_under_torchrun_two_processes_train_one_model_and_one_speaks(
    with_few_dates, without_shape_checks, tmp_path
):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    settings = ["train", "dates", "--steps=4", "--device=cpu", *AS_OPTIONS]
    process = start(*torchrun, with_few_dates, *settings, f"--output={tmp_path / 'two'}")
    try:
        out, errors = process.communicate(timeout=300)
    finally:
        process.terminate()  # it ends its processes; killed, it would leave them
    assert process.returncode == 0, errors
    assert out.count("exactly right") == errors.count("reading the data") == 1
    assert load_run(tmp_path / "two").model.config.d_model == 16
    assert cli.main([*settings, f"--output={tmp_path / 'one'}"]) == 0
    one, two = (json.loads((tmp_path / n / "history.json").read_text()) for n in ("one", "two"))
    for name in ("loss", "valid_loss"):
        assert two[-1][name] == pytest.approx(one[-1][name], rel=1e-5)


# ---- Translating


def lines(run, *sentences, **options):
    """Return what stdout must hold, to the letter."""
    return "".join(f"{line}\n" for line in run.translate(sentences, **options))


def test_only_translations_are_on_stdout_one_line_for_each_sentence(run, capsys):
    assert cli.main(["translate", "--run", str(run.folder), DATE, "3 Mar 1987"]) == 0
    assert capsys.readouterr().out == lines(run, DATE, "3 Mar 1987")


def test_without_sentences_it_reads_lines_and_explains_on_stderr(run):
    command = ["translate", "--run", run.folder, "--explain", "--beam=2"]
    process = start("-m", "transformer_lab", *command, stdin=subprocess.PIPE)
    out, errors = process.communicate(f"{DATE}\r\n\n3 Mar 1987", timeout=60)
    assert process.returncode == 0
    first, second = lines(run, DATE, "3 Mar 1987", beam=2).splitlines(keepends=True)
    assert out == f"{first}\n{second}", "an empty line stays an empty line"
    assert errors.count("Rows are written, columns read") == 2
    assert "f r i d a y ␣ 1 5" in errors and "░" in errors


def test_a_translation_starts_without_what_only_a_compiler_needs(run):
    code = (
        "import sys; from transformer_lab import cli\n"
        f"cli.main(['translate', '--run', {str(run.folder)!r}, {DATE!r}])\n"
        "print({'sympy', 'torch._dynamo'} & set(sys.modules))"
    )
    out, errors = start("-c", code).communicate(timeout=60)
    assert out == lines(run, DATE) + "set()\n", errors


def test_explain_leaves_a_sentence_a_sentence(run, capsys):
    assert cli.main(["translate", "--run", str(run.folder), "--explain", DATE]) == 0
    captured = capsys.readouterr()
    assert captured.out == run.translate(DATE) + "\n"
    assert "Rows are written" in captured.err


def test_explain_with_a_file_draws_a_figure_for_each_sentence(run, tmp_path, capsys):
    figure = tmp_path / "map.png"
    arguments = ["--explain", str(figure), DATE, "3 Mar 1987"]
    assert cli.main(["translate", "--run", str(run.folder), *arguments]) == 0
    for path in (figure, tmp_path / "map-2.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("\n") == 2 and not plt.get_fignums()


def test_a_padding_that_the_model_wrote_keeps_its_place_in_what_is_explained(run, monkeypatch):
    """Only a model that has learnt little writes one, and what follows it was written after it."""
    one, two = run.tokenizer.encode("12")[:2]
    written = torch.tensor([[BOS, PAD, one, PAD, two, EOS, PAD]])
    monkeypatch.setattr(run, "_decode", lambda *_: written)
    weights, pieces, read = run.cross_attention("1 5")
    assert pieces == ["<pad>", "1", "<pad>", "2", "<eos>"]
    assert weights.shape[-2:] == (len(pieces), len(read))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([DATE, "9" * 100], "'999"),
        (["--beam=0", DATE], "--beam must be"),
        (["--beam=2", "--length-penalty=-1", DATE], "--length-penalty must be"),
        (["--explain", "no/such/folder/map.png", DATE], "no/such/folder/map.png cannot be written"),
        (["--explain", "/proc/map.png", DATE], "/proc/map.png cannot be written"),
        (["--explain", "x.foo", DATE], "ends in .png, .svg, .pdf, .jpg or .jpeg, got x.foo"),
        (["--explain=x.foo", DATE], "got x.foo"),
        (["--run", "no/run/here", DATE], "no trained model in no/run/here"),
    ],
)
def test_what_cannot_be_translated_is_one_line_on_stderr(arguments, words, run, capsys):
    assert cli.main(["translate", "--run", str(run.folder), *arguments]) == 2
    captured = capsys.readouterr()
    line = captured.err.splitlines()[-1]
    assert line.startswith("transformer-lab: error: ") and words in line
    assert captured.out == ""


def test_characters_that_the_model_has_never_seen_are_said(run, capsys):
    assert cli.main(["translate", "--run", str(run.folder), DATE, "3 März ☃ ☃ 1987"]) == 0
    captured = capsys.readouterr()
    assert captured.out == lines(run, DATE, "3 März ☃ ☃ 1987")
    (note,) = (x for x in captured.err.splitlines() if "never seen" in x)
    assert " ä " in note and note.endswith(" ☃, in: 3 März ☃ ☃ 1987")


def test_nothing_but_translations_is_on_stdout_even_without_a_stderr(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["translate", "--run", str(run.folder), "--beam=0", DATE]) == 2
    assert cli.main(["translate", "--run", str(run.folder), "--explain", DATE]) == 0
    assert capsys.readouterr().out == lines(run, DATE)


def test_the_mark_at_the_start_of_a_text_file_is_no_part_of_a_sentence(run, monkeypatch, capsys):
    text = f"\ufeff{DATE}\n3 Mar 1987\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))
    assert cli.main(["translate", "--run", str(run.folder)]) == 0
    assert capsys.readouterr().out == lines(run, DATE, "3 Mar 1987")


def test_what_separates_lines_elsewhere_ends_no_sentence_on_stdin(run, monkeypatch, capsys):
    text = "3 Mar\r1987\n3\u2028Mar 1987\r\n3 Mar\x85 1987\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), "utf-8"))
    assert cli.main(["translate", "--run", str(run.folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out == lines(run, *["3 Mar 1987"] * 3) and "never seen" not in captured.err


def test_a_stdin_that_is_no_text_is_one_line_on_stderr(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"3 M\xe4rz"), "utf-8"))
    assert cli.main(["translate", "--run", str(run.folder)]) == 2
    assert "stdin must be utf-8, got the byte 0xe4" in capsys.readouterr().err


@pytest.mark.parametrize(("stream", "sentences"), [("stdout", [DATE]), ("stdin", [])])
def test_a_program_that_was_given_no_stdin_or_stdout_ends_well(run, monkeypatch, stream, sentences):
    monkeypatch.setattr(sys, stream, None)
    assert cli.main(["translate", "--run", str(run.folder), *sentences]) == 0


def test_a_closed_pipe_is_silent(run):
    process = start("-m", "transformer_lab", "translate", "--run", run.folder, *["1 May 2000"] * 3)
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


# ---- Scores and exercises


def test_evaluate_prints_the_scores_for_people_and_for_programs(run, capsys):
    assert cli.main(["evaluate", "--run", str(run.folder)]) == 0
    assert "exactly right, of dates never seen" in capsys.readouterr().out
    assert cli.main(["evaluate", "--run", str(run.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == run.evaluate()


def test_bleu_is_printed_with_its_signature(capsys):
    cli._print_scores({"test2016": {"bleu": 34.125, "signature": "nrefs:1"}})
    assert capsys.readouterr().out == "test2016: BLEU 34.12  (nrefs:1)\n"


def test_starting_up_imports_nothing_that_is_needed_later():
    heavy = "matplotlib IPython babel sacrebleu tokenizers"
    code = "import sys, transformer_lab.cli; print(*(m for m in sys.argv[1:] if m in sys.modules))"
    out, _ = start("-c", code, *heavy.split()).communicate(timeout=60)
    assert out == "\n"
