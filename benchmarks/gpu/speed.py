"""Training speed of the paper's two models, held against the machine's own peak."""

import gc
from dataclasses import replace

import torch

from benchmarks.flops import forward_flops, matmul_peak, training_flops
from benchmarks.gpu.engine import Trainer, Way
from benchmarks.gpu.lab import Lab, new_model
from benchmarks.gpu.power import watts
from benchmarks.reporting.report import SEED
from benchmarks.reporting.timing import seconds_per_call, wait
from transformer_lab import PRESETS, ModelConfig, TrainConfig
from transformer_lab.config import EOS, UNK
from transformer_lab.training import fused_loss

TOKENS = 25_000  # of each language in a step (paper, 5.1)
LONG_ENOUGH = 2  # seconds, to see what the GPU draws
LENGTHS = (29, 32)  # tokens of a sentence, EOS included: about what WMT's sentences have
PAPER = {"base": (100_000, "12 h on 8 P100"), "big": (300_000, "3.5 days on 8 P100")}
WAYS = {
    "base": {
        "eager": {"graphs": False},
        "CUDA graphs": {},
        "torch.compile, CUDA graphs": {"compiled": True},
    },
    "big": {"torch.compile, CUDA graphs": {"compiled": True}},
}
PROFILED = ("base", "torch.compile, CUDA graphs")
TOY = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
MODEL_TARGET = {"base": "≥ 50 % of the peak, ≤ 2.5 h", "big": ""}


def speed(lab: Lab) -> dict:
    """Measure the peak, then each model in each way, the loss alone, and a profile of base."""
    peak = matmul_peak(lab.device, 64 if lab.smoke else 8192)
    rows, profile = [], []
    for name, ways in WAYS.items():
        for way, switches in ways.items():
            what = f"{name}, {way}"
            arguments = (lab, name, way, lab.way(**switches), peak)
            compiles = switches.get("compiled") and lab.device.type == "cuda"
            enough = lab.has(40 if compiles else 0, what)
            row = lab.attempt(what, _measure, *arguments) if enough else None
            if row:
                profile = row.pop("profile") or profile
                rows.append(row)
                print(row, flush=True)
    alone = lab.attempt("the loss alone", _loss_alone, lab) or {}
    return {
        "summary": [_summary(row) for row in rows if row["way"] == list(WAYS[row["model"]])[-1]],
        "tables": [_speed_table(rows, peak), _loss_table(alone), _profile_table(profile)],
        "matmul_peak": peak,
        "rows": rows,
        "loss_seconds": alone,
        "profile": profile,
    }


def sentences(config: ModelConfig, smoke: bool) -> tuple[list, int]:
    """Return random pairs for four batches, and the sentences in a batch of 25,000 tokens."""
    generator = torch.Generator().manual_seed(SEED)
    per_batch = 4 if smoke else round(TOKENS / (sum(LENGTHS) / 2))
    shape = (4 * per_batch, 2)
    lengths = torch.randint(LENGTHS[0], LENGTHS[1] + 1, shape, generator=generator).tolist()

    def words(length: int) -> list[int]:
        ids = torch.randint(UNK + 1, config.target_vocab_size, (length - 1,), generator=generator)
        return [*ids.tolist(), EOS]

    return [(words(source), words(target)) for source, target in lengths], per_batch


def _measure(lab: Lab, name: str, way_name: str, way: Way, peak: float) -> dict:
    config = replace(PRESETS[name].model, **(TOY if lab.smoke else {}))
    pairs, per_batch = sentences(config, lab.smoke)
    training = TrainConfig(max_tokens=per_batch * LENGTHS[1])
    trainer = Trainer(new_model(config, SEED).to(lab.device), pairs, training, way)
    if lab.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()  # what earlier models have left
        torch.cuda.reset_peak_memory_stats()
    setup = trainer.prepare()
    seconds = seconds_per_call(trainer.take_step, lab.device, calls=1 if lab.smoke else 10)
    with watts(lab.device) as power:
        for _ in range(round((0 if lab.smoke else LONG_ENOUGH) / seconds)):
            trainer.take_step()
        wait(lab.device)
    sources, targets = ([len(pair[side]) for pair in pairs] for side in (0, 1))
    batches = len(pairs) / per_batch
    flops = training_flops(config, sources, targets) / batches
    tokens = (sum(sources) + sum(targets)) / batches
    steps, paper = PAPER[name]
    return {
        "model": name,
        "way": way_name,
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "tokens_per_step": tokens,
        "seconds_per_step": seconds,
        "watts": power,
        "tokens_per_second": tokens / seconds,
        "flops_per_step": flops,
        "flops_by_part": {
            part: 3 * count / batches
            for part, count in forward_flops(config, sources, targets).items()
        },
        "share_of_peak": flops / seconds / peak,
        "memory_gib": _memory(lab.device),
        "setup_seconds": setup,
        "projected_hours": steps * seconds / 3600,
        "paper": f"{steps:,} steps in {paper}",
        "profile": (
            lab.attempt("the profile", _profile, trainer) or []
            if (name, way_name) == PROFILED
            else []
        ),
    }


