import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entropy_lab.tasks import grading_process
from entropy_lab.tasks.grading_process import GradingPool, GradingProcess

REQUEST = {"gold": "18", "several": False, "unit": None, "tolerance": None, "boxed": "18", "tail": ""}
DATA = Path(__file__).parents[1] / "data" / "math"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and /proc are looked at")


@pytest.fixture
def process():
    process = GradingProcess(time_limit=20)
    yield process
    process.close()


def running(pid):
    """Whether the process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_until_gone(pid):
    deadline = time.monotonic() + 20
    while running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.05)


def child_pid(process):
    return process._child._process.pid


def test_a_killed_child_is_replaced(process):
    """T6: the machine may kill the grader for memory at any time."""
    assert process.ask(REQUEST)["code"] == "correct"
    os.kill(child_pid(process), signal.SIGKILL)
    assert process.ask(REQUEST)["code"] == "correct"


def test_a_request_that_kills_the_child_twice_gives_an_error(process, monkeypatch):
    """T6"""
    send = grading_process._Child.send
    starts = []

    def send_and_kill(child, request):
        starts.append(child)
        os.kill(child._process.pid, signal.SIGSTOP)
        sent = send(child, request)
        os.kill(child._process.pid, signal.SIGKILL)
        return sent

    with monkeypatch.context() as patch:
        patch.setattr(grading_process._Child, "send", send_and_kill)
        assert process.ask(REQUEST) == {"code": "grader-error", "detail": "process died"}
    assert len(starts) == 2
    assert process.ask(REQUEST)["code"] == "correct"


def test_an_exception_in_the_child_is_reported_by_kind(process):
    assert process.ask({"gold": "18"}) == {"code": "grader-error", "detail": "KeyError"}
    assert process.ask(REQUEST)["code"] == "correct"


def test_an_interrupted_answer_never_answers_the_next_request(process, monkeypatch):
    process.ask(REQUEST)

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(process._child, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        process.ask(REQUEST)
    assert process.ask({**REQUEST, "boxed": "17"})["code"] == "wrong-value"


def test_close_leaves_no_process_and_asking_again_starts_one(process):
    process.ask(REQUEST)
    pid = child_pid(process)
    process.close()
    assert not Path(f"/proc/{pid}").exists(), "reaped, not a zombie"
    assert process.ask(REQUEST)["code"] == "correct"


def test_a_forgotten_process_ends_with_its_owner():
    process = GradingProcess(time_limit=20)
    process.ask(REQUEST)
    pid = child_pid(process)
    del process
    wait_until_gone(pid)


def test_a_grader_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr(grading_process, "PROGRAM", "raise SystemExit('no such module')")
    with pytest.raises(RuntimeError, match="does not start: no such module"):
        GradingProcess(time_limit=20).ask(REQUEST)


def test_the_pool_answers_in_order():
    pool = GradingPool(time_limit=20, processes=2)
    requests = [{**REQUEST, "boxed": str(number)} for number in range(40)]
    assert [reply["answer"] for reply in pool.ask_all(requests)] == [str(number) for number in range(40)]
    assert pool.ask_all([]) == []
    pool.close()


MAIN = """
import os, sys
from entropy_lab.tasks.mathematics import Mathematics
print("main runs")  # no __main__ guard: the child must not run this file again
task = Mathematics({path!r}, seconds_per_answer=3)
print(task.grade(task.problems()[0], "\\\\boxed{{18}}").code)
print(task._graders._processes[0]._child._process.pid)
sys.stdout.flush()
if "hang" in sys.argv:
    task.grade(task.problems()[0], "\\\\boxed{{10^{{10^{{10}}}}}}")
"""


def run_main(tmp_path, redirect=""):
    script = tmp_path / "main.py"
    script.write_text(MAIN.format(path=str(DATA / "gsm8k.jsonl")))
    # A file that would take the place of a standard module, were the working directory on the child's path.
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')")
    command = f"exec {sys.executable} -P -W error {script} {redirect}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.parametrize("redirect", ["", "<&-", "2>&-", "<&- 2>&-"])
def test_a_plain_script_works_even_with_closed_streams_and_leaves_nothing(tmp_path, redirect):
    greeting, code, pid, _ = run_main(tmp_path, redirect)
    assert (greeting, code) == ("main runs", "correct")
    wait_until_gone(pid)


def test_the_child_ends_when_its_parent_is_killed_while_it_computes(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(MAIN.format(path=str(DATA / "gsm8k.jsonl")))
    parent = subprocess.Popen([sys.executable, script, "hang"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = [parent.stdout.readline().strip() for _ in range(3)][-1]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until_gone(pid)


def test_a_forked_process_gets_a_grader_of_its_own(process):
    assert process.ask(REQUEST)["code"] == "correct"
    mine = child_pid(process)
    pid = os.fork()
    if pid == 0:
        try:
            fine = process.ask(REQUEST)["code"] == "correct" and child_pid(process) != mine
            process.close()
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert running(mine)
    assert process.ask(REQUEST)["code"] == "correct"
