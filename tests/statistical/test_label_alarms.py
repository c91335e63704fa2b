"""Labels put into the samplers wrongly on purpose, one mistake each: the joint distribution test must catch every one.

Each mistake is a kernel that is given other labels than it should be.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from pmlda.engines import gibbs_steps, gibbs_tuning, paper
from pmlda.types import Labels
from tests.problems import PROBLEMS, Observer
from tests.statistical.adapters import Gibbs, Paper
from tests.statistical.checks import ALARM, FULL, joint_scores

# Most mistakes show with few chains; the others get more. Four looks at 30 numbers: a false alarm has 7e-5.
N_CHAINS = (1_000,) if FULL else (60, 125, 250, 500)
PLAIN = PROBLEMS["gaussian isotropic"]
SURE = PLAIN._replace(of_words=Observer(3, 0.8, 0.0))
# Of three topics, "one of these two" is not a matter of counts.
VAGUE = PLAIN._replace(n_topics=3, alpha=(1.5, 1.5, 1.5), of_words=Observer(3, 0.8, 1.0))
REGIONS = PLAIN._replace(of_documents=Observer(3, 0.8, 0.0))
MODULE_OF = {
    "document_step": "kernels",
    "transfer_step": "kernels",
    "draw_candidates": "kernels_candidates",
    "stretch_step": "kernels_stretch",
}
STEPS = {"paper": ("word_step", "word_prior_step"), "gibbs": ("draw_candidates", "stretch_step", "transfer_step")}


def with_labels(kernel, change):
    """The kernel with other labels of words."""

    def wrong(*arguments):
        return kernel(*(change(each) if isinstance(each, Labels) else each for each in arguments))

    return wrong


def with_prior(kernel, change):
    """The kernel with another prior of documents."""

    def wrong(*arguments):
        kinds = [type(each).__name__ for each in arguments]
        return kernel(
            *(change(each) if kind == "DocumentPrior" else each for kind, each in zip(kinds, arguments, strict=True))
        )

    return wrong


def break_steps(monkeypatch, engine, names, wrong, change):
    """The engine with wrong kernels in place of these."""
    if engine == "paper":
        kernels = {name: wrong(getattr(paper.COMPILED, name), change) for name in names}
        return Paper(SimpleNamespace(**vars(paper.COMPILED) | kernels), prior_steps=int("word_prior_step" in names))
    for name in names:
        module = getattr(gibbs_steps, MODULE_OF[name])
        broken = SimpleNamespace(**vars(module) | {name: wrong(getattr(module, name), change)})
        monkeypatch.setattr(gibbs_steps, MODULE_OF[name], broken)
    return Gibbs(n_candidates=10)


def twice(labels):
    return labels._replace(counts=2.0 * labels.counts, strength=2.0 * labels.strength)


def forgotten(labels):
    """Labels that say nothing, under the same numbers."""
    return labels._replace(counts=0.0 * labels.counts, strength=0.0 * labels.strength)


def sum_of_logs(labels):
    """ "One of these" as if it were "each of these"."""
    counts = labels.counts + labels.strength[:, None] * labels.any_of
    return labels._replace(counts=counts, any_of=0.0 * labels.any_of, strength=0.0 * labels.strength)


@pytest.mark.parametrize("engine", STEPS)
def test_labels_counted_twice_are_caught(engine, monkeypatch):
    check(SURE, break_steps(monkeypatch, engine, STEPS[engine], with_labels, twice))


@pytest.mark.parametrize(("engine", "step"), [(engine, step) for engine in STEPS for step in STEPS[engine]])
def test_labels_forgotten_in_one_move_are_caught(engine, step, monkeypatch):
    if step == "draw_candidates":  # exchanges would undo most of what goes wrong there
        monkeypatch.setattr(gibbs_tuning, "TRANSFER_ROUNDS", 0)
    check(SURE, break_steps(monkeypatch, engine, [step], with_labels, forgotten))


@pytest.mark.parametrize("engine", STEPS)
def test_one_of_these_as_a_sum_of_logarithms_is_caught(engine, monkeypatch):
    check(VAGUE, break_steps(monkeypatch, engine, STEPS[engine], with_labels, sum_of_logs))


@pytest.mark.parametrize("engine", STEPS)
def test_labels_of_words_that_documents_see_too_are_caught(engine, monkeypatch):
    """As if the labels of its words had been drawn from a document's proportions."""
    latest = {}
    right = paper.Cut.prior

    def remember(self, *arguments):
        latest["documents"] = self.documents
        return right(self, *arguments)

    monkeypatch.setattr(paper.Cut, "prior", remember)

    def see_words(prior):
        documents = latest["documents"]
        told = documents.told
        sums = np.add.reduceat(told.counts[told.row], documents.starts[:-1], axis=0)
        nothing = np.zeros((1, sums.shape[1]))
        counts = np.concatenate([nothing, sums])
        rows = 1 + np.arange(len(sums))
        return prior._replace(labels=Labels(rows, counts, 0.0 * counts, np.zeros(len(counts))))

    check(SURE, break_steps(monkeypatch, engine, ["document_step"], with_prior, see_words))


@pytest.mark.parametrize(
    ("engine", "step"), [("paper", "document_step"), ("gibbs", "document_step"), ("gibbs", "stretch_step")]
)
def test_labels_of_documents_forgotten_in_one_move_are_caught(engine, step, monkeypatch):
    def forget(prior):
        return prior._replace(labels=forgotten(prior.labels))

    check(REGIONS, break_steps(monkeypatch, engine, [step], with_prior, forget))


def check(problem, engine):
    """The joint distribution test raises an alarm."""
    n_rounds = 5 if isinstance(engine, Paper) else 3
    for n_chains in N_CHAINS:
        scores = joint_scores(problem, n_chains, n_rounds=n_rounds, engine=engine)
        if np.abs(scores).max() > ALARM:
            break
    print(f"{np.abs(scores).max():.1f} standard errors with {n_chains} chains")
    assert np.abs(scores).max() > ALARM
