"""`transformer-course`: what its commands say; what they do is tested beside what does it."""

import pytest

from course import cli


@pytest.mark.parametrize("command", [[], ["lab"], ["update"], ["progress"], ["grade"]])
def test_help_says_what_the_command_does(command, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main([*command, "--help"])
    assert exit.value.code == 0
    assert f"usage: {cli.NAME}" in capsys.readouterr().out


def test_progress_passes_its_options_and_its_status_on(monkeypatch):
    seen = []
    monkeypatch.setattr(cli.progress, "progress", lambda *given: seen.append(given) or 1)
    assert cli.main(["progress", "02", "--target", "solutions", "--json"]) == 1
    assert seen == [("solutions", True, ["02"])]


def test_a_mistake_of_the_user_is_one_line_on_stderr(capsys):
    assert cli.main(["progress", "--target", "nowhere"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{cli.NAME}: error: ") and error.count("\n") == 1


def test_a_misspelt_command_is_told_which_one_may_have_been_meant(capsys):
    with pytest.raises(SystemExit):
        cli.main(["progres", "02"])
    assert "no command progres" in (told := capsys.readouterr().err)
    assert told.endswith("did you mean progress?\n")
