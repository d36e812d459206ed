"""How fast the ways to draw T from observed counts mix: `python bench/bench.py gaps`.

All of them have the same posterior: ten states, five successors each, 1,500 sequences of 80 steps,
keep 0.2, flat prior, observed states known. The number reported is the time for 1,000 effective
draws of the entry of T that mixes worst. NUTS is measured where numpyro is installed. Rows have the
format of `bench.py`.
"""
import os
import time

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
import numpy as np
from arviz_stats.base import array_stats

import hmmop_nb as hm
from hmmop_nb.engine.hamiltonian import Target, collapsed_update
from hmmop_nb.engine.stretches import free_stretches
from hmmop_nb.gaps import bridge_counts
from hmmop_nb.transforms import nearest_stochastic, unthin

WHAT = "1,000 effective draws of T, keep 0.2"


def problem(keep=.2):
    "Observed transitions, first states, the known start and psi, and where to begin."
    model = hm.degree_chain(psi=1 - keep, seed=0)
    data = model.sample(1500, 80, seed=1)
    n, f = np.zeros((10, 10), np.int64), np.zeros(10, np.int64)
    for states, places in zip(data.states, data.positions):
        seen = states[places]
        f[seen[:1]] += 1
        np.add.at(n, (seen[:-1], seen[1:]), 1)
    R = (n + .5) / (n + .5).sum(1, keepdims=True)
    T = nearest_stochastic(unthin(R, 1 - keep)) * .97 + .003
    return n, f, np.array(model.start), np.array(model.psi), T


def collapsed(n, f, start, psi, T, chain, sweeps, warmup):
    "Draws of the collapsed sampler, and the seconds they took after warm-up."
    concentrations = np.vstack([np.ones_like(T), np.zeros(len(T))])
    target = Target(concentrations, start, psi, free_stretches(n, f))
    rows, tuning, key, draws = np.log(np.vstack([T, start])), None, np.uint64(chain), []
    for sweep in range(warmup + sweeps):
        if sweep == warmup: begin = time.perf_counter()
        update = collapsed_update(rows, target, tuning, 64, key, sweep, sweep < warmup)
        rows, tuning = update.log_rows, update.tuning
        if sweep >= warmup: draws.append(np.exp(rows[:-1]))
    return draws, time.perf_counter() - begin


def augmented(n, f, start, psi, T, chain, sweeps, warmup):
    "Draws of the augmented sampler, and the seconds they took after warm-up."
    rng, draws = np.random.default_rng(chain), []
    for sweep in range(warmup + sweeps):
        if sweep == warmup: begin = time.perf_counter()
        latent = bridge_counts(n, f, T, start, psi, rng)
        T = rng.standard_gamma(latent.transitions + 1.)
        T /= T.sum(1, keepdims=True)
        if sweep >= warmup: draws.append(T)
    return draws, time.perf_counter() - begin


def nuts(n, f, start, psi, T, chain, sweeps, warmup):
    "Draws of numpyro's NUTS on the same density, and their seconds after warm-up and compilation."
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS
    numpyro.enable_x64()

    def model():
        P = numpyro.sample("T", dist.Dirichlet(jnp.ones((10, 10))).to_event(1))
        R = jnp.linalg.solve(jnp.eye(10) - P * psi, P * (1 - psi))
        r0 = start * (1 - psi) + (start * psi) @ R
        numpyro.factor("seen", (n * jnp.log(R)).sum() + (f * jnp.log(r0)).sum())

    run = MCMC(NUTS(model), num_warmup=warmup, num_samples=sweeps, progress_bar=False)
    run.warmup(jax.random.PRNGKey(chain), init_params=None)
    run.run(jax.random.PRNGKey(chain + 100))  # compiles
    begin = time.perf_counter()
    run.run(jax.random.PRNGKey(chain + 200))
    draws = np.asarray(run.get_samples()["T"])
    return draws, time.perf_counter() - begin


def measure(how, run, sweeps, warmup, chains=2):
    "Seconds for 1,000 effective draws of the worst entry."
    args = problem()
    runs = [run(*args, chain, sweeps, warmup) for chain in range(chains)]
    draws = np.array([draws for draws, _ in runs])
    least = min(array_stats.ess(draws[:, :, i, j], chain_axis=0, draw_axis=1)
                for i in range(10) for j in range(10))
    seconds = sum(seconds for _, seconds in runs)
    each, needed = seconds / chains / sweeps * 1e3, 1000 * seconds / least
    print(f"{how:<44}{each:8.2f} ms a draw{least:8.0f} effective of {chains * sweeps}"
          f"{needed:10.2f} s", flush=True)
    return dict(what=WHAT, how=how, seconds=needed)


def gaps():
    "The three ways, in one run."
    yield measure("collapsed: Hamiltonian moves in numba", collapsed, 1000, 500)
    try: import numpyro
    except ImportError: print("numpyro is not installed: NUTS left out")
    else: yield measure(f"NUTS of numpyro {numpyro.__version__}, same density", nuts, 1000, 500)
    yield measure("augmented: omitted walks drawn by counts", augmented, 10_000, 500)
