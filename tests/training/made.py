"""Rollouts made by hand."""

import numpy as np

from entropy_lab.engines.protocol import Trajectory
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.rollout import Rollout


def made_rollout(prompt, completion, prefix=(), *, group="g", reward=0.0, logprobs=None, index=0, state=None):
    return Rollout(
        trajectory=Trajectory(
            problem_id="p",
            sample_index=index,
            stream="",
            seed=0,
            prompt_ids=tuple(prompt),
            token_ids=np.array(completion, np.int32),
            finish_reason="stop",
            temperature=1.0,
            logprobs=None if logprobs is None else np.array(logprobs, np.float32),
        ),
        text="",
        grade=Grade(reward > 0, "made"),
        group=group,
        sample_index=index,
        prefix_ids=tuple(prefix),
        rewards=(reward,),
        reward_weights=(1.0,),
        reward=reward,
        state=state,
    )
