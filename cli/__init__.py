"""The command line: thin files, one a command, over `entropy_lab`. Heavy imports happen inside commands."""

from .app import main

__all__ = ["main"]
