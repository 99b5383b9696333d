"""The command ``splitlib completion``, in bash itself."""

import shutil
import subprocess

import pytest

from splitlib.cli import main

ASK = """
COMP_WORDS=({words}); COMP_CWORD={last}; _splitlib; echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("splitlib par", "partitions"),
        ("splitlib do", "doctor"),
        ("splitlib plan --for", "--format"),
        ("splitlib audit x.sql --fail", "--fail-under"),
        ("splitlib plan da", ""),
        ("splitlib unknown --", ""),
    ],
)
def test_completion(capsys: pytest.CaptureFixture[str], words: str, completed: str) -> None:
    assert main(["completion"]) == 0
    script = capsys.readouterr().out + ASK.format(words=words, last=len(words.split()) - 1)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (completed, "")
