# mypy: ignore-errors
"""Kernels of `loop-bp`: balls around variables, their cavities, one model of all of them, and the update of messages.

Factors here have two or more variables; unary factors are added up into a field. Rows are compressed: the
scope of factor a is scope_vars[scope_ptr[a]:scope_ptr[a+1]], the factors of variable i var_factors[var_ptr[i]:...].
"""

import math

import numpy as np

from equifactor.kernels.jit import fast_kernel, kernel
from equifactor.solvers.elimination.greedy import longer

_FAR = 2**30  # The distance of a variable that has not been reached.
# A length is abandoned once its ball meets this many times the variables that it may have. Halved or doubled: error
# within 2 %.
_WIDE = 16
_FLOOR = -300.0  # The least log message: a message that vanished could never return. True zeros are in the tables.


@kernel
def grow_balls(scope_ptr, scope_vars, var_ptr, var_factors, length, size, most, most_visits):
    """Grow the ball of every variable: factors on loops of at most length [V] factors through it or its own factors.

    A factor whose two nearest variables are d and d' steps away lies on a closed walk of d + d' + 1 factors. The walk
    has one factor less if it leaves and returns by the same factor of three or more variables: a loop through this
    factor that does not pass the variable. Factors that are not on a loop within the ball are pruned, leaf by leaf,
    except for the factors of the variable itself. A ball with more than `size` variables, or many times more before
    pruning, is grown again with a smaller length, which is written to length. Whole shells are left out, so that
    nothing depends on the numbering.

    Returns:
        ball_ptr [V+1] and factors of the balls, member_ptr [V+1] and their variables (the centre first), whether each
        of these has a factor outside the ball, and whether each ball [V] holds all that can be reached.
        The lists are empty if they would have more than `most` factors, or take more than `most_visits` visits of a
        factor from a variable.
    """
    num_vars, num_factors = len(var_ptr) - 1, len(scope_ptr) - 1
    dist = np.full(num_vars, _FAR, np.int64)
    queue = np.empty(num_vars, np.int64)
    # Factors that this try has met, and factors that it met on a shortest path that begins with a broad factor: one of
    # three or more variables.
    mark, broad_mark = np.full(num_factors, -1, np.int64), np.full(num_factors, -1, np.int64)
    broad = np.zeros(num_vars, np.bool_)
    degree = np.zeros(num_vars, np.int64)
    taken = np.empty(num_factors, np.int64)
    seen = np.full(num_vars, -1, np.int64)
    ball_ptr, member_ptr = np.zeros(num_vars + 1, np.int64), np.zeros(num_vars + 1, np.int64)
    ball, member = np.empty(8 * num_vars + 16, np.int64), np.empty(8 * num_vars + 16, np.int64)
    whole = np.ones(num_vars, np.bool_)
    tries = visits = 0
    i = 0
    while i < num_vars:
        tries += 1
        reach = length[i]
        if visits > most_visits:
            nothing = np.empty(0, np.int64)
            return ball_ptr, nothing, member_ptr, nothing, np.empty(0, np.bool_), whole
        # Distances are computed up to half of the length: further variables are only met as the ends of factors.
        queue[0], dist[i], end = i, 0, 1
        broad[i] = False
        count, first, complete = 0, 0, True
        while first < end and (end <= _WIDE * size or reach == 1):
            u = queue[first]
            first += 1
            visits += var_ptr[u + 1] - var_ptr[u]
            for r in range(var_ptr[u], var_ptr[u + 1]):
                a = var_factors[r]
                if mark[a] == tries and (not broad[u] or broad_mark[a] == tries):
                    continue
                if 2 * dist[u] + 1 > reach + broad[u] and u != i:
                    complete = complete and mark[a] == tries
                    continue
                if mark[a] != tries:
                    taken[count] = a
                    count += 1
                mark[a] = tries
                begins_broad = u == i and scope_ptr[a + 1] - scope_ptr[a] > 2
                if broad[u] or begins_broad:
                    broad_mark[a] = tries
                for e in range(scope_ptr[a], scope_ptr[a + 1]):
                    v = scope_vars[e]
                    if dist[v] == _FAR:
                        dist[v] = dist[u] + 1
                        broad[v] = False
                        queue[end] = v
                        end += 1
                    if dist[v] == dist[u] + 1 and (broad[u] or begins_broad):
                        broad[v] = True
        if end > _WIDE * size and reach > 1:
            for n in range(end):
                dist[queue[n]] = _FAR
            length[i] -= 1
            continue
        kept = 0
        for n in range(count):
            a = taken[n]
            near, next_near = _FAR, _FAR
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                d = dist[scope_vars[e]]
                if d < near:
                    near, next_near = d, near
                elif d < next_near:
                    next_near = d
            aside = False
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                aside = aside or (dist[scope_vars[e]] == near and broad[scope_vars[e]])
            if near + next_near + 1 <= reach + aside or near == 0:
                taken[kept] = a
                kept += 1
                for e in range(scope_ptr[a], scope_ptr[a + 1]):
                    degree[scope_vars[e]] += 1
            else:
                complete = False
        for n in range(end):
            dist[queue[n]] = _FAR
        kept = _prune(i, taken, kept, degree, scope_ptr, scope_vars)
        if ball_ptr[i] + kept > most:
            return ball_ptr, ball[:0].copy(), member_ptr, member[:0].copy(), np.zeros(0, np.bool_), whole
        if ball_ptr[i] + kept > len(ball):
            ball = longer(ball, ball_ptr[i], 2 * (ball_ptr[i] + kept))
        total = 1
        seen[i] = tries
        for n in range(kept):
            a = taken[n]
            ball[ball_ptr[i] + n] = a
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                v = scope_vars[e]
                if seen[v] != tries:
                    seen[v] = tries
                    queue[total] = v
                    total += 1
        if total > size and reach > 1:
            for n in range(kept):
                for e in range(scope_ptr[taken[n]], scope_ptr[taken[n] + 1]):
                    degree[scope_vars[e]] = 0
            length[i] -= 1
            continue
        queue[0] = i
        if member_ptr[i] + total > len(member):
            member = longer(member, member_ptr[i], 2 * (member_ptr[i] + total))
        # The lowest bit is set if the variable has a factor outside: its degree in the ball is smaller than its own.
        for n in range(total):
            v = queue[n]
            outer = 1 if degree[v] < var_ptr[v + 1] - var_ptr[v] else 0
            member[member_ptr[i] + n] = 2 * v + outer
            degree[v] = 0
        whole[i] = complete
        ball_ptr[i + 1] = ball_ptr[i] + kept
        member_ptr[i + 1] = member_ptr[i] + total
        i += 1
    member = member[: member_ptr[num_vars]]
    return ball_ptr, ball[: ball_ptr[num_vars]].copy(), member_ptr, member // 2, member % 2 == 1, whole


