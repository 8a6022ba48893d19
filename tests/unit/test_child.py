"""Children: real processes in which tasks run that may be killed (pitfall 6)."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import child_tasks
from outlast import RETRYABLE, RetryPolicy
from outlast.errors import ConfigurationError, NetworkError, PermanentError, RetryableError
from outlast.queue import child_process as child_module
from outlast.queue.child_process import ChildPool, Died, FunctionRef, Raised, Returned, TimedOut, function_ref
from outlast.queue.payload import decode_result
from outlast.queue.task_failure import TaskFailure, task_failure_of

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and forks")


@pytest.fixture
def children():
    found = ChildPool(4)
    yield found
    found.close()
    assert not found._busy
    assert not found._idle


def run(children, name, payload=None, *, timeout=20.0, **context):
    text = json.dumps(payload or {})
    return children.run(FunctionRef("child_tasks", name), text, timeout=timeout, context={"keep": True, **context})


def value_of(reply):
    assert isinstance(reply, Returned), reply
    return json.loads(reply.text)


def is_gone(number, within=30.0):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # not ours to wait for: its parent is gone as well
            return True
        time.sleep(0.01)
    return False


def wait_for(file, within=30.0):
    end = time.monotonic() + within
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(file.read_text())


class TestReplies:
    def test_arguments_and_result_go_through_the_hints(self, children):
        visit = child_tasks.Visit("a", datetime.now(UTC))
        codec_text = json.dumps({"visit": {"url": "a", "when": visit.when.isoformat()}})

        reply = children.run(function_ref(child_tasks.later), codec_text, timeout=20, context={"keep": True})

        assert decode_result(reply.text, child_tasks.Visit) == child_tasks.Visit("A", visit.when)

    def test_the_result_stays_there_unless_it_is_asked_for(self, children):
        assert run(children, "echo", {"value": 1}, keep=False) == Returned(None)
        assert run(children, "unkept", keep=False) == Returned(None)

    def test_a_result_that_cannot_be_kept_spoils_nothing(self, children, capfd):
        assert run(children, "unkept") == Returned(None)
        children.close()
        assert (
            "unkept succeeded, but its result cannot be stored: result: object is not a JSON type"
            in capfd.readouterr().err
        )

    def test_an_error_is_judged_there(self, children):
        reply = run(children, "unreachable")

        assert isinstance(reply, Raised)
        failure, wanted, traceback, wait = reply.task_failure
        assert (failure.category, failure.exception_name, wanted, wait) == (
            "network",
            "ConnectionRefusedError",
            True,
            None,
        )
        assert failure.location == "tests/child_tasks.py:unreachable"
        assert "in unreachable" in traceback
        assert "hunter2" not in traceback + failure.message

    @pytest.mark.parametrize(
        ("name", "payload", "wanted"),
        [
            ("task_by_type", {}, True), ("task_by_category", {}, True), ("task_by_default", {}, False), ("own", {}, False),
            ("task_for_all", {"x": 1}, True), ("task_for_all", {"y": 1}, False), ("task_retryable", {}, True), ("leave", {}, False),
        ],
    )  # fmt: skip
    def test_the_policy_says_whether_it_is_retried(self, children, name, payload, wanted):
        assert run(children, name, payload).task_failure.wanted is wanted

    @pytest.mark.parametrize(
        ("name", "category", "message"),
        [
            ("not_a_task", "configuration", "is not a task or a function"),
            ("nowhere", "unknown", "nowhere"),
        ],
    )
    def test_what_cannot_be_run_is_refused(self, children, name, category, message):
        failure = run(children, name).task_failure.failure

        assert failure.category == category
        assert message in failure.message

    def test_a_payload_that_cannot_be_read_is_an_error_of_its_own(self, children):
        for text in ("{", '{"value":1,"more":2}'):
            verdict = children.run(FunctionRef("child_tasks", "echo"), text, timeout=20, context={}).task_failure
            assert (verdict.failure.exception_name, verdict.wanted) == ("PayloadError", False)

    def test_output_does_not_disturb_and_is_passed_on(self, children, capfd):
        assert value_of(run(children, "noisy")) == "kept"
        assert value_of(run(children, "echo", {"value": 2})) == 2
        children.close()
        said = capfd.readouterr().err
        for each in ("to stdout xxx", "to stderr", "forged", "from a grandchild"):
            assert each in said

    def test_large_payloads_and_results(self, children):
        assert len(value_of(run(children, "echo", {"value": "é" * 120_000}))) == 120_000


class TestSurroundings:
    def test_the_child_has_the_parents_path_and_directory(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "json.py").write_text("raise RuntimeError('not this one')")
        (tmp_path / "only_here.py").write_text("def give(): return 5")
        monkeypatch.chdir(tmp_path)
        sys.path.remove(str(tmp_path))

        seen = value_of(run(children, "environment"))

        assert (seen["cwd"], seen["path"], seen["argv"], seen["stdin"]) == (str(tmp_path), sys.path, sys.argv, "")
        children.close()
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "json.py").unlink()
        other = ChildPool(1)
        assert value_of(other.run(FunctionRef("only_here", "give"), "{}", timeout=20, context={"keep": True})) == 5
        other.close()

    def test_the_current_task_is_known_there(self, children):
        claimed = [7, 1, "echo", "{}", 2, 1, None, None, 0.0, True, False]

        assert value_of(run(children, "current", claimed=claimed)) == [7, 2]
        assert value_of(run(children, "current")) is None

    def test_context_variables_do_not_leak_into_the_next_call(self, children):
        assert [value_of(run(children, "leave_behind")) for _ in range(2)] == ["nothing", "nothing"]

    @POSIX
    def test_an_interrupt_is_the_parents_business(self, children):
        assert value_of(run(children, "interrupted")) == "still here"

    @POSIX
    def test_functions_of_the_program_itself(self, tmp_path):
        script = tmp_path / "program.py"
        script.write_text(
            textwrap.dedent("""
            from dataclasses import dataclass
            from outlast.queue.child_process import ChildPool, function_ref

            @dataclass
            class Box:
                size: int

            def double(box: Box) -> Box:
                return Box(box.size * 2)

            if __name__ == "__main__":
                children = ChildPool(1)
                print(children.run(function_ref(double), '{"box":{"size":4}}', timeout=20, context={"keep": True}).text)
                children.close()
            """)
        )
        for command in ([str(script)], ["-m", "program"]):
            done = subprocess.run(
                [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.stdout, done.stderr) == ('{"size":8}\n', "")

    def test_a_program_without_a_guard_does_not_start_itself_again(self, tmp_path):
        script = tmp_path / "program.py"
        script.write_text(
            textwrap.dedent("""
            from outlast.queue.child_process import ChildPool, function_ref

            def task():
                return 1

            children = ChildPool(1)
            print(children.run(function_ref(task), "{}", timeout=20, context={}).task_failure.failure)
            children.close()
            """)
        )
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)

        assert "ConfigurationError (configuration)" in done.stdout
        assert "if __name__ == '__main__'" in done.stdout

    def test_what_no_other_process_can_find_is_refused(self):
        with pytest.raises(ConfigurationError, match="inside a function"):
            function_ref(lambda: ...)
        code = "from outlast.queue.child_process import function_ref\ndef f(): ...\nfunction_ref(f)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert "is not defined in a file" in done.stderr


class TestEnds:
    @POSIX
    def test_a_signal_ends_what_a_task_forks(self, children):
        assert value_of(run(children, "end_of_fork", {"number": signal.SIGTERM})) == signal.SIGTERM

    def test_a_timeout_kills(self, children):
        first = value_of(run(children, "pid"))
        began = time.monotonic()

        assert run(children, "sleep", {"seconds": 600}, timeout=0.3) == TimedOut(0.3)
        assert time.monotonic() - began < 60
        assert is_gone(first)
        assert value_of(run(children, "pid")) != first

    @POSIX
    def test_a_timeout_kills_what_the_task_had_started(self, children, tmp_path):
        note = tmp_path / "pid"

        assert run(children, "sleep_with_grandchild", {"note": str(note)}, timeout=2.0) == TimedOut(2.0)
        assert is_gone(wait_for(note))

    def test_loading_is_not_counted(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "slow_to_load.py").write_text("import time; time.sleep(1.5)\ndef give(): return 5")

        reply = children.run(FunctionRef("slow_to_load", "give"), "{}", timeout=1.0, context={"keep": True})

        assert value_of(reply) == 5

    def test_loading_has_a_limit_too(self, children, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(child_module, "_LOAD_SECONDS", 0.5)
        (tmp_path / "never_loads.py").write_text("import time; time.sleep(600)")

        assert children.run(FunctionRef("never_loads", "give"), "{}", timeout=9, context={}) == TimedOut(0.5)

    def test_a_process_that_ends_is_told_with_its_last_words(self, children):
        assert run(children, "vanish", {"code": 3}) == Died(3, "the password=*** was taken\n")
        assert value_of(run(children, "echo", {"value": 1})) == 1

    @POSIX
    def test_a_signal_is_a_negative_code(self, children):
        assert run(children, "murdered") == Died(-signal.SIGKILL, "")
        crashed = run(children, "crash")
        assert crashed.code == -signal.SIGSEGV
        assert "child_tasks.py" in crashed.stderr

    @POSIX
    def test_a_fork_that_holds_the_pipe_does_not_hold_us(self, children, tmp_path):
        note = tmp_path / "pid"

        assert run(children, "fork_and_vanish", {"note": str(note)}).code == 4
        assert is_gone(wait_for(note))

    def test_sys_exit_ends_the_task_alone(self, children):
        first = value_of(run(children, "pid"))

        assert run(children, "leave").task_failure.failure.exception_name == "SystemExit"
        assert value_of(run(children, "pid")) == first

    @POSIX
    def test_one_that_died_while_idle_is_replaced_and_leaves_no_zombie(self, children):
        first = value_of(run(children, "pid"))
        os.kill(first, signal.SIGKILL)

        second = value_of(run(children, "pid")) if is_gone(first) else None

        assert second not in {None, first}
        with pytest.raises(ChildProcessError):
            os.waitpid(first, os.WNOHANG)

    @POSIX
    @pytest.mark.parametrize("name", ["sleep", "sleep_with_grandchild"])
    def test_a_killed_parent_takes_it_along(self, tmp_path, name):
        note = tmp_path / "pid"
        arguments = {"note": str(note)} | ({"seconds": 600} if name == "sleep" else {})
        code = f"""
