"""`entropy-lab monitor`: verdict and exit code are one thing, for any log; a growing log is followed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import typer
from entropy_lab_cli.monitor import EXIT, monitor
from typer.testing import CliRunner

from entropy_lab.errors import InputError

ENTROPY_LAB = [sys.executable, "-c", "from entropy_lab_cli import main; main()", "monitor"]


def in_this_process(*arguments):
    app = typer.Typer()
    app.command()(monitor)
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def log_of(folder, entropies, reward=True):
    path = folder / "metrics.jsonl"
    rows = [
        {"step": step, "entropy.token_mean": value, **({"reward.mean": 1 - value / 2} if reward else {})}
        for step, value in enumerate(entropies, 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


STEADY = [0.5 - 0.0005 * step for step in range(160)]
LOGS = {
    "pass": STEADY,
    "fail": [0.5 * 0.98**step for step in range(160)],
    "not enough": STEADY[:60],
}


@pytest.mark.parametrize("verdict", LOGS)
def test_verdict_and_exit_code(tmp_path, verdict):
    path = log_of(tmp_path, LOGS[verdict])
    shown, document = in_this_process(path), in_this_process(path, "--json")
    assert shown.exit_code == document.exit_code == EXIT[verdict]
    assert f"verdict: {verdict}" in shown.stdout
    found = json.loads(document.stdout)
    assert found["verdict"] == verdict
    assert {alarm["name"] for alarm in found["alarms"]} == {"early drop", "collapse", "explosion"}
    assert found["ceiling"]["n"] == len(LOGS[verdict])


def test_an_explosion_rings_too(tmp_path):
    done = in_this_process(log_of(tmp_path, [0.2 * 1.01**step for step in range(160)]), "--json")
    alarms = {alarm["name"]: alarm["verdict"] for alarm in json.loads(done.stdout)["alarms"]}
    assert (done.exit_code, alarms["explosion"], alarms["early drop"]) == (1, "fail", "pass")


def test_the_rule_can_be_changed(tmp_path):
    path = log_of(tmp_path, STEADY[:60])
    assert in_this_process(path, "--last-step", 50).exit_code == 0
    assert in_this_process(path, "--last-step", 50, "--drop", 0.01).exit_code == 1
    with pytest.raises(InputError, match="--first-step 10 must lie before --last-step 5"):
        in_this_process(path, "--last-step", 5)


def test_without_reward_there_is_no_ceiling(tmp_path):
    assert "ceiling law: the log has no reward" in in_this_process(log_of(tmp_path, STEADY, reward=False)).stdout


def test_a_log_without_entropy_names_what_it_has(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "actor/h": 0.5}\n')
    with pytest.raises(InputError, match=r"--key entropy=NAME\. It has actor/h"):
        in_this_process(path)
    assert in_this_process(path, "--key", "entropy=actor/h").exit_code == 3


def test_an_empty_log_is_said(tmp_path):
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(InputError, match="holds no rows yet"):
        in_this_process(tmp_path / "log.jsonl")


def started(path, *options):
    return subprocess.Popen(
        [*ENTROPY_LAB, str(path), "--follow", "--every", "0.1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_a_growing_log_is_followed_until_an_alarm(tmp_path):
    process = started(tmp_path / "metrics.jsonl", "--json")  # which is not there yet
    time.sleep(0.5)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        for step, value in enumerate(LOGS["fail"], 1):
            file.write(json.dumps({"step": step, "entropy.token_mean": value}) + "\n")
            if step % 40 == 0:
                file.flush()
                os.fsync(file.fileno())
                time.sleep(0.3)
    out, seen = process.communicate(timeout=60)
    assert process.returncode == 1
    assert json.loads(out)["verdict"] == "fail"
    assert "entropy" in seen


def test_ctrl_c_ends_following_with_the_verdict(tmp_path):
    process = started(log_of(tmp_path, STEADY), "--json")
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["verdict"]) == (0, "pass")