@kernel
def _prune(i, taken, kept, degree, scope_ptr, scope_vars):
    """Remove factors that share at most one variable with other factors of the ball, unless they hold the centre i."""
    changed = True
    while changed:
        changed = False
        left = 0
        for n in range(kept):
            a = taken[n]
            held, own = 0, False
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                v = scope_vars[e]
                held += degree[v] > 1
                own = own or v == i
            if own or held > 1:
                taken[left] = a
                left += 1
                continue
            changed = True
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                degree[scope_vars[e]] -= 1
        kept = left
    return kept


@kernel
def grow_cavities(scope_ptr, scope_vars, var_ptr, var_factors, ball_ptr, ball, member_ptr, member, is_outer, most):
    """Grow the cavity of each outer variable j of each ball i: the factors of ball j outside ball i, connected to j.

    Returns:
        cavity_ptr [P+1], factors, a hash [P] of j and the factors, j [P], and the cavity of each member (-1 for inner
        variables). There are no cavities if they would have more than `most` factors.
    """
    num_vars, num_factors = len(var_ptr) - 1, len(scope_ptr) - 1
    count = 0
    for n in range(len(is_outer)):
        count += is_outer[n]
    cavity_ptr = np.zeros(count + 1, np.int64)
    root, name = np.empty(count, np.int64), np.empty(count, np.uint64)
    cavity_of_member = np.full(len(member), -1, np.int64)
    factors = np.empty(4 * count + 16, np.int64)
    in_i, in_j = np.full(num_factors, -1, np.int64), np.full(num_factors, -1, np.int64)
    seen, queue = np.full(num_vars, -1, np.int64), np.empty(num_vars, np.int64)
    c = end = 0
    for i in range(num_vars):
        for n in range(ball_ptr[i], ball_ptr[i + 1]):
            in_i[ball[n]] = i
        for m in range(member_ptr[i], member_ptr[i + 1]):
            if not is_outer[m]:
                continue
            j = member[m]
            for n in range(ball_ptr[j], ball_ptr[j + 1]):
                if in_i[ball[n]] != i:
                    in_j[ball[n]] = c
            if end + ball_ptr[j + 1] - ball_ptr[j] > len(factors):
                factors = longer(factors, end, 2 * (end + ball_ptr[j + 1] - ball_ptr[j]))
            queue[0], seen[j] = j, c
            first, last = 0, 1
            mixed = _mix(np.uint64(j) + np.uint64(num_factors))
            while first < last:
                u = queue[first]
                first += 1
                for r in range(var_ptr[u], var_ptr[u + 1]):
                    a = var_factors[r]
                    if in_j[a] != c:
                        continue
                    in_j[a] = -1
                    factors[end] = a
                    end += 1
                    mixed += _mix(np.uint64(a))
                    for e in range(scope_ptr[a], scope_ptr[a + 1]):
                        v = scope_vars[e]
                        if seen[v] != c:
                            seen[v] = c
                            queue[last] = v
                            last += 1
            root[c], name[c] = j, mixed
            cavity_of_member[m] = c
            c += 1
            cavity_ptr[c] = end
            if end > most:
                return cavity_ptr[:1].copy(), factors[:0].copy(), name[:0].copy(), root[:0].copy(), cavity_of_member
    return cavity_ptr, factors[:end].copy(), name, root, cavity_of_member


