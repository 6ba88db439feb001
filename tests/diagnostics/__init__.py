"""Tests of the numeric core."""
