"""Plain NumPy versions of `dlfh._kernels`: same names, same arguments, same results.

They are slow, short and easy to check against the paper. Tests compare the kernels with them, and small inputs run on
them (`dlfh._kernels.dispatch`).
"""

from dlfh._kernels import MODULES
from dlfh._lazy import import_on_demand

__getattr__, __dir__ = import_on_demand(__name__, MODULES)
