"""A check in a live kernel: a message alone, Run All stops, and nothing else is touched."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELLS = [
    "import torch\nimport torch.nn.functional as F\nfrom course import check",
    'def stable_softmax(x, dim):\n    raise NotImplementedError("not written yet")',
    "check(stable_softmax)",
    "torch.manual_seed(1); state = torch.get_rng_state()",
    "def stable_softmax(x, dim):\n    return F.softmax(x, dim)",
    "check(stable_softmax)",
    "print(torch.equal(state, torch.get_rng_state()))",
    "def stable_softmax(x, dim):\n    return F.softmax(x, -1)",
    "check(stable_softmax)",
    "print('not reached')",
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The notebook after Run All, and the error that stopped it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    folder = str(tmp_path_factory.mktemp("anywhere"))  # the checks are found from the package
    client = NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    with pytest.raises(CellExecutionError):
        client.execute()
    return notebook


def printed(ran, number):
    return "".join(output.get("text", "") for output in ran.cells[number].outputs)


def test_a_stub_is_not_written_yet_and_run_all_goes_on(ran):
    assert printed(ran, 2) == "stable_softmax: not written yet\n"


def test_a_right_answer_passes_and_the_random_state_is_left_alone(ran):
    assert printed(ran, 5) == "✓ stable_softmax: all checks passed.\n"
    assert printed(ran, 6) == "True\n"


def test_a_wrong_answer_shows_its_message_only_and_stops_run_all(ran):
    (error,) = ran.cells[8].outputs
    assert error.output_type == "error" and error.ename == "CheckFailed"
    assert len(error.traceback) == 2
    assert error.traceback[0].startswith("✗ stable_softmax(x (3, 3, 3), dim 1)")
    assert error.traceback[1].startswith("This is the answer when `dim` is ignored")
    assert ran.cells[9].outputs == [] and ran.cells[9].execution_count is None
