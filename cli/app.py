"""The `entropy-lab` application: its commands, and the one place where errors become exit codes.

Exit codes: 0 done, 1 something checked is not well, 2 wrong usage or broken input, 3 not enough to judge by, 4 training
stopped by a rule, 130 interrupted. Anything else that escapes is a fault of ours and shows its traceback.
"""

import sys

import typer

from entropy_lab.errors import InputError
from entropy_lab.tasks.grading import GraderFailure

from . import analyze, countdown, coverage, doctor, force, interpolate, monitor, probe, shift, train

INTERRUPTED = 130

app = typer.Typer(
    name="entropy-lab",
    help="Did this checkpoint lose breadth, where inside the trajectory, and what brings it back?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help starts in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(analyze.app, name="analyze")
app.command(name="coverage")(coverage.coverage)
app.command(name="force")(force.force)
app.command(name="shift")(shift.shift)
app.command(name="interpolate")(interpolate.interpolate)
app.add_typer(countdown.app, name="countdown")
app.command(name="train")(train.train)
app.command(name="monitor")(monitor.monitor)
app.add_typer(probe.app, name="probe")
app.command(name="doctor")(doctor.doctor)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        app()
    except (InputError, GraderFailure) as error:
        sys.stderr.write(f"entropy-lab: {error}\n")
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # Typer turns Ctrl-C into this exit
            sys.stderr.write("entropy-lab: interrupted; run the same command again to continue where it stopped.\n")
        raise
