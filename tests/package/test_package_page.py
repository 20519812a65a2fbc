"""What `transformer_lab/README.md` shows runs as it stands there, at toy size."""

import re
from pathlib import Path

import transformer_lab

PAGE = Path(transformer_lab.__file__).parent / "README.md"


def test_a_task_of_ones_own_runs_from_the_page_alone(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text("utf-8")
    section = text[text.index("### A task of your own") : text.index("## Read it")]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    small = "\n".join(blocks).replace("10_000", "600").replace("steps=1000", "steps=2")
    exec(compile(small.replace("range(1000)", "range(2)"), PAGE, "exec"), {})
    assert (tmp_path / "runs" / "backwards" / "weights.safetensors").exists()
    assert len(capsys.readouterr().out.splitlines()) == 4
