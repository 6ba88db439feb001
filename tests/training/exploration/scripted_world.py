"""A world whose policy is a script: which sample of which problem is right, and what it earns."""

from dataclasses import replace

import numpy as np

from entropy_lab.engines.protocol import Request, Sampling, Trajectory, trajectory_seed
from entropy_lab.tasks.protocol import Grade, Problem
from entropy_lab.training.rollout import Rollout


class ScriptedWorld:
    """`right(problem number, sample index)` is True, False or None (the grader failed); `reward(rollout)` is optional.

    `shuffle` gives the order in which rollouts come back.
    """

    checkpoint = None
    task = None
    sampling = Sampling()
    seed = 0
    prompt = "auto"
    iteration = 7

    def __init__(self, right, size=1000, reward=None, shuffle=None):
        self.right, self.size, self.reward, self.shuffle = right, size, reward, shuffle
        self.asked = []

    def problems_at(self, position, count):
        return [Problem(f"p{place % self.size}", "?") for place in range(position, position + count)]

    def request(self, problem, count, **fields):
        request = Request(problem.id, (5, int(problem.id[1:])), count, **fields)
        return replace(request, stream=f"{self.iteration} {request.stream}")

    def sample(self, requests, groups):
        self.asked += requests
        rollouts = [
            self.rollout(request, index, group)
            for request, group in zip(requests, groups, strict=True)
            for index in range(request.first_sample, request.first_sample + request.count)
        ]
        rollouts = [one for one in rollouts if one.grade.correct is not None]
        return rollouts if self.shuffle is None else self.shuffle(rollouts)

    def rollout(self, request, index, group):
        right = self.right(int(request.problem_id[1:]), index)
        trajectory = Trajectory(
            request.problem_id,
            index,
            request.stream,
            trajectory_seed(0, request.problem_id, request.stream, index),
            request.prompt_ids,
            np.array([3, 1], np.int32),
            "stop",
            1.0,
        )
        made = Rollout(trajectory, "", Grade(right, "scripted"), group, index)
        value = self.reward(made) if self.reward else float(right is True)
        return replace(made, rewards=(value,), reward=value)
