"""Hidden Markov models from ordered data whose gaps nobody recorded.

`fit` learns a chain from lists with gaps by the method that makes most of what is known; every fit returns a
`Posterior`. Transforms, simulation and inference work on an `HMMOP`. More lives in the modules: `hm.plot`, `hm.chains`,
`hm.lab`, `hm.engine`, and one module for each page of the book.
"""
__version__ = "0.1.0"

from .engine import kernels # before any kernel is defined
from . import engine, lab
from .engine import plot
from .engine.driver import SamplingWarning
from .engine.emissions import Categorical, Gaussian, Poisson
from .engine.families import NegativeBinomial, StudentT
from .engine.posterior import Posterior
from .engine.problem import Prior
from .engine.scale import in_blocks
from .engine.vectors import GaussianVector, Product
from .lab import chains
from .lab.chains import cyclic_multipartite, degree_chain, part_of_speech
from .model import (
    BernoulliOmission, HMMOP, MarkovOmission, PerSequenceOmission, Sequences, l1_distance
)
from .transforms import (
    admissible_psi, compose, infer_psi, nearest_stochastic, stationary, thin, thin_bursty, thin_finite, thin_start,
    unthin
)
from .known_gaps import fit_analytic, fit_known, fit_naive, fit_random
from .matching import fit_matching
from .gaps import fit_gaps
from .psi import identifiability, psi_bound
from .em import fit_em
from .inference import (
    decode, expected_gaps, filtered_marginals, forecast, log_likelihood, place, posterior_marginals
)
from .limits import limit, plan
from .engine.derived import fates, timescales
from .omission import fit_omission
from .fit import choose_n_states, fit
from .lab.checking import check
from .estimator import GapHMM
from .explore import explore
from .engine.help import fill_docs

__all__ = [
    "BernoulliOmission", "Categorical", "GapHMM", "Gaussian", "GaussianVector", "HMMOP", "MarkovOmission",
    "NegativeBinomial", "PerSequenceOmission", "Poisson", "Posterior", "Prior", "Product", "SamplingWarning",
    "Sequences", "StudentT", "admissible_psi", "check", "choose_n_states", "compose", "cyclic_multipartite",
    "decode", "degree_chain", "expected_gaps", "explore", "fates", "filtered_marginals", "fit",
    "fit_analytic", "fit_em", "fit_gaps", "fit_known", "fit_matching", "fit_naive", "fit_omission",
    "fit_random", "forecast", "identifiability", "in_blocks", "infer_psi", "l1_distance", "limit", "log_likelihood",
    "nearest_stochastic", "part_of_speech", "place", "plan", "posterior_marginals", "psi_bound", "stationary",
    "thin", "thin_bursty", "thin_finite", "thin_start", "timescales", "unthin",
]

fill_docs(vars(engine.emissions)) # whose base class explains the methods of all families
fill_docs(globals())
del fill_docs
