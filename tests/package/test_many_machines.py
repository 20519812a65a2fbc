"""Two machines train one model, as far as one can show it: two agents of torchrun, on loopback.

Agents and workers are forked from one process that has imported torch. A machine is a process
group: whoever kills it leaves no process behind.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from benchmarks.lessons import l15_sharded as sharded
from transformer_lab import cli, load, load_run, runs
from transformer_lab.data import date_pairs
from transformer_lab.saving import parameters_of
from transformer_lab.support.files import read_tensors
from transformer_lab.training import loop
from transformer_lab.training.checkpoints import snapshot_path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 400  # seconds: no process lives longer, whatever becomes of the test
STEPS, EVERY, CUT = 60, 5, 33
# The preset "dates" at toy size. Of 499 dates, 83 go into a batch, which two processes cannot share
# evenly, and one is left over, with which one process has no sentence at all.
SPLITS = {"train": 499, "val": 20, "test": 10}
SETTINGS = ["--d-model=16", "--num-heads=2", "--d-ff=16", "--num-encoder-layers=1"]
SETTINGS += ["--num-decoder-layers=1", f"--steps={STEPS}", f"--checkpoint-every={EVERY}"]
# Clipped, or divided by their own size as with 1e-9, gradients could all be halved unnoticed.
SETTINGS += ["--clip-norm=0", "--adam-epsilon=1e-4"]


def train_dates(folder: Path) -> None:
    command = ["train", "dates", f"--output={folder}", "--device=cpu", *SETTINGS]
    assert cli.main(command) == 0


def train_sharded(folder: Path, results: Path) -> None:
    results.write_text(json.dumps(sharded.train(folder)))


# ------------------------------------------------- what the process does that imports torch for all


def forked(work, *arguments) -> int:
    """Do some work in a child that leads a process group of its own; return the child's id."""
    child = os.fork()
    os.setpgid(child, child or 0)  # by both, so that it is done whoever comes first
    if child:
        return child
    try:
        signal.alarm(LIMIT)
        work(*arguments)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def agent(name: str, port: int, folder: Path) -> None:
    """Be `torchrun`, as it is called on each of two machines."""
    from torch.distributed import run as torchrun

    def launch(config, entrypoint):
        config.start_method = "fork"
        return elastic_launch(config, work)

    elastic_launch, torchrun.elastic_launch = torchrun.elastic_launch, launch
    options = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--monitor-interval=0.1"]
    options += [f"--log-dir={folder / 'logs'}"]
    options += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test"]
    # Who has not been heard of for five seconds is dead; who is slow, is waited for.
    settings = "is_host=0,keep_alive_interval=1,keep_alive_max_attempt=5,read_timeout=300"
    options += ["--local-addr=127.0.0.1", f"--rdzv-conf={settings}"]
    torchrun.main([*options, "--no-python", "work", name, str(folder)])


def work(name: str, folder: str) -> None:
    """Be the script that torchrun starts: train the dates; then, before parting, the dates again
    without interruption, and a sharded model."""
    signal.alarm(LIMIT)
    folder, train, learning_rate = Path(folder), cli.train, loop.learning_rate

    def noted(step, d_model, config):  # what each step begins with
        with (folder / f"{name}.steps").open("a") as steps:
            steps.write(f"{step}\n")
        if name == "first" and step == CUT:  # the power of this machine fails
            os.killpg(0, signal.SIGKILL)
        return learning_rate(step, d_model, config)

    def then_more(*arguments, **settings):
        run = train(*arguments, **settings)
        loop.learning_rate = learning_rate
        train("dates", folder / "uninterrupted", **settings)
        train_sharded(folder / "sharded", folder / f"{dist.get_rank()}.json")
        return run

    loop.learning_rate, cli.train = noted, then_more
    train_dates(folder / "two")


