"""`python -m benchmarks.ship RUN`: make `transformer_lab/pretrained/` out of a run folder.

The weights are stored as float16, half the size, and scored as they are stored. What comes with
the course was made from the run of `python -m benchmarks.gpu --only small`.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch

from transformer_lab import PRESETS, ModelConfig, Run, load_run
from transformer_lab.runs import METRICS, PRETRAINED, TOKENIZER
from transformer_lab.saving import WEIGHTS_FILE, parameters_of, save, set_parameters
from transformer_lab.support.files import read_json, write_atomically, write_json, write_tensors

LIMIT = 12_000_000  # bytes
KEPT = ("seed", "training", "parameters", "seconds", "steps", "hardware", "versions", "objective")
FROM_NOTHING = """\
On the 29,000 pairs of the training split of Multi30k, cased and not tokenised, from nothing:
{steps:,} steps with batches of at most {max_tokens:,} target tokens, in {minutes:.1f} minutes
on {where} ({name}, threads: {threads}),
PyTorch {torch}, seed {seed}. The weights are the mean of the last {average} snapshots.

To train such a model again:

```
{command}
```"""
WITH_R_DROP = """\
On the 29,000 pairs of the training split of Multi30k, cased and not tokenised, from nothing:
{steps:,} steps with batches of at most {max_tokens:,} target tokens, padding included, each batch
read twice with different dropout (Liang et al. 2021, *R-Drop*), in {minutes:.1f} minutes
on {where} ({name}), in {precision},
PyTorch {torch}, seed {seed}. The weights are the mean of the last {average} snapshots.

To train such a model again, in a clone of the course and with such a GPU:

```
python -m benchmarks.gpu --only small
python -m benchmarks.ship runs/gpu/small
```"""
CARD = """\
# English to German, for captions of photographs

A Transformer of {layers} layers, d_model {d_model}, {heads} heads, d_ff {d_ff}, {norm},
one vocabulary of {vocabulary:,} pieces (byte-pair encoding): {parameters:,} parameters, stored
as float16 in `weights.safetensors`.

## How it was trained

{history}

## How good it is

With a beam of {beam} and a length penalty of {length_penalty}, the weights as they are stored here:

{scores}

{signature}

It has seen nothing but captions: "A man in a red hat is reading a book." Anything else it
translates badly, and it never says that it does not know.

## Licence

The captions of Multi30k (Elliott et al., 2016) are for non-commercial research and education.
This model was made from them, so use it for that only. The code is under the MIT License.
"""


def ship(run: Run, folder: Path, *, progress: bool = True) -> dict:
    """Write the run to `folder`, with half the bits, and a card; return the metrics.

    Raises `ValueError` if the weights take more than 12 MB.
    """
    half = {name: tensor.detach().half() for name, tensor in parameters_of(run.model).items()}
    size = sum(2 * tensor.numel() for tensor in half.values())
    if size > LIMIT:
        raise ValueError(f"the weights must take at most {LIMIT:,} bytes, got {size:,}")
    set_parameters(run.model, half, "the run")  # what is scored is what is shipped
    notes = read_json(run.folder / METRICS)
    metrics = {
        "data": run.data,
        "beam": run.beam,
        "length_penalty": run.length_penalty,
        "weights": "float16",
    }
    metrics |= {name: notes[name] for name in KEPT if name in notes}
    metrics["scores"] = run.evaluate(progress=progress)
    text = card(run, metrics).encode()  # a run of another task ends here, before a file is written
    save(run.model, folder)
    write_tensors(folder / WEIGHTS_FILE, half)
    run.tokenizer.save(folder / TOKENIZER)
    write_atomically(folder / "CARD.md", text)
    write_json(folder / METRICS, metrics)
    return metrics


def card(run: Run, metrics: dict) -> str:
    """Return the text of CARD.md."""
    c, scores = run.model.config, metrics["scores"]
    lines = ["| test set | BLEU |", "|---|---|"]
    lines += [f"| {name} | {score['bleu']:.2f} |" for name, score in scores.items()]
    signature = next(iter(scores.values()))["signature"]
    return CARD.format(
        history=_history(c, metrics),
        layers=f"{c.num_encoder_layers}+{c.num_decoder_layers}",
        d_model=c.d_model,
        heads=c.num_heads,
        d_ff=c.d_ff,
        norm="normalised before each sub-layer" if c.pre_norm else "normalised as in the paper",
        vocabulary=c.target_vocab_size,
        parameters=metrics["parameters"],
        beam=run.beam,
        length_penalty=run.length_penalty,
        scores="\n".join(lines),
        signature=f"sacreBLEU: `{signature}`",
    )


def _history(config: ModelConfig, metrics: dict) -> str:
    """Return what the card says on the training."""
    hardware, training = metrics["hardware"], metrics["training"]
    return (WITH_R_DROP if metrics.get("objective") == "RDrop" else FROM_NOTHING).format(
        command=_command(config, training),
        steps=metrics["steps"],
        max_tokens=training["max_tokens"],
        average=training["average"],
        precision=training["precision"],
        minutes=metrics["seconds"] / 60,
        where="a GPU" if hardware["device"] == "cuda" else "a CPU, without a GPU",
        name=hardware["name"],
        threads=hardware["threads"],
        torch=metrics["versions"]["torch"],
        seed=metrics["seed"],
    )


def _command(config: ModelConfig, training: dict) -> str:
    """Return the command that trains so: what differs from the preset, as options."""
    words = ["transformer-lab train multi30k --output runs/multi30k"]
    preset = PRESETS["multi30k"]
    for standard, used in ((preset.model, asdict(config)), (preset.training, training)):
        for name, value in used.items():
            if value != getattr(standard, name) and "vocab_size" not in name:
                option = name.replace("_", "-")
                switch = {True: f"--{option}", False: f"--no-{option}"}
                words.append(switch[value] if type(value) is bool else f"--{option} {value}")
    return " \\\n  ".join(words)


def main(arguments: list[str] | None = None) -> None:
    """Ship the run that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ship", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a finished run on Multi30k, raw")
    parser.add_argument("--output", type=Path, default=PRETRAINED, help="(the package's own)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    metrics = ship(load_run(options.run), options.output)
    print({name: score["bleu"] for name, score in metrics["scores"].items()})


if __name__ == "__main__":
    main()
