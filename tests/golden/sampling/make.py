"""Makes the distributions beside this file: what may be drawn after each filter of generation, and how likely it is.

usage: make.py > distributions.json
Made with numpy 2.3.5. The formulas are those of the logits processors of transformers 5.24.0, in the order of its
_get_logits_processor: RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
MinPLogitsWarper. No two logits are equal: what is done about ties is ours to say.
"""
import json
import sys

import numpy

NEVER = -numpy.inf


def softmax(scores):
    weights = numpy.exp(scores - scores.max())
    return weights / weights.sum()


def repetition_penalty(scores, before, penalty):
    came = numpy.isin(numpy.arange(scores.size), before)
    return numpy.where(came, numpy.where(scores < 0, scores * penalty, scores / penalty), scores)


def top_k(scores, k):
    return numpy.where(scores < numpy.sort(scores)[-k], NEVER, scores)


def top_p(scores, p):
    """Removes, from the least likely on, what together has at most the probability 1 - p; never the likeliest."""
    order = numpy.argsort(scores)
    removed = numpy.cumsum(softmax(scores)[order]) <= 1 - p
    removed[-1] = False
    out = scores.copy()
    out[order[removed]] = NEVER
    return out


def min_p(scores, least):
    probabilities = softmax(scores)
    return numpy.where(probabilities < least * probabilities.max(), NEVER, scores)


def distribution(logits, before, settings):
    scores = numpy.array(logits)
    scores = repetition_penalty(scores, before, settings.get("repetition_penalty", 1.0))
    scores = scores / settings.get("temperature", 1.0)
    if settings.get("top_k", 0):
        scores = top_k(scores, min(settings["top_k"], scores.size))
    if settings.get("top_p", 1.0) < 1:
        scores = top_p(scores, settings["top_p"])
    if "min_p" in settings:
        scores = min_p(scores, settings["min_p"])
    return softmax(scores)


SETTINGS = [
    {}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.1}, {"min_p": 1.0},
    {"repetition_penalty": 1.3}, {"repetition_penalty": 0.8},
    {"temperature": 0.5, "min_p": 0.1}, {"temperature": 2.0, "min_p": 0.1},
    {"repetition_penalty": 1.5, "min_p": 0.2}, {"temperature": 1.5, "top_k": 7, "top_p": 0.9},
    {"top_k": 6, "min_p": 0.15}, {"top_p": 0.6, "min_p": 0.3},
    {"repetition_penalty": 1.2, "temperature": 0.8, "top_k": 8, "top_p": 0.95, "min_p": 0.05},
    {"repetition_penalty": 1.1, "temperature": 1.7, "top_k": 9, "top_p": 0.85, "min_p": 0.3},
]


def main():
    random = numpy.random.default_rng(7)
    cases = []
    for settings in SETTINGS:
        # Steps of 1/256 are the same number in fp32 and in fp64.
        logits = numpy.round(random.choice(2048, 16, replace=False) - 1024.0) / 256
        before = random.integers(0, 16, 6).tolist()
        cases.append({"settings": settings, "before": before, "logits": logits.tolist(),
                      "probabilities": distribution(logits, before, settings).tolist()})
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")


main()
