"""Prompt variants: where the sentence goes, who is asked what, and what a template makes of it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.interventions.prompting import (
    VARIANTS,
    shared_out,
    variant_sentence,
    varied_requests,
    with_sentence,
)
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.countdown.task import Countdown, countdown_problem
from entropy_lab.tasks.protocol import Problem

PROBLEM = countdown_problem((3, 5, 5), 20)
TASK = Countdown((PROBLEM,))


def test_the_sentence_ends_the_request_and_the_problem_stays_the_last_paragraph():
    plain = TASK.messages(PROBLEM)
    (varied,) = with_sentence(plain, "Do it otherwise.")
    request, problem = plain[0]["content"].split("\n\n")
    assert varied == {"role": "user", "content": f"{request} Do it otherwise.\n\n{problem}"}
    assert plain == TASK.messages(PROBLEM), "the task's own messages are left as they are"


def test_messages_without_a_request_and_other_roles():
    messages = [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "first\n\nturn"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "3 5 to 8"},
    ]
    varied = with_sentence(messages, "Otherwise.")
    assert varied[:3] == messages[:3]
    assert varied[3]["content"] == "Otherwise.\n\n3 5 to 8"
    with pytest.raises(InputError, match="user message"):
        with_sentence(messages[:1], "Otherwise.")


def test_names_sentences_and_misspellings():
    assert variant_sentence("another-way") == VARIANTS["another-way"]
    assert variant_sentence("Begin with {number} please.") == "Begin with {number} please."
    with pytest.raises(InputError, match="did you mean many-ways"):
        variant_sentence("many-way")
    for wrong in ("", " ", "forced"):
        with pytest.raises(InputError, match="another-way, begin-with, many-ways"):
            variant_sentence(wrong)


def test_an_ordinary_template_shows_the_sentence(chat_checkpoint: Checkpoint):
    (plain,) = varied_requests(chat_checkpoint, TASK, PROBLEM, 8, "find first")
    assert plain.prompt_ids != encode_prompt(chat_checkpoint, TASK.messages(PROBLEM))
    found = chat_checkpoint.tokenizer.decode(plain.prompt_ids)
    assert "find first" in found
    assert (plain.problem_id, plain.count, plain.first_sample, plain.prefix_ids) == (PROBLEM.id, 8, 0, ())


def test_every_number_is_asked_for_by_its_share_of_samples(chat_checkpoint: Checkpoint):
    requests = varied_requests(chat_checkpoint, TASK, PROBLEM, 9, "use {number} first")
    assert [(one.first_sample, one.count) for one in requests] == [(0, 4), (4, 5)]
    texts = [chat_checkpoint.tokenizer.decode(one.prompt_ids) for one in requests]
    assert "use 3 first" in texts[0]
    assert "use 5 first" in texts[1]
    assert len(varied_requests(chat_checkpoint, TASK, PROBLEM, 1, "use {number} first")) == 1
    with pytest.raises(InputError, match="no `nums`"):
        varied_requests(chat_checkpoint, TASK, Problem("x", "3 + 4"), 2, "use {number} first")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_ladder_reads_the_problem_alone(variant):
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    (request,) = varied_requests(checkpoint, TASK, PROBLEM, 5, VARIANTS[variant])
    assert request.prompt_ids == encode_prompt(checkpoint, TASK.messages(PROBLEM))
    assert (request.count, request.first_sample) == (5, 0)


@given(st.integers(0, 200), st.integers(1, 40))
def test_shares_are_even_and_cover_every_sample_once(samples, parts):
    shares = shared_out(samples, parts)
    assert Counter(index for share in shares for index in share) == Counter(range(samples))
    assert len(shares) == parts
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
