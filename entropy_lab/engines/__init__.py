"""Requests in, trajectories out; every engine behind one protocol."""
