"""What threads have freed goes back to the system, instead of staying with each of them."""

import platform
import subprocess
import sys

from tests.support import skip

# Threads that each take and free megabytes, as those do that read archives; then what stayed.
PROGRAM = """
import sys, threading
if sys.argv[1] == "flat":
    from codehub.cli.memory import keep_flat
    keep_flat()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def work():
    kept = []
    for size in (1 << 20, 4 << 20, 8 << 20):
        for _ in range(6):
            block = bytearray(size)
            block[::4096] = b"x" * len(block[::4096])
            kept.append(bytearray(2000))
            del block
        together.wait()

together = threading.Barrier(12)
before = resident()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(resident() - before)
"""


def grown(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


def test_what_a_dozen_threads_have_freed_does_not_stay() -> None:
    if platform.libc_ver()[0] != "glibc":
        skip("the GNU C library", "run on a system that has it")
    assert grown("flat") < 24 << 20
    assert grown("as it is") > 48 << 20, "else this shows nothing"