def _memory(device: torch.device) -> float:
    return torch.cuda.max_memory_reserved() / 2**30 if device.type == "cuda" else 0.0


def _profile(trainer: Trainer, steps: int = 3) -> list[dict]:
    """Return the kernels that take most of a step, with their share of the device's time."""
    if trainer.device.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(steps):
            trainer.take_step()
        torch.cuda.synchronize()
    kernels = sorted(record.key_averages(), key=lambda k: -k.self_device_time_total)
    total = sum(kernel.self_device_time_total for kernel in kernels)
    return [
        {
            "kernel": kernel.key[:90],
            "calls": kernel.count // steps,
            "ms": kernel.self_device_time_total / 1000 / steps,
            "share": kernel.self_device_time_total / total,
        }
        for kernel in kernels[:15]
    ]


def _loss_alone(lab: Lab) -> dict[str, float]:
    """Return the seconds for loss and gradients of 25,000 states of base over 37,000 words."""
    N, d, V = (64, 8, 50) if lab.smoke else (TOKENS, 512, 37_000)
    generator = torch.Generator(lab.device).manual_seed(SEED)
    states = torch.randn(N, d, device=lab.device, generator=generator).bfloat16()
    weight = torch.randn(V, d, device=lab.device, generator=generator) / d**0.5
    targets = torch.randint(1, V, (N,), device=lab.device, generator=generator)
    seconds, usual = {}, fused_loss.GPU_CHUNK
    for chunk, way in ((fused_loss.CHUNK, "eager"), (usual, "eager"), (usual, "compiled")):
        fused_loss.GPU_CHUNK = chunk
        try:
            seconds[f"chunks of {chunk:,} tokens, {way}"] = seconds_per_call(
                lambda way=way: fused_loss.FusedLoss.apply(
                    states, weight, targets, 0.1, way == "compiled"
                ),
                lab.device,
                calls=1 if lab.smoke else 5,
            )
        finally:
            fused_loss.GPU_CHUNK = usual
    return seconds


def _summary(row: dict) -> list[str]:
    measured = (
        f"{row['tokens_per_second']:,.0f} tokens/s, {row['share_of_peak']:.0%} of the bfloat16 "
        f"peak; projected {row['projected_hours']:.1f} h (paper: {row['paper']})"
    )
    return [f"training the paper's {row['model']} model, GPU", measured, MODEL_TARGET[row["model"]]]


def _speed_table(rows: list[dict], peak: float) -> dict:
    columns = ["model", "way", "tokens/s", "ms a step", "TFLOP a step", "share of peak"]
    columns += ["memory, GiB", "W", "set-up, s", "projected, h", "paper"]
    cells = [
        [
            *(row["model"], row["way"], f"{row['tokens_per_second']:,.0f}"),
            f"{row['seconds_per_step'] * 1000:.1f}",
            *(f"{row['flops_per_step'] / 1e12:.2f}", f"{row['share_of_peak']:.0%}"),
            *(f"{row['memory_gib']:.1f}", f"{row['watts'].get('mean', 0):.0f}"),
            f"{row['setup_seconds']:.0f}",
            *(f"{row['projected_hours']:.2f}", row["paper"]),
        ]
        for row in rows
    ]
    title = (
        f"25,000 source and 25,000 target tokens a step, sentences of {LENGTHS[0]} to {LENGTHS[1]} "
        f"tokens; measured peak of a bfloat16 product: {peak / 1e12:.0f} TFLOP/s"
    )
    return {"title": title, "columns": columns, "rows": cells}


def _loss_table(seconds: dict[str, float]) -> dict:
    title = "The loss over 37,000 words alone, 25,000 tokens, with both gradients"
    cells = [[name, f"{value * 1000:.1f}"] for name, value in seconds.items()]
    return {"title": title, "columns": ["way", "ms"], "rows": cells}


def _profile_table(profile: list[dict]) -> dict:
    cells = [
        [f"`{k['kernel']}`", k["calls"], f"{k['ms']:.2f}", f"{k['share']:.1%}"] for k in profile
    ]
    columns = ["kernel", "calls a step", "ms a step", "share"]
    return {"title": "Where a step of base goes", "columns": columns, "rows": cells}
