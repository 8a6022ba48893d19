"""Children within limits, and how they end, in words."""

import errno
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from crash.processes import until
from outlast.queue import child_main
from outlast.queue.child_main import is_out_of_memory, machine_memory, memory_limit
from outlast.queue.child_process import ChildPool, Died, FunctionRef, Raised, Returned, describe_exit

MEGABYTE = 2**20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there it is counted")


@pytest.fixture
def children():
    found = ChildPool(1)
    yield found
    found.close()


def run(children, name, payload=None, **context):
    text = json.dumps(payload or {})
    return children.run(FunctionRef("child_tasks", name), text, timeout=60.0, context={"keep": True, **context})


def value_of(reply):
    assert isinstance(reply, Returned), reply
    return json.loads(reply.text)


class TestLoading:
    def test_what_is_there_is_loaded_and_not_called(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "called.py").write_text("from pathlib import Path\ndef leave(): Path('called').write_text('')")

        assert children.load(FunctionRef("called", "leave")) == Returned(None)
        assert children.load(FunctionRef("child_tasks", "pid")) == Returned(None)
        assert not (tmp_path / "called").exists()
        assert isinstance(value_of(run(children, "pid")), int)

    def test_what_is_not_there_is_not(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "broken.py").write_text("raise RuntimeError('not here')")
        (tmp_path / "deadly.py").write_text("import os; os._exit(3)")

        for target in (("child_tasks", "nowhere"), ("no_such_module", "f"), ("broken", "f")):
            assert isinstance(children.load(FunctionRef(*target)), Raised)
        assert children.load(FunctionRef("deadly", "f")) == Died(3, "")
        children.close()
        assert children.load(FunctionRef("child_tasks", "pid")) == Died(None, "")

    @LINUX
    def test_one_that_is_killed_before_the_call_begins_is_replaced(self, children):
        """It had loaded the function, and not called it: nobody took it down from within."""
        assert children.load(FunctionRef("child_tasks", "pid")) == Returned(None)
        (first,) = [each.process for each in children._idle]
        os.kill(first.pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(run, children, "pid")
            until(lambda: children._busy, 20, "it is sent")
            os.kill(first.pid, signal.SIGKILL)
            assert value_of(asked.result(60)) != first.pid

    def test_what_takes_every_process_down_before_it_begins_has_an_end(self, children):
        assert children.load(FunctionRef("child_tasks", "dies_before_it_begins")) == Returned(None)
        assert run(children, "dies_before_it_begins") == Died(5, "")

    def test_coroutine_functions_have_a_loop_of_their_own(self, children):
        claimed = [7, 1, "coroutine", "{}", 2, 1, None, None, 0.0, True, True, False, 2]

        assert value_of(run(children, "coroutine", {"value": 5}, claimed=claimed)) == [5, 7]
        assert value_of(run(children, "coroutine", {"value": 6})) == [6, None]


@LINUX
class TestMemory:
    @pytest.mark.parametrize(("name", "payload"), [("take_memory", {"size": 500 * MEGABYTE}), ("hoard", {})])
    def test_what_wants_more_gets_an_error(self, children, name, payload):
        before = value_of(run(children, "pid"))

        reply = run(children, name, payload, memory=64 * MEGABYTE)

        assert isinstance(reply, Raised)
        assert reply.memory == 64 * MEGABYTE
        assert (reply.task_failure.failure.exception_name, reply.task_failure.failure.category) == (
            "MemoryError",
            "system",
        )
        assert 0 <= reply.taken <= reply.memory
        assert (reply.taken > 32 * MEGABYTE) is (name == "hoard")
        assert value_of(run(children, "pid")) != before, "what it had taken is gone"

    def test_what_one_has_kept_does_not_raise_the_limit_of_the_next(self, children):
        for _ in range(2):
            assert isinstance(run(children, "hoard_for_good", memory=64 * MEGABYTE), Raised)
            assert value_of(run(children, "held")) == 0

    @pytest.mark.parametrize("name", ["chained", "unmapped", "no_thread"])
    def test_want_of_memory_has_many_names(self, children, name):
        assert run(children, name, memory=256 * MEGABYTE).memory == 256 * MEGABYTE

    def test_a_limit_that_cannot_be_taken_off_fails_nobody(self, children):
        pid = value_of(run(children, "lower_for_good", memory=64 * MEGABYTE))

        assert value_of(run(children, "take_memory", {"size": 100 * MEGABYTE})) == 100 * MEGABYTE
        assert value_of(run(children, "pid")) != pid

    def test_errors_of_a_librarys_own_count_as_well(self, children):
        assert run(children, "shortage", memory=64 * MEGABYTE).memory == 64 * MEGABYTE
        assert run(children, "shortage").memory is None

    def test_what_fits_may_be_taken_and_the_limit_ends_with_the_call(self, children):
        assert value_of(run(children, "take_memory", {"size": 32 * MEGABYTE}, memory=64 * MEGABYTE)) == 32 * MEGABYTE
        assert value_of(run(children, "take_memory", {"size": 100 * MEGABYTE})) == 100 * MEGABYTE

    def test_what_was_loaded_before_is_not_counted(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "bulky_module.py").write_text(
            "HELD = bytearray(100 * 2**20)\ndef take(): return len(bytearray(16 * 2**20))"
        )

        reply = children.run(FunctionRef("bulky_module", "take"), "{}", timeout=60.0, context={"memory": 32 * MEGABYTE})

        assert reply == Returned(None)

    def test_it_is_the_first_to_go_only_while_the_call_runs(self, children):
        usual = value_of(run(children, "standing"))

        assert value_of(run(children, "standing", memory=0.5)) == 1000
        assert value_of(run(children, "standing")) == usual

    def test_a_share_is_of_what_the_machine_has(self):
        with memory_limit(0.5) as allowed:
            assert allowed.most == machine_memory() // 2
        assert allowed.is_over
        with memory_limit(None) as allowed:
            assert allowed is None


class TestMachine:
    @LINUX
    @pytest.mark.parametrize(
        ("groups", "files", "expected"),
        [
            ("0::/\n", {"memory.max": "max\n"}, None),
            ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
            ("0::/a/b\n", {"a/memory.max": "2000000\n", "a/b/memory.max": "max\n"}, 2_000_000),
            ("0::/a/b\n", {"a/memory.max": "2000000\n", "a/b/memory.max": "500000\n"}, 500_000),
            ("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "3000000\n"}, 3_000_000),
            ("4:memory:/x\n1:cpu:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
            ("", {}, None),
        ],
    )
    def test_a_container_or_service_has_less(self, tmp_path, monkeypatch, groups, files, expected):
        whole = machine_memory()
        monkeypatch.setattr(child_main, "_PROC", tmp_path)
        monkeypatch.setattr(child_main, "_CGROUPS", tmp_path / "groups")
        (tmp_path / "cgroup").write_text(groups)
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

        assert machine_memory() == (expected or whole)

    def test_where_nothing_can_be_counted_calls_run_without_a_limit(self, tmp_path, monkeypatch):
        monkeypatch.setattr(child_main, "_PROC", tmp_path)

        with memory_limit(0.5) as allowed:
            assert allowed is None


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (caused(ConnectionError(), MemoryError()), True),
        (ExceptionGroup("two", [ValueError(), ExceptionGroup("one", [MemoryError()])]), True),
        (caused(ValueError(), ExceptionGroup("two", [MemoryError()])), True),
        (caused(ValueError(), OSError(errno.ENOSPC, "No space left on device")), False),
        (RuntimeError("out of luck"), False),
    ],
)
def test_want_of_memory(error, expected):
    assert is_out_of_memory(error) is expected


def test_an_error_that_is_its_own_cause_is_looked_at_once():
    first, second = ValueError(), KeyError()
    first.__context__, second.__context__ = second, first
    assert not is_out_of_memory(first)


def test_a_call_whose_time_has_long_been_up_ends_without_the_interpreter():
    """Python's own threads do not run meanwhile, the one that hears of the parent's end among them."""
    code = (
        "import re; from outlast.queue import child_process; child_process._OVERDUE_MARGIN = 0.1\n"
        "with child_process.exit_when_overdue(0.1): re.match('(a+)+$', 'a' * 64 + 'b')"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert (ended.returncode, "Timeout" in ended.stderr) == (1, True)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-signal.SIGSEGV, "was killed by SIGSEGV (a fault in C code)"),
        (-9, "was killed by SIGKILL (killed by a person, or by the system because memory ran out)"),
        (-signal.SIGINT, "was killed by SIGINT"),
        (-200, "was killed by signal 200"),
        (None, "ended"),
    ],
)
def test_an_exit_code_in_words(code, words):
    assert describe_exit(code) == words


@LINUX
def test_a_process_that_dies_within_limits_is_told_as_any_other(children):
    assert run(children, "murdered", memory=0.5) == Died(-signal.SIGKILL, "")
