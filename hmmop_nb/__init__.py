"Hidden Markov models from ordered data whose gaps nobody recorded."
__version__ = "0.1.0"
from .model import *
from .engine.plot import *
from .lab.chains import *
from .transforms import *
from .engine.posterior import *
from .engine.driver import *
from .engine.messages import *
from .engine.problem import *
from .known_gaps import *
from .matching import *
from .gaps import *
from .psi import *
from .omission import *
from .limits import *
from .inference import *
from .em import *
from .engine.reading import *
from .fit import *
from .estimator import *
from .explore import *

def __getattr__(name): # the experiments are imported when first asked for, so that `python -m hmmop_nb.experiments` starts from scratch
    if not name.startswith("__"):
        from importlib import import_module
        experiments = import_module("hmmop_nb.experiments")
        if name in experiments.__all__: return getattr(experiments, name)
    raise AttributeError(f"module 'hmmop_nb' has no attribute {name!r}")
