"""Keep transformers' warnings and bars off stderr: what matters comes as an `InputError` or in the run's record."""

import contextlib
import io
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence transformers' logger and progress bars; both are as they were afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def shared_gguf_tables() -> Iterator[None]:
    """Read a GGUF's tables once a load instead of once a step, and hide the bar that dequantising draws.

    transformers parses the file anew for configuration, tokenizer and weights, and builds the same table of names
    for every module of the model; remembering both makes loading a 135 M parameter file two to three times faster.
    """
    import functools

    import gguf

    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader = functools.lru_cache(reader)  # type: ignore[misc,assignment]
    gguf.get_tensor_name_map = functools.lru_cache(names)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = reader, names  # type: ignore[misc]
