"""The main job in one command: simulate, omit half of the visits, and see what each method makes of the rest."""
import time
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

import hmmop_nb as hm

OUT = Path("demo.png")
KEYWORDS = dict(draws=100, warmup=60, chains=2, seed=2, progress=False)


def main():
    model = hm.degree_chain(10, 5, psi=.5, seed=0)
    data = model.sample(1500, 80, seed=1)
    print(f"degree-5 chain, {model.n_states} states: {data}\n")
    told = dict(emission=model.emission)
    methods = {
        "Naive": ("nothing, and ignores the gaps", lambda: hm.fit_naive(data.sequences, **told, **KEYWORDS)),
        "Semi-analytic": ("psi", lambda: hm.fit_analytic(data.sequences, .5, **told, **KEYWORDS)),
        "Matching": ("the number of steps", lambda: hm.fit_matching(data.sequences, data.n_steps, **told, **KEYWORDS)),
        "Gaps": ("psi", lambda: hm.fit_gaps(data.sequences, .5, **told, **KEYWORDS)),
        "Gaps, sparse prior": ("psi", lambda: hm.fit_gaps(data.sequences, .5, **told, **KEYWORDS, prior=hm.Prior(T="sparse"))),
        "EM": ("psi", lambda: hm.fit_em(data.sequences, psi=.5, **told)),
        "Known": ("where every observation belongs", lambda: hm.fit_known(data.sequences, data.positions, data.n_steps, **told, **KEYWORDS)),
    }
    print(f"{'method':<20}{'is told':<34}{'L1 error':>9}{'seconds':>9}")
    estimates = {}
    for name, (known, fit) in methods.items():
        begin = time.perf_counter()
        estimates[name] = fit().mean_T
        print(f"{name:<20}{known:<34}{hm.l1_distance(estimates[name], model.T):9.3f}{time.perf_counter() - begin:9.1f}", flush=True)
    draw(model.T, estimates)
    print(f"\nL1 is the mean over rows of the distance to the true row: 0 is perfect, 2 the worst. Seconds include the first compilation.\nThe matrices are in {OUT}.")


def draw(T, estimates):
    "True and estimated matrices side by side."
    hm.use_style()
    fig, axes = plt.subplots(2, 4, figsize=(11, 6))
    for ax, (name, M) in zip(axes.flat, {"truth": T, **estimates}.items()):
        hm.plot_matrix(M, ax, name if name == "truth" else f"{name}: {hm.l1_distance(M, T):.3f}", vmax=T.max())
    part = OUT.with_suffix(".part.png")
    fig.savefig(part, dpi=120)
    part.replace(OUT)


if __name__ == "__main__": main()