def main(folder: Path) -> None:
    """Train alone and on two machines, one of which loses its power and is replaced."""
    import torch.distributed.fsdp

    torch.optim.AdamW([torch.zeros(1)])  # imports much, now, and not in each child
    torch.set_num_threads(1)
    splits = {name: date_pairs(count, 0) for name, count in SPLITS.items()}
    runs.load_task = lambda *_: splits
    # Agents that share their store with their workers find the addresses of the dead in it when
    # they start again (pytorch/pytorch, issue 135712).
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    running = []

    def start(work, *arguments) -> int:
        running.append(forked(work, *arguments))
        return running[-1]

    def status(child: int) -> int:
        ended = os.waitpid(child, 0)[1]
        running.remove(child)
        return ended

    try:
        alone = [
            start(train_dates, folder / "one"),
            start(train_sharded, folder / "whole", folder / "whole.json"),
        ]
        first, second = (start(agent, name, store.port, folder) for name in ("first", "second"))
        assert status(first) == signal.SIGKILL, "its power should have failed"
        third = start(agent, "third", store.port, folder)
        assert [status(child) for child in (*alone, second, third)] == [0, 0, 0, 0]
    finally:
        for machine in running:
            os.killpg(machine, signal.SIGKILL)


# ------------------------------------------------------------------------------------------- tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return the folder in which one process, and two machines, have trained the same."""
    folder = tmp_path_factory.mktemp("machines")
    command = [sys.executable, __file__, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=2 * LIMIT
    )
    assert run.returncode == 0, run.stderr[-5000:]
    assert run.stdout.count("exactly right") == 2, "of two machines, one speaks"
    return folder


def weights(folder: Path, step: int) -> dict[str, torch.Tensor]:
    return read_tensors(snapshot_path(folder, step))[0]


def history(folder: Path) -> list[dict]:
    return json.loads((folder / "history.json").read_text())


def steps(folder: Path, name: str) -> list[int]:
    return [int(line) for line in (folder / f"{name}.steps").read_text().split()]


def test_after_five_steps_two_machines_have_the_weights_of_one_process(folder):
    one, two = (weights(folder / name, EVERY) for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert_close(two[name], tensor, rtol=1e-5, atol=1e-6)


def test_over_sixty_steps_their_losses_are_the_same(folder):
    """Rounding grows under Adam, which divides a small gradient by its own size."""
    one, two = history(folder / "one"), history(folder / "two")
    assert [r["step"] for r in one] == [r["step"] for r in two] == [*range(EVERY, STEPS + 1, EVERY)]
    assert [r["tokens"] for r in one] == [r["tokens"] for r in two]
    for name in ("loss", "valid_loss"):
        assert [r[name] for r in two] == pytest.approx([r[name] for r in one], abs=1e-4)
    assert two[-1]["loss"] < two[0]["loss"] - 0.5, "it must have learnt something"


def test_when_a_machine_is_lost_training_goes_on_from_the_last_checkpoint_as_if_it_were_not(folder):
    last = CUT - CUT % EVERY
    assert steps(folder, "first")[-1] == CUT
    assert steps(folder, "third") == [*range(last + 1, STEPS + 1)]
    assert steps(folder, "second")[last - STEPS :] == steps(folder, "third")
    both = [parameters_of(load_run(folder / name).model) for name in ("two", "uninterrupted")]
    assert all(torch.equal(both[0][name], both[1][name]) for name in both[0])
    names = [{p.name for p in (folder / name).rglob("*")} for name in ("two", "uninterrupted")]
    assert names[0] == names[1], "something was lost, or left over"


def test_a_sharded_model_is_trained_and_saved_as_a_whole_one_is(folder):
    """The paper's base, at toy size: each process holds half of it."""
    whole, *parts = (json.loads((folder / f"{n}.json").read_text()) for n in ("whole", 0, 1))
    assert [part["weights held"] for part in parts] == [whole["weights held"] / 2] * 2
    for part in parts:
        assert part["losses"] == pytest.approx(whole["losses"], rel=1e-5)
    ours, theirs = (parameters_of(load(folder / n)) for n in ("sharded", "whole"))
    for name, tensor in theirs.items():
        assert_close(ours[name], tensor, rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
