"""`entropy-lab doctor`: what this machine has, what is missing, how to get it."""

from .options import Json


def doctor(json: Json = False) -> None:
    """Look at Python, torch, devices, memory, engines and versions. Exits 1 if something needed is broken."""
    from dataclasses import asdict

    import typer

    from entropy_lab.doctor import examine

    from .terminal import console, print_json

    findings = examine()
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for heading in ("", "what", "found", "to do"):
            table.add_column(heading, overflow="fold")
        for finding in findings:
            table.add_row(*map(Text, (finding.state, finding.name, finding.value, finding.remedy)))
        console().print(table)
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)
