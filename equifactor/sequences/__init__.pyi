"""The public names of `equifactor.sequences`."""

from equifactor.sequences.dynamic_fit import FittedSequences as FittedSequences
from equifactor.sequences.trajectory import StateSequence as StateSequence
from equifactor.sequences.trajectory import Trajectory as Trajectory