import sys; sys.path.insert(0, {str(Path(child_tasks.__file__).parent)!r})
from outlast.queue.child_process import ChildPool
ChildPool(1).run(("child_tasks", {name!r}, None), {json.dumps(arguments)!r}, timeout=600, context={{}})
"""
        parent = subprocess.Popen([sys.executable, "-c", code])
        number = wait_for(note)

        parent.kill()
        parent.wait()

        assert is_gone(number)

    @POSIX
    def test_a_parent_that_leaves_without_closing_takes_it_along(self):
        code = f"""
import sys; sys.path.insert(0, {str(Path(child_tasks.__file__).parent)!r})
from outlast.queue.child_process import ChildPool
print(ChildPool(1).run(("child_tasks", "pid", None), "{{}}", timeout=60, context={{"keep": 1}}).text)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert is_gone(int(done.stdout))

    def test_closing_kills_what_runs_and_refuses_the_rest(self, tmp_path):
        children, note, replies = ChildPool(1), tmp_path / "pid", []
        arguments = {"seconds": 600, "note": str(note)}
        calls = [threading.Thread(target=lambda: replies.append(run(children, "sleep", arguments))) for _ in range(2)]
        for call in calls:
            call.start()
        number = wait_for(note)

        children.close()
        for call in calls:
            call.join(10)

        assert sorted(reply.code is None for reply in replies) == [False, True]
        assert all(isinstance(reply, Died) for reply in replies)
        assert is_gone(number)
        assert run(children, "pid") == Died(None, "")
        children.close()

    def test_closing_does_not_wait_for_threads_of_a_task_for_ever(self, monkeypatch):
        monkeypatch.setattr(child_module, "_GRACE_SECONDS", 0.3)
        children = ChildPool(1)
        number = value_of(run(children, "busy_thread"))

        children.close()

        assert is_gone(number)


