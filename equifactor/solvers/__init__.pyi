"""The public names of `equifactor.solvers`."""

from equifactor.base.clock import Clock as Clock
from equifactor.base.options import option as option
from equifactor.factors.lowered_graph import lower as lower
from equifactor.graph.compiler import compile as compile
from equifactor.graph.flat_graph import FlatGraph as FlatGraph
from equifactor.solvers.counting.circuit_compiling import count_assignments as count_assignments
from equifactor.solvers.counting.circuit_compiling import estimate_circuit as estimate_circuit
from equifactor.solvers.duals.map_bounds import map_upper_bound as map_upper_bound
from equifactor.solvers.duals.map_bounds import tighten as tighten
from equifactor.solvers.search.local_search import improve as improve
from equifactor.solving.estimate import Estimate as Estimate
from equifactor.solving.registry import parse_solver as parse_solver
from equifactor.solving.registry import register as register
from equifactor.solving.registry import solver_names as solver_names
from equifactor.solving.solver import ALL_SYMMETRIES as ALL_SYMMETRIES
from equifactor.solving.solver import GraphSolver as GraphSolver
from equifactor.solving.solver import IterativeSolver as IterativeSolver
from equifactor.solving.solver import SolveContext as SolveContext
from equifactor.solving.solver import Solver as Solver
