"""The public names of `equifactor.answers`."""

from equifactor.graph.marginals import Marginals as Marginals
from equifactor.learning.crf.graph_crf import CRFAnswer as CRFAnswer
from equifactor.learning.fitting.fit_method import Fitted as Fitted
from equifactor.learning.training.training_log import TrainingLog as TrainingLog
from equifactor.networks.causal_effect import CausalEffect as CausalEffect
from equifactor.networks.conditional_table import ConditionalTable as ConditionalTable
from equifactor.networks.divergence import Divergence as Divergence
from equifactor.networks.separation import Separation as Separation
from equifactor.questions.comparison import Comparison as Comparison
from equifactor.questions.findings import Findings as Findings
from equifactor.questions.information import Information as Information
from equifactor.questions.joint import Joint as Joint
from equifactor.questions.many_results import ManyResults as ManyResults
from equifactor.questions.ranking import Ranking as Ranking
from equifactor.questions.samples import Samples as Samples
from equifactor.questions.sensitivity import Sensitivity as Sensitivity
from equifactor.sequences.dynamic_fit import FittedSequences as FittedSequences
from equifactor.sequences.trajectory import StateSequence as StateSequence
from equifactor.sequences.trajectory import Trajectory as Trajectory
from equifactor.solvers.counting.model_circuit import Circuit as Circuit
from equifactor.solvers.elimination.plan import Plan as Plan
from equifactor.solvers.learned.bp_layer import Beliefs as Beliefs
