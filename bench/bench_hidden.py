"""How fast chains mix where the states hide: `python bench/bench.py hidden`.

Three, four and five Gaussians that overlap, their means and scales learned with the chain, 200 walks
of 40 steps of which half are seen. `fit_gaps` and `fit_matching`, which take turns or sum out the
states, beside NUTS of numpyro, which samples the same posterior as `fit_gaps` with the states summed
out: the thinned chain `R(T, psi)`, a scan over the observations of all lists side by side, automatic
differentiation, compiled. One thread each, one run; the variable `STATES` ("4") names fewer problems.
The number reported is the least number of effective draws, of an entry of `T` and of a mean, for a
second of processor time after warm-up and compilation.
"""
import os
import time
import warnings
from itertools import product

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
import numpy as np
from arviz_stats.base import array_stats

import hmmop_nb as hm

PSI = .5
PRIOR = hm.Prior(means=(3., 5.), scales=(2., 2.))
CHAINS = 2
STATES = [int(n) for n in os.environ.get("STATES", "3 4 5").split()]
RUNS = {"collapsed": (2000, 500), "marginal": (400, 200)} # draws and warm-up


def problem(n_states):
    "A chain with two successors for each state, and Gaussians two standard deviations apart."
    chain = hm.degree_chain(n_states, 2, psi=PSI, seed=3)
    model = hm.HMMOP(chain.T, chain.start, hm.Gaussian(2. * np.arange(n_states), 1.), PSI)
    return model, model.sample(200, 40, seed=4)


def worst(draws):
    "Least effective draws and largest R-hat of the last axes of `(chain, draw, ...)`."
    flat = np.ascontiguousarray(np.asarray(draws, float).reshape(*np.shape(draws)[:2], -1))
    return (float(array_stats.ess(flat, chain_axis=0, draw_axis=1).min()),
            float(array_stats.rhat(flat, chain_axis=0, draw_axis=1).max()))


def row(n_states, how, T, means, seconds):
    "What is written down about a run."
    (ess_T, rhat_T), (ess_means, rhat_means) = worst(T), worst(means)
    found = dict(states=n_states, how=how, draws=T.shape[0] * T.shape[1], seconds=f"{seconds:.2f}",
                 ess_T=f"{ess_T:.0f}", ess_means=f"{ess_means:.0f}",
                 rhat=f"{max(rhat_T, rhat_means):.3f}", T_per_second=f"{ess_T / seconds:.2f}",
                 means_per_second=f"{ess_means / seconds:.2f}")
    print(found, flush=True)
    return found


def ours(n_states, method, variant, draws, warmup):
    "A run of `fit_gaps` or `fit_matching`; the seconds of its warm-up are taken off."
    model, data = problem(n_states)

    def fit(draws):
        told = dict(n_states=n_states, psi=PSI, prior=PRIOR, init=model, chains=CHAINS, seed=0,
                    draws=draws, warmup=warmup, variant=variant, progress=False)
        begin = time.process_time()
        if method == "gaps": found = hm.fit_gaps(data.sequences, **told)
        else: found = hm.fit_matching(data.sequences, data.n_steps, **told)
        return found, time.process_time() - begin

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(1) # compiles
        before, (found, seconds) = fit(1)[1], fit(draws)
    found = found.relabel(model)
    return row(n_states, f"fit_{method}, {variant}", found.T, found.emission["means"], seconds - before)


def padded(sequences):
    "Observations of all lists, `(longest, n)`, and which of them there are."
    longest, n = int(sequences.lengths.max()), len(sequences)
    values, there = np.zeros((longest, n)), np.zeros((longest, n), bool)
    for i in range(n):
        values[:len(sequences[i]), i] = sequences[i]
        there[:len(sequences[i]), i] = True
    return values, there


def nuts_model(values, there, S):
    "The posterior with states and gaps summed out, as a model of numpyro."
    import jax.numpy as jnp
    import numpyro
    from jax import lax
    from numpyro import distributions as dist

    def model():
        T = numpyro.sample("T", dist.Dirichlet(jnp.ones((S, S))).to_event(1))
        start = numpyro.sample("start", dist.Dirichlet(jnp.ones(S)))
        means = numpyro.sample("means", dist.Normal(*PRIOR.means).expand([S]).to_event(1))
        variances = numpyro.sample(
            "variances", dist.InverseGamma(*PRIOR.scales).expand([S]).to_event(1))
        R = jnp.linalg.solve(jnp.eye(S) - PSI * T, (1 - PSI) * T)
        r0 = start * (1 - PSI) + PSI * start @ R
        logs = -.5 * ((values[..., None] - means)**2 / variances + jnp.log(variances))
        top = logs.max(-1)
        b = jnp.where(there[..., None], jnp.exp(logs - top[..., None]), 1.)

        def step(carry, seen):
            before, total = carry
            weight, here = seen
            after = before @ R * weight
            size = after.sum(-1)
            after = jnp.where(here[:, None], after / size[:, None], before)
            return (after, total + jnp.where(here, jnp.log(size), 0.)), None

        first = r0 * b[0]
        size = first.sum(-1)
        begun = (first / size[:, None], jnp.where(there[0], jnp.log(size), 0.))
        (_, total), _ = lax.scan(step, begun, (b[1:], there[1:]))
        numpyro.factor("seen", total.sum() + jnp.where(there, top, 0.).sum())
    return model


def nuts(n_states, draws=400, warmup=300):
    "A run of NUTS from the truth, warm-up and compilation not counted."
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS, init_to_value

    model, data = problem(n_states)
    begin = init_to_value(values=dict(T=.9 * model.T + .1 / n_states, start=model.start,
                                      means=model.emission.means,
                                      variances=model.emission.scales**2))
    kept, seconds = [], 0.
    for chain in range(CHAINS):
        kernel = NUTS(nuts_model(*padded(data.sequences), n_states), init_strategy=begin)
        run = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        run.warmup(jax.random.PRNGKey(chain))
        run.run(jax.random.PRNGKey(chain + 100)) # compiles
        clock = time.process_time()
        run.run(jax.random.PRNGKey(chain + 200))
        kept.append({name: np.asarray(x) for name, x in run.get_samples().items()})
        seconds += time.process_time() - clock
    T, means = (np.array([each[name] for each in kept]) for name in ("T", "means"))
    return row(n_states, f"NUTS of numpyro {numpyro.__version__}", T, means, seconds)


def hidden():
    "All ways for each number of states, in one run."
    for n_states in STATES:
        for method, (variant, run) in product(("gaps", "matching"), RUNS.items()):
            yield ours(n_states, method, variant, *run)
        yield nuts(n_states)