class TestReuse:
    def test_the_same_process_runs_one_call_after_the_other(self, children):
        assert len({value_of(run(children, "pid")) for _ in range(5)}) == 1

    def test_many_calls_from_many_threads(self, children):
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda number: value_of(run(children, "echo", {"value": number})), range(200)))
            numbers = set(pool.map(lambda _: value_of(run(children, "pid")), range(20)))

        assert replies == list(range(200))
        assert len(numbers) <= 4

    @POSIX
    def test_memory_and_files_stay_flat_over_a_thousand_calls(self, children):
        def measured():
            for _ in range(50):
                run(children, "echo", {"value": "x" * 1000})
                run(children, "own")
            return value_of(run(children, "memory"))

        before = measured()
        files, threads = len([*Path("/proc/self/fd").iterdir()]), threading.active_count()
        for _ in range(10):
            after = measured()

        assert after - before < 3000  # KiB
        assert len([*Path("/proc/self/fd").iterdir()]) <= files
        assert threading.active_count() <= threads


class TestVerdict:
    @pytest.mark.parametrize(
        ("error", "retry_on", "wanted"),
        [
            (ConnectionError(), None, True), (ValueError(), None, False), (RetryableError("x"), None, True), (PermanentError("x"), None, False),
            (ConnectionError(), RETRYABLE, True), (ValueError(), RETRYABLE, False), (ValueError(), (ValueError,), True),
            (ConnectionError(), ValueError, False), (ConnectionError(), (), False), (NetworkError("x"), {"network"}, True),
            (NetworkError("x"), {"rate_limit"}, False), (ValueError("x"), lambda error: "x" in str(error), True),
            (ValueError("x"), lambda error: error.nothing, None), (KeyboardInterrupt(), BaseException, False),
            (PermanentError("x"), (PermanentError,), True),
        ],
    )  # fmt: skip
    def test_says_whether_this_kind_is_retried(self, error, retry_on, wanted):
        assert task_failure_of(error, RetryPolicy(retry_on=retry_on, max_attempts=1)).wanted is wanted

    def test_survives_json(self):
        verdict = task_failure_of(NetworkError("häß \ud800", retry_after=3), RetryPolicy())

        copy = TaskFailure.from_dict(json.loads(json.dumps(verdict.to_dict())))

        assert copy == verdict
        assert copy.failure.fingerprint == verdict.failure.fingerprint
