"""Decoding of error-correcting codes: one code, any number of shots.

V bits (errors that may have happened), M checks (detectors that some bit flips), E edges between them, L observables,
N shots. A log ratio is ln P(0)/P(1), which is positive if a bit is probably not in error.

A *lane* is a place of an engine that decodes one shot at a time. When its shot is finished, the lane takes the next
waiting shot. The engine for the CPU has 16 lanes, one for each number of a vector. The engine for GPUs has up to
16,384 lanes.
A *leg* is a run of belief propagation on a shot until its syndrome is met or the iterations of the leg are spent.
The *channel* states a log ratio for every bit. A bit with memory g has the *effective prior*
channel + g (posterior - channel) in place of the channel's log ratio.

decoder.py                         `Decoder`: checks its arguments and calls an engine
error_model.py, problem.py         the errors of a code; the bits and checks that remain to be decoded
given_arrays.py                    arrays that users give
code_sources.py                    models, files and objects that `Decoder` takes in place of a check matrix
code_files.py, dem_text.py         codes from files and texts; stim_circuits.py: codes from circuits
decoder_team.py                     several decoders for the same shots
methods.py                         the methods and their settings
shot_store.py, decoding_result.py  the shots of a call and their answers
lane_engine.py, lane_kernels.py    the engine for the CPU, with check_rules.py; lane_crew.py: several threads
gpu_engine.py, gpu_kernels.py      the engine for GPUs, with gpu_lanes.py
pool_kernels.py, plain_pools.py    solutions of a shot put together, cluster by cluster, and the gap
linked_parts.py                    X and Z detectors together: errors as parts of two sides
sliding_windows.py                 decoding of detectors that come round by round
shot_priors.py                     probabilities of errors that differ from shot to shot
iteration_spread.py                quantiles of iterations and times
post_selection.py                  error rates if the least certain shots are set aside
ordered_statistics.py              decodes shots on which belief propagation fails, with osd_kernels.py
error_sampling.py, shot_files.py   shots drawn at random, and shots in files
learned_memory.py                  the network of learned-memory, with memory_kernels.py; memory_training.py trains it
error_search.py                    lighter errors by a beam search, with error_search_kernels.py
class_sums.py                      the likeliest observables by exact sums, with class_sum_kernels.py
optimal_engine.py                  errors that are proven to be the most likely ones, by MAP solvers
bicycle.py, surface.py             quantum codes for experiments
codewords.py                       words of classical codes over noisy channels
sinter_plugin.py                   decoders for Sinter
"""

from typing import Any

from equifactor.decoding.bicycle import bicycle_code
from equifactor.decoding.codewords import (
    BinarySymmetricChannel,
    ErasureChannel,
    WordDecoder,
    WordErrors,
    gaussian_channel,
    word_error_rates,
)
from equifactor.decoding.decoder import Decoder
from equifactor.decoding.decoder_team import DecoderTeam
from equifactor.decoding.decoding_result import DecodingResult
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.error_sampling import LogicalErrorRate, ShotSampler
from equifactor.decoding.learned_memory import MemoryNetwork
from equifactor.decoding.memory_training import MemoryTraining, train_memories
from equifactor.decoding.methods import METHODS, DecodingMethod
from equifactor.decoding.post_selection import PostSelection
from equifactor.decoding.sliding_windows import WindowDecoder
from equifactor.decoding.surface import surface_code

__all__ = [
    "METHODS",
    "BinarySymmetricChannel",
    "Decoder",
    "DecoderTeam",
    "DecodingMethod",
    "DecodingResult",
    "ErasureChannel",
    "ErrorModel",
    "LogicalErrorRate",
    "MemoryNetwork",
    "MemoryTraining",
    "PostSelection",
    "ShotSampler",
    "WindowDecoder",
    "WordDecoder",
    "WordErrors",
    "bicycle_code",
    "gaussian_channel",
    "sinter_decoders",
    "surface_code",
    "train_memories",
    "word_error_rates",
]


def sinter_decoders(**methods: str) -> dict[str, Any]:
    """Return decoders for Sinter: `equifactor-relay`, `equifactor-bp-osd` and one for every other method.

    Args:
        methods: further decoders by name, such as `quick="relay(solutions=1)"` for `equifactor-quick`.
    """
    from equifactor.decoding.sinter_plugin import all_decoders

    return all_decoders(**methods)
