"""The teacher of a run: another checkpoint that reads the same token ids."""

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.training.recipe import Teacher


def load_teacher(settings: Teacher, student: Checkpoint) -> Checkpoint:
    """Load the teacher on its own device.

    Raises:
        InputError: its vocabulary is not the student's.
    """
    teacher = load_checkpoint(
        settings.checkpoint,
        device=settings.device,
        dtype=settings.dtype,
        trust_remote_code=settings.trust_remote_code,
    )
    own, other = student.tokenizer.get_vocab(), teacher.tokenizer.get_vocab()
    if own != other:
        unlike = sorted(token for token in own.keys() | other.keys() if own.get(token) != other.get(token))
        first = unlike[0]
        raise InputError(
            f"teacher.checkpoint = {settings.checkpoint!r}: its tokenizer is not that of {student.name}: "
            f"{len(unlike):,} tokens differ, as {first!r} (id {other.get(first)} there, {own.get(first)} here); a "
            "teacher must read the same token ids."
        )
    return teacher
