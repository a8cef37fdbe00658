"""Installing what tests need: Ctrl-C does not reach a package manager, and waits for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import eventually


def test_ctrl_c_waits_for_what_was_begun(tmp_path: Path) -> None:
    began, done = tmp_path / "began", tmp_path / "done"
    program = f"from tests.lab import prepare; prepare.run(['sh', '-c', 'touch {began}; sleep 1; touch {done}'])"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    eventually(began.exists, "it is begun")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert (said, process.returncode) == ("Waiting for apt-get to finish …\n", -signal.SIGINT)
    assert done.exists()
