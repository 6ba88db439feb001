"""`shift.parquet`: every scored token of a `shift` run, with its log-prob at both checkpoints and their KL."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from entropy_lab.files import whole
from entropy_lab.scoring.teacher_forced_pair import PairScores
from entropy_lab.workflows.shift_texts import Text

TABLE = "shift.parquet"


def write_table(folder: Path, texts: Sequence[Text], scores: Sequence[PairScores]) -> None:
    """Write `shift.parquet`, one row a text; lists hold its completion's tokens, log-probs and KL in nats."""
    schema = pa.schema(
        {
            "problem_id": pa.string(),
            "text_index": pa.int32(),
            "family": pa.string(),
            "token_ids": pa.list_(pa.int32()),
            "logprob_early": pa.list_(pa.float32()),
            "logprob_late": pa.list_(pa.float32()),
            "kl": pa.list_(pa.float32()),
            "scaffold_length": pa.int32(),
            "entrance_length": pa.int32(),
        }
    )
    rows = [
        {
            "problem_id": text.problem_id,
            "text_index": text.index,
            "family": text.family,
            "token_ids": text.token_ids,
            "logprob_early": pair.first.logprob,
            "logprob_late": pair.second.logprob,
            "kl": pair.kl,
            "scaffold_length": text.split.start,
            "entrance_length": text.split.stop - text.split.start,
        }
        for text, pair in zip(texts, scores, strict=True)
    ]
    with whole(folder / TABLE) as partial:
        pq.write_table(pa.Table.from_pylist(rows, schema), partial, compression="zstd")
