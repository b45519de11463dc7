"""The public names of `equifactor.learned`."""

from equifactor.factors.tensors.tensor_beliefs import log_scores as log_scores
from equifactor.learning.training.evidence_sets import EvidenceSets as EvidenceSets
from equifactor.learning.training.training_settings import TrainingSettings as TrainingSettings
from equifactor.solvers.learned.bp_layer import BPLayer as BPLayer
from equifactor.solvers.learned.learned_solver import NeuralSolver as NeuralSolver
from equifactor.solvers.learned.model_card import ModelCard as ModelCard
from equifactor.solvers.learned.model_card import read_card as read_card
from equifactor.solvers.learned.model_files import load_model as load_model
from equifactor.solvers.learned.model_files import save_model as save_model
from equifactor.solvers.learned.network import Network as Network
from equifactor.solvers.learned.network import NetworkState as NetworkState
from equifactor.solvers.learned.network_config import NetworkConfig as NetworkConfig
from equifactor.solvers.learned.neural_bp import NeuralBP as NeuralBP
from equifactor.solvers.learned.replay import Replay as Replay
from equifactor.solvers.learned.wiring import Wiring as Wiring
