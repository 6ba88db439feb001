"""entropy-lab: did this checkpoint lose breadth, where inside the trajectory, and what brings it back?

The public names, in the order of the data: checkpoint → problems → trajectories → token statistics → diagnosis.
Each is imported when first used, so that `import entropy_lab` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
    from entropy_lab.diagnostics.decision_points import Rule, decision_blocks
    from entropy_lab.diagnostics.summary import summarise
    from entropy_lab.engines import open_engine
    from entropy_lab.engines.protocol import Request, Sampling, Trajectory
    from entropy_lab.errors import InputError
    from entropy_lab.interventions.checkpoint_pair import Cell, open_pair
    from entropy_lab.interventions.interpolation import write_cell
    from entropy_lab.prompts import encode_prompt
    from entropy_lab.rollouts import Rollouts
    from entropy_lab.scoring import token_statistics
    from entropy_lab.scoring.teacher_forced import score
    from entropy_lab.scoring.teacher_forced_pair import score_pair
    from entropy_lab.tasks.loading import load_task
    from entropy_lab.tasks.protocol import Grade, Problem, Task
    from entropy_lab.training.pipeline import load_pipeline
    from entropy_lab.training.recipe_files import load_recipe
    from entropy_lab.workflows.analyze_checkpoint import Plan, analyze_checkpoint
    from entropy_lab.workflows.analyze_rollouts import analyze_rollouts
    from entropy_lab.workflows.coverage import CoveragePlan, coverage
    from entropy_lab.workflows.force import ForcePlan, force
    from entropy_lab.workflows.interpolate import InterpolatePlan, interpolate_grid
    from entropy_lab.workflows.monitor import MonitorPlan, monitor
    from entropy_lab.workflows.pipeline import run_pipeline
    from entropy_lab.workflows.probe_entropy_change import EntropyPlan, probe_entropy_change
    from entropy_lab.workflows.probe_numerics import ProbePlan, probe_numerics
    from entropy_lab.workflows.shift import ShiftPlan, shift
    from entropy_lab.workflows.train import train

_HOMES = {
    "Checkpoint": "checkpoints",
    "load_checkpoint": "checkpoints",
    "save_checkpoint": "checkpoints",
    "Task": "tasks.protocol",
    "Problem": "tasks.protocol",
    "Grade": "tasks.protocol",
    "load_task": "tasks.loading",
    "encode_prompt": "prompts",
    "Request": "engines.protocol",
    "Sampling": "engines.protocol",
    "Trajectory": "engines.protocol",
    "open_engine": "engines",
    "Rollouts": "rollouts",
    "token_statistics": "scoring",
    "score": "scoring.teacher_forced",
    "Rule": "diagnostics.decision_points",
    "decision_blocks": "diagnostics.decision_points",
    "summarise": "diagnostics.summary",
    "Plan": "workflows.analyze_checkpoint",
    "analyze_checkpoint": "workflows.analyze_checkpoint",
    "analyze_rollouts": "workflows.analyze_rollouts",
    "CoveragePlan": "workflows.coverage",
    "coverage": "workflows.coverage",
    "ForcePlan": "workflows.force",
    "force": "workflows.force",
    "ShiftPlan": "workflows.shift",
    "shift": "workflows.shift",
    "InterpolatePlan": "workflows.interpolate",
    "interpolate_grid": "workflows.interpolate",
    "Cell": "interventions.checkpoint_pair",
    "open_pair": "interventions.checkpoint_pair",
    "write_cell": "interventions.interpolation",
    "score_pair": "scoring.teacher_forced_pair",
    "load_recipe": "training.recipe_files",
    "train": "workflows.train",
    "load_pipeline": "training.pipeline",
    "run_pipeline": "workflows.pipeline",
    "MonitorPlan": "workflows.monitor",
    "monitor": "workflows.monitor",
    "EntropyPlan": "workflows.probe_entropy_change",
    "probe_entropy_change": "workflows.probe_entropy_change",
    "ProbePlan": "workflows.probe_numerics",
    "probe_numerics": "workflows.probe_numerics",
    "InputError": "errors",
}

__all__ = [
    "Cell",
    "Checkpoint",
    "CoveragePlan",
    "EntropyPlan",
    "ForcePlan",
    "Grade",
    "InputError",
    "InterpolatePlan",
    "MonitorPlan",
    "Plan",
    "ProbePlan",
    "Problem",
    "Request",
    "Rollouts",
    "Rule",
    "Sampling",
    "ShiftPlan",
    "Task",
    "Trajectory",
    "analyze_checkpoint",
    "analyze_rollouts",
    "coverage",
    "decision_blocks",
    "encode_prompt",
    "force",
    "interpolate_grid",
    "load_checkpoint",
    "load_pipeline",
    "load_recipe",
    "load_task",
    "monitor",
    "open_engine",
    "open_pair",
    "probe_entropy_change",
    "probe_numerics",
    "run_pipeline",
    "save_checkpoint",
    "score",
    "score_pair",
    "shift",
    "summarise",
    "token_statistics",
    "train",
    "write_cell",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'entropy_lab' has no attribute {name!r}")
    return getattr(import_module(f"entropy_lab.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
