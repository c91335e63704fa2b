"""Labels put into the samplers wrongly on purpose, one mistake each: the joint distribution test must catch every one.

Each mistake is a kernel that is given other labels than it should be.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from pmlda.engines import corpus, gibbs_steps, gibbs_tuning, paper
from pmlda.kernels.arguments import DocumentPrior
from pmlda.types import Labels
from tests.problems import PROBLEMS, Observer
from tests.statistical import adapters
from tests.statistical.adapters import Gibbs, Paper
from tests.statistical.checks import ALARM, FULL, joint_scores

# Most mistakes show with few chains; the others get more. Four looks at 30 numbers: a false alarm has 3e-4.
N_CHAINS = (1_000,) if FULL else (60, 125, 250, 500)
PLAIN = PROBLEMS["gaussian isotropic"]
SURE = PLAIN._replace(of_words=Observer(3, 1.0, 0.0))
# Of three topics, "one of these two" is not a matter of counts.
VAGUE = PLAIN._replace(n_topics=3, alpha=(1.5, 1.5, 1.5), of_words=Observer(3, 1.0, 1.0))
REGIONS = PLAIN._replace(of_documents=Observer(3, 1.0, 0.0))
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
        return kernel(*(change(each) if isinstance(each, DocumentPrior) else each for each in arguments))

    return wrong


def break_steps(monkeypatch, engine, names, wrong, change):
    """The engine with wrong kernels in place of these, and without later moves that would undo most of what they do."""
    if "draw_candidates" in names:
        monkeypatch.setattr(gibbs_tuning, "TRANSFER_ROUNDS", 0)
    if "document_step" in names:
        monkeypatch.setattr(adapters, "STRETCH_LENGTH", 0.0)
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
    """Labels that say "one of these" as if they said "each of these"."""
    counts = labels.counts + labels.strength[:, None] * labels.any_of
    return labels._replace(counts=counts, any_of=0.0 * labels.any_of, strength=0.0 * labels.strength)


@pytest.mark.parametrize("engine", STEPS)
def test_labels_counted_twice_are_caught(engine, monkeypatch):
    check(SURE, break_steps(monkeypatch, engine, STEPS[engine], with_labels, twice))


@pytest.mark.parametrize(("engine", "step"), [(engine, step) for engine in STEPS for step in STEPS[engine]])
def test_labels_forgotten_in_one_move_are_caught(engine, step, monkeypatch):
    check(SURE, break_steps(monkeypatch, engine, [step], with_labels, forgotten))


@pytest.mark.parametrize("engine", STEPS)
def test_one_of_these_as_a_sum_of_logarithms_is_caught(engine, monkeypatch):
    check(VAGUE, break_steps(monkeypatch, engine, STEPS[engine], with_labels, sum_of_logs))


@pytest.mark.parametrize("engine", STEPS)
def test_labels_of_words_that_documents_see_too_are_caught(engine, monkeypatch):
    """As if the labels of its words had been drawn from a document's proportions."""
    seen, right = {}, corpus.Cut.prior

    def remember(self, *arguments):
        seen["documents"] = self.documents
        return right(self, *arguments)

    def see_words(prior):
        told, starts = seen["documents"].told, seen["documents"].starts
        counts = np.add.reduceat(told.counts[told.row], starts[:-1], axis=0)
        return prior._replace(labels=Labels(np.arange(len(counts)), counts, 0.0 * counts, np.zeros(len(counts))))

    monkeypatch.setattr(corpus.Cut, "prior", remember)
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


@pytest.mark.parametrize("problem", [SURE, VAGUE, REGIONS], ids=["sure", "vague", "regions"])
@pytest.mark.parametrize("engine", STEPS)
def test_engines_without_a_mistake_pass(engine, problem, monkeypatch):
    """Without the moves that are left out above, and with labels as they are. 6 times 30 numbers: 1e-3."""
    names = [*STEPS[engine], "document_step"]
    right = break_steps(monkeypatch, engine, names, with_labels, lambda labels: labels)
    scores = joint_scores(problem, N_CHAINS[0], n_rounds=3, engine=right)
    print(f"no mistake: {np.abs(scores).max():.1f} standard errors")
    assert np.abs(scores).max() < ALARM, scores.round(1)
