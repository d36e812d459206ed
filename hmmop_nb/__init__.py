"Hidden Markov models from ordered data whose gaps nobody recorded."
__version__ = "0.1.0"
from .engine.emissions import *
from .model import *
from .engine.emissions import Categorical, Gaussian, Poisson
from .lab.chains import *
from .transforms import *
from .engine.posterior import *
from .engine.driver import *
from .engine.problem import *
from .known_gaps import *
from .matching import *
