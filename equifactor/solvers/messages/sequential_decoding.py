"""Sequential decoding of max-product messages: whole factors are fixed, one after the other, in agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equifactor.graph import FlatGraph


def sequential_states(flat: FlatGraph[np.ndarray], msg_fv: NDArray[np.float64]) -> NDArray[np.int64]:
    """[V] states decoded from factor-to-variable messages [S] as by libDAI's `findMaximum` [Mooij10].

    A stack of factors starts at the first one of the model. The factor on top takes the entry of highest belief,
    log f_a + sum_i m_{i->a}, among those that agree with the variables fixed so far (the first on ties); its free
    variables are fixed, and their other factors that have not been visited are pushed, by number. An empty stack goes
    on with the next factor. Where no entry of positive belief agrees (libDAI gives up), the factor is passed over; a
    variable that no factor fixes takes the state of its own highest belief. Cost O(T).
    """
    from equifactor.graph.layout import SLOT, VAR, layout_of
    from equifactor.numerics.message_answers import beliefs, variable_to_factor
    from equifactor.solvers.messages.decoding_kernels import find_maximum
    from equifactor.solvers.messages.schedule_kernels import add_up

    lay = layout_of(flat)
    total, zeros = np.zeros(flat.num_states), np.zeros(flat.num_states, np.int64)
    add_up(lay.edges, msg_fv, total, zeros)
    msg_vf = variable_to_factor(lay.edges, msg_fv, total, zeros)
    number = np.argsort(lay.order)  # of each flat factor in the model
    var = np.repeat(np.arange(flat.num_vars), np.diff(lay.neighbour_ptr))
    neighbours = lay.neighbours[np.lexsort((number[lay.neighbours], var))]
    factor_of_slot = np.repeat(np.arange(flat.num_factors), np.diff(lay.factors[:, SLOT]))
    slot_order = np.lexsort((lay.slots[:, VAR], factor_of_slot))
    states = np.full(flat.num_vars, -1)
    find_maximum(
        lay.order, lay.factors, lay.slots, slot_order, lay.neighbour_ptr, neighbours, flat.log_phi, msg_vf, states
    )
    alone = beliefs(flat.var_ptr, np.where(zeros > 0, -np.inf, total))[2]
    return np.where(states >= 0, states, alone)
