"""Programs of tests that are forked and not started anew are processes like others."""

import os
import signal
import subprocess

import pytest

import forked

PROGRAM = """
import atexit, os, sys, threading, time
print(os.getpid(), os.environ["TOLD"], *sys.argv[1:], __name__, sep=",", flush=True)
atexit.register(lambda: print("the end", flush=True))
threading.Thread(target=lambda: (time.sleep(0.05), print("a thread", flush=True))).start()
match sys.argv[1]:
    case "exit":
        sys.exit(3)
    case "raise":
        raise ValueError("no")
    case "wait":
        time.sleep(60)
"""


@pytest.fixture
def start(tmp_path):
    """Start the program; return its process and what it has said so far."""
    script, log = tmp_path / "program.py", tmp_path / "log"
    script.write_text(PROGRAM)
    started = []

    def start(verb):
        with log.open("wb") as file:
            started.append(forked.start([str(script), verb], os.environ | {"TOLD": "yes"}, file))
        return started[-1], log.read_text

    yield start
    for process in started:
        process.kill()
        process.wait(20)


@pytest.mark.parametrize(("verb", "code"), [("end", 0), ("exit", 3), ("raise", 1)])
def test_it_runs_to_its_end_with_its_threads_and_its_exit_code(start, verb, code):
    process, said = start(verb)
    assert process.wait(20) == process.poll() == process.returncode == code
    first, *others = said().splitlines()
    assert first == f"{process.pid},yes,{verb},__main__"
    assert others[-2:] == ["a thread", "the end"]
    assert ("ValueError: no" in others) is (verb == "raise")
    assert process.pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_it_and_it_alone(start, number):
    (process, _), (other, _) = start("wait"), start("wait")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait(20) == -number
    assert other.poll() is None
    process.send_signal(number)  # to nobody, which is no error
