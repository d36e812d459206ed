"Hidden Markov models from ordered data whose gaps nobody recorded."
__version__ = "0.1.0"
from .model import *
from .chains import *
from .transforms import *
from .posterior import *
from .driver import *
from .messages import *
from .parameters import *
from .oracles import *
from .known_gaps import *
from .matching import *
from .gaps import *
from .inference import *
from .em import *
from .fit import *
from .estimator import *
from .explore import *
