"""Countdown: reach a target from given numbers, each used once; the whole solution space can be enumerated."""
