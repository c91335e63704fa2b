"""What effective sample size (ESS) per second does engine gibbs reach? Beside engine paper, and NUTS."""

import argparse
import time
import warnings

import numpy as np
from common import problem, where

from pmlda import PMLDA
from pmlda.engines.diagnostics import effective_sample_size

N_TOPICS = 3
SCALE_RATE = 0.5


def worst_sizes(means, spread, scales):
    """ESS of the worst of μ, of σ, and of ln s; one chain, so that no topics need to be aligned.

    What never moved is worth one draw.
    """
    sizes = []
    for draws in (means, spread, np.log(scales)):
        moved = np.ptp(draws, axis=0) > 0
        sizes.append(np.where(moved, effective_sample_size(np.asarray(draws)[None]), 1.0).min())
    return sizes


def ours(engine, words, document, warm_up, draws):
    """ESS, and the seconds of one core that the draws after warm-up took."""
    settings = {"engine": engine, "n_sweeps": warm_up + 1, "burn_in": warm_up, "draws_memory": 2**30}
    if engine == "gibbs":
        settings["n_chains"] = 1
    model = PMLDA(N_TOPICS, **settings, scale_rate=SCALE_RATE, random_state=0, n_jobs=1)
    model.fit(words, groups=document)
    start = time.process_time()
    model.fit(words, groups=document, extend=draws)
    seconds = time.process_time() - start
    kept = model.draws_
    return worst_sizes(kept.means[1:], kept.spread[1:], kept.scales[1:]), seconds


def nuts(words, document, latents, warm_up, draws):
    """NumPyro's NUTS on the model as anyone would write it, started at the truth; seconds of one core after warm-up."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS, init_to_value

    numpyro.enable_x64()
    n_words, p = words.shape
    n_documents = len(latents.scales)
    center, deviation = words.mean(axis=0), 5.0 * words.std(axis=0)

    def model():
        means = numpyro.sample("means", distributions.Normal(center, deviation).expand([N_TOPICS, p]).to_event(2))
        sigma = numpyro.sample("sigma", distributions.HalfNormal(10.0))
        with numpyro.plate("documents", n_documents):
            proportions = numpyro.sample("proportions", distributions.Dirichlet(jnp.ones(N_TOPICS)))
            scales = numpyro.sample("scales", distributions.Exponential(SCALE_RATE))
        with numpyro.plate("words", n_words):
            a = scales[document][:, None] * proportions[document]
            z = numpyro.sample("memberships", distributions.Dirichlet(a + 1e-6))
            numpyro.sample("x", distributions.Normal(z @ means, sigma).to_event(1), obs=words)

    def inside(shares, least):
        shares = np.maximum(shares, least)
        return shares / shares.sum(axis=1, keepdims=True)

    memberships = inside(latents.memberships, 1e-6)
    truth = {
        "means": np.linalg.lstsq(memberships, words, rcond=None)[0],
        "sigma": 1.0,
        "proportions": inside(np.exp(latents.log_proportions), 1e-3),
        "scales": latents.scales,
        "memberships": memberships,
    }
    chain = MCMC(
        NUTS(model, init_strategy=init_to_value(values=truth)),
        num_warmup=warm_up,
        num_samples=draws,
        progress_bar=False,
    )
    chain.warmup(jax.random.PRNGKey(0))
    start = time.process_time()
    chain.run(jax.random.PRNGKey(1))
    kept = {name: np.asarray(values) for name, values in chain.get_samples().items() if name != "memberships"}
    seconds = time.process_time() - start
    return worst_sizes(kept["means"], kept["sigma"], kept["scales"]), seconds


def row(name, seed, sizes, seconds, draws):
    per_second = min(sizes) / seconds
    shown = " | ".join(f"{size:.0f}" for size in sizes)
    print(f"| {name} | {seed} | {draws} | {seconds:.1f} | {shown} | {per_second:.2g} |", flush=True)
    return per_second


def table(n_words, n_documents, seeds, lengths, rival_lengths):
    print(f"\n## {n_words:,} words in {n_documents} documents, K = 3, p = 3\n")
    print("| sampler | seed | draws | seconds of one core | ESS of μ | of σ | of ln s | worst per second |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    for seed in range(seeds):
        documents, _, latents = problem(n_words, n_documents=n_documents, seed=seed)
        words, document = documents.words, documents.document
        exact, _ = (
            row(engine, seed, *ours(engine, words, document, *lengths), lengths[1]) for engine in ("gibbs", "paper")
        )
        rival = row("NUTS", seed, *nuts(words, document, latents, *rival_lengths), rival_lengths[1])
        ratios.append(exact / rival)
    print("\nEngine gibbs against NUTS: " + ", ".join(f"{ratio:.0f}" for ratio in ratios) + " times.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="problems of 500 words")
    parser.add_argument("--large", type=int, default=1, help="problems of 20,000 words, half an hour each")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"# Effective sample size per second\n\n{where()}\n")
    print("Each sampler on one core. ESS of the worst of all μ, all σ, all ln s.")
    table(500, 5, arguments.seeds, (1000, 20_000), (500, 1000))
    if arguments.large:
        table(20_000, 20, arguments.large, (1000, 3000), (100, 50))