@kernel
def _mix(x):
    """Return a well mixed number, for hashes of sets by sums."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def lay_side_by_side(
    part_ptr, factors, root, scope_ptr, scope_vars, member_ptr, member, message_of_member, has_field, with_root_field
):  # fmt: skip
    """Return one model of many parts, each with its own clones; part n is factors[part_ptr[n]:part_ptr[n+1]].

    A clone gets the field of its variable if there is one; a root gets it only if `with_root_field`. A clone also gets
    the message from beyond it in the ball of the root, message_of_member, unless that is -1.

    Returns:
        the variable of each clone, ptr and clones of the scopes, and for each factor its number: a of the model, -1 - i
        for the field of variable i, or F + message. Then the clone of each root.
    """
    num_factors, parts = len(scope_ptr) - 1, len(root)
    edges, clones = 0, 0
    for n in range(len(factors)):
        edges += scope_ptr[factors[n] + 1] - scope_ptr[factors[n]]
    most = edges + parts
    variable = np.empty(most, np.int64)
    ptr = np.zeros(len(factors) + 2 * most + 1, np.int64)
    scopes = np.empty(edges + 2 * most, np.int64)
    number = np.empty(len(factors) + 2 * most, np.int64)
    root_clone = np.empty(parts, np.int64)
    clone = np.full(len(has_field), -1, np.int64)
    owner = np.full(len(has_field), -1, np.int64)
    message = np.full(len(has_field), -1, np.int64)
    count = at = 0
    for n in range(parts):
        j = root[n]
        for m in range(member_ptr[j], member_ptr[j + 1]):
            message[member[m]] = message_of_member[m]
        begin = clones
        owner[j], clone[j], root_clone[n] = n, clones, clones
        variable[clones] = j
        clones += 1
        for r in range(part_ptr[n], part_ptr[n + 1]):
            a = factors[r]
            for e in range(scope_ptr[a], scope_ptr[a + 1]):
                v = scope_vars[e]
                if owner[v] != n:
                    owner[v], clone[v] = n, clones
                    variable[clones] = v
                    clones += 1
                scopes[at] = clone[v]
                at += 1
            number[count] = a
            count += 1
            ptr[count] = at
        for k in range(begin, clones):
            v = variable[k]
            if has_field[v] and (k > begin or with_root_field):
                number[count], scopes[at] = -1 - v, k
                count, at = count + 1, at + 1
                ptr[count] = at
            if k > begin and message[v] >= 0:
                number[count], scopes[at] = num_factors + message[v], k
                count, at = count + 1, at + 1
                ptr[count] = at
    return variable[:clones].copy(), ptr[: count + 1].copy(), scopes[:at].copy(), number[:count].copy(), root_clone


@fast_kernel
def update_messages(p, p_start, dim, start, damping, msg):
    """Compute new messages from the probabilities p of the roots of cavities; msg holds logs with a largest entry of 0.

    Args:
        p: probabilities of the states of all clones; those of root c begin at p_start[c].
        p_start: [C]
        dim: [C] states of each root.
        start: [C] where the message of each cavity begins in msg.
        damping: share of the old log message that is kept.
        msg: changed in place.

    Returns:
        the largest change of an undamped message, in probability.
    """
    change = 0.0
    for c in range(len(dim)):
        top, total = 0.0, 0.0
        for x in range(dim[c]):
            top = max(top, p[p_start[c] + x])
            total += math.exp(msg[start[c] + x])
        highest = -math.inf
        for x in range(dim[c]):
            new = p[p_start[c] + x]
            old = msg[start[c] + x]
            change = max(change, abs(new - math.exp(old) / total))
            log_new = max(math.log(new / top), _FLOOR) if new > 0.0 else _FLOOR
            msg[start[c] + x] = damping * old + (1.0 - damping) * log_new
            highest = max(highest, msg[start[c] + x])
        for x in range(dim[c]):
            msg[start[c] + x] -= highest
    return change
