"""Greedy elimination orders with randomised restarts, and the clusters that an order makes.

Adjacency lies in compressed rows (`ptr`, `adj`), without loops or repeats. Sizes are in bits: log2 of a number of states.
Each connected component keeps its own best order, so a restart that is good in one and bad in another is not lost.
"""

import math

import numpy as np

from equifactor.kernels import inlined, kernel

FILL, WEIGHTED_FILL, SIZE = 0, 1, 2  # what a try minimises: pairs to join, their bits, entries of the cluster
_GRAIN = 8.0  # fill weights are multiples of 1/8: their sums are exact, so a zero stays a zero
_TIE = 1e-4  # weight of the second criterion, which decides between equals
_SPREAD = 1e-7  # of the random number that decides between the rest


@kernel
def adjacency(num_vars, scope_ptr, scope_vars):
    """Rows of the graph that joins variables sharing a factor. O(pairs), whatever repeats."""
    count = np.zeros(num_vars + 1, np.int64)
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            count[scope_vars[e] + 1] += scope_ptr[a + 1] - scope_ptr[a] - 1
    ptr = np.cumsum(count)
    adj = np.empty(ptr[-1], np.int64)
    at = ptr[:-1].copy()
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            for f in range(scope_ptr[a], scope_ptr[a + 1]):
                if f != e:
                    adj[at[scope_vars[e]]] = scope_vars[f]
                    at[scope_vars[e]] += 1
    seen = np.full(num_vars, -1, np.int64)
    kept = 0
    first = 0
    for i in range(num_vars):  # close the gaps that repeats leave
        last = ptr[i + 1]
        ptr[i] = kept
        for r in range(first, last):
            if seen[adj[r]] != i:
                seen[adj[r]] = i
                adj[kept] = adj[r]
                kept += 1
        first = last
    ptr[num_vars] = kept
    return ptr, adj[:kept].copy()


@kernel
def components(ptr, adj):
    """[V] component of each variable, numbered by their first variable; and how many there are."""
    num_vars = len(ptr) - 1
    label = np.full(num_vars, -1, np.int64)
    stack = np.empty(num_vars, np.int64)
    count = 0
    for root in range(num_vars):
        if label[root] >= 0:
            continue
        label[root] = count
        stack[0] = root
        top = 1
        while top:
            top -= 1
            i = stack[top]
            for r in range(ptr[i], ptr[i + 1]):
                if label[adj[r]] < 0:
                    label[adj[r]] = count
                    stack[top] = adj[r]
                    top += 1
        count += 1
    return label, count


@kernel
def search(ptr, adj, bits, label, num_components, tries, patience, effort, limit, seed):
    """The best order of every component over many tries.

    Args:
        ptr: [V+1] rows of `adj`.
        adj: neighbours.
        bits: [V] log2 of the states.
        label: [V] component of each variable.
        num_components: how many components.
        tries: most tries.
        patience: tries that are made whatever the order costs.
        effort: list operations a try may spend in all per table entry of the best orders: no more planning than it can save.
        limit: log2 of the table entries of one component above which a try of it is given up.
        seed: of the ties.

    Returns:
        order [V], component after component; entries [C] of the best order, infinite where every try was given up
        (then `order` holds nothing of use); largest [C] log2 of a table that the most hopeful try met; tries made.
    """
    num_vars = len(ptr) - 1
    np.random.seed(seed)
    fill_weight = np.maximum(1.0, np.round(bits * _GRAIN)) / _GRAIN
    unit = np.ones(num_vars)
    best = np.full(num_components, math.inf)
    entries = np.empty(num_components)
    largest = np.full(num_components, math.inf)
    met = np.empty(num_components)
    best_place = np.zeros(num_vars, np.int64)
    place = np.empty(num_vars, np.int64)
    most = 2.0**limit
    spent = 0.0
    made = 0
    for n in range(tries):
        kind = (FILL, WEIGHTED_FILL, FILL, SIZE)[n % 4]
        noise = 0.0 if n < 8 else (0.0, 0.1, 0.3)[n % 3]
        weight = unit if kind == FILL else fill_weight
        spent += _greedy(ptr, adj, bits, weight, kind, noise, label, np.minimum(best, most), entries, met, place)
        made += 1
        for c in range(num_components):
            if entries[c] == math.inf:
                largest[c] = min(largest[c], met[c]) if best[c] == math.inf else largest[c]
        for i in range(num_vars):
            c = label[i]
            if entries[c] < best[c]:
                best_place[i] = place[i]
        for c in range(num_components):
            if entries[c] < best[c]:
                best[c] = entries[c]
                largest[c] = met[c]
        if made >= patience and spent > effort * np.sum(best):
            break
        if n >= 3 and made >= patience and np.any(best == math.inf):
            break  # hopeless: each criterion was tried
    key = np.empty(num_vars, np.int64)
    for i in range(num_vars):
        key[i] = label[i] * num_vars + best_place[i]
    return np.argsort(key), best, largest, made


@kernel
def _greedy(ptr, adj0, bits, weight, kind, noise, label, most, entries, met, place):
    """One try; components whose entries pass `most` [C] are given up (entries infinite). Returns list operations.

    fill[i] is the weight of the pairs of neighbours of i that are not joined, kept up to date edge by edge:
    a new edge (a, b) takes its weight from every common neighbour, and gives a (and b) the pairs of b (a) with the
    neighbours of a (b) that do not know it.
    """
    num_vars = len(ptr) - 1
    start = np.empty(num_vars, np.int64)
    degree = ptr[1:] - ptr[:-1]
    room = np.empty(num_vars, np.int64)
    end = 0
    for i in range(num_vars):
        start[i] = end
        room[i] = 2 * degree[i] + 4
        end += room[i]
    adj = np.empty(2 * end + 64, np.int64)
    for i in range(num_vars):
        adj[start[i] : start[i] + degree[i]] = adj0[ptr[i] : ptr[i + 1]]
    seen = np.full(num_vars, -1, np.int64)
    fill, around, size = _first_prices(start, degree, adj, bits, weight, seen)
    seen[:] = -1
    stamp = 0

    key = np.empty(num_vars)
    heap = np.arange(num_vars)
    where = np.arange(num_vars)
    for i in range(num_vars):
        key[i] = _price(kind, noise, fill[i], size[i] + bits[i])
    for n in range(num_vars // 2, -1, -1):
        _settle(heap, where, key, n, num_vars)
    entries[:] = 0.0
    met[:] = 0.0
    alive = len(most)
    touched = np.empty(num_vars, np.int64)
    dirty = np.zeros(num_vars, np.bool_)
    work = 0.0
    left = num_vars
    while left > 0 and alive > 0:
        v = heap[0]
        left -= 1
        heap[0] = heap[left]
        where[heap[0]] = 0
        if left > 0:
            _settle(heap, where, key, 0, left)
        c = label[v]
        if entries[c] == math.inf:
            continue
        place[v] = num_vars - left
        total = bits[v]
        first, k = start[v], degree[v]
        for r in range(first, first + k):
            total += bits[adj[r]]
        entries[c] += 2.0 ** min(total, 1000.0)
        met[c] = max(met[c], total)
        if entries[c] > most[c]:
            entries[c] = math.inf
            alive -= 1
            continue

        # v leaves: its neighbours lose the open pairs they had with it
        count = 0
        stamp += 1
        for r in range(first, first + k):
            seen[adj[r]] = stamp
        for r in range(first, first + k):
            u = adj[r]
            known = 0.0
            at = -1
            for s in range(start[u], start[u] + degree[u]):
                x = adj[s]
                if x == v:
                    at = s
                elif seen[x] == stamp:
                    known += weight[x]
            work += degree[u]
            degree[u] -= 1
            adj[at] = adj[start[u] + degree[u]]
            around[u] -= weight[v]
            size[u] -= bits[v]
            fill[u] -= weight[v] * (around[u] - known)
            dirty[u] = True
            touched[count] = u
            count += 1

        # its neighbours become a clique
        if fill[v] > 0.0:
            for r in range(first, first + k):
                a = adj[r]
                stamp += 1
                for s in range(start[a], start[a] + degree[a]):
                    seen[adj[s]] = stamp
                seen[a] = stamp
                work += degree[a]
                for q in range(r + 1, first + k):
                    b = adj[q]
                    if seen[b] == stamp:
                        continue
                    if degree[a] == room[a] or degree[b] == room[b]:
                        need = 2 * (room[a] + room[b])
                        if end + need > len(adj):
                            larger = np.empty(2 * (end + need), np.int64)
                            larger[:end] = adj[:end]
                            adj = larger
                        for u in (a, b):
                            if degree[u] == room[u]:
                                adj[end : end + degree[u]] = adj[start[u] : start[u] + degree[u]]
                                start[u] = end
                                room[u] *= 2
                                end += room[u]
                    both = weight[a] * weight[b]
                    known = 0.0
                    for s in range(start[b], start[b] + degree[b]):
                        x = adj[s]
                        if seen[x] == stamp:
                            known += weight[x]
                            fill[x] -= both
                            if not dirty[x]:
                                dirty[x] = True
                                touched[count] = x
                                count += 1
                    work += degree[b]
                    fill[a] += weight[b] * (around[a] - known)
                    fill[b] += weight[a] * (around[b] - known)
                    around[a] += weight[b]
                    around[b] += weight[a]
                    size[a] += bits[b]
                    size[b] += bits[a]
                    adj[start[a] + degree[a]] = b
                    adj[start[b] + degree[b]] = a
                    degree[a] += 1
                    degree[b] += 1
                    seen[b] = stamp
        work += 8 * count + 16
        for n in range(count):
            u = touched[n]
            dirty[u] = False
            key[u] = _price(kind, noise, fill[u], size[u] + bits[u])
            _settle(heap, where, key, where[u], left)
    return work


@kernel
def _first_prices(start, degree, adj, bits, weight, seen):
    """Open pairs, and weight and bits of the neighbours, of every variable at the beginning.

    Every triangle is met once, at its member of lowest degree: a variable with many neighbours is not walked for each.
    """
    num_vars = len(degree)
    around = np.zeros(num_vars)
    size = np.zeros(num_vars)
    fill = np.zeros(num_vars)
    for i in range(num_vars):
        square = 0.0
        for r in range(start[i], start[i] + degree[i]):
            around[i] += weight[adj[r]]
            square += weight[adj[r]] ** 2
            size[i] += bits[adj[r]]
        fill[i] = (around[i] ** 2 - square) / 2
    later = np.empty(num_vars, np.int64)
    for i in range(num_vars):
        count = 0
        for r in range(start[i], start[i] + degree[i]):
            j = adj[r]
            seen[j] = i
            if degree[j] > degree[i] or (degree[j] == degree[i] and j > i):
                later[count] = j
                count += 1
        for n in range(count):
            j = later[n]
            for s in range(start[j], start[j] + degree[j]):
                k = adj[s]
                if seen[k] == i and (degree[k] > degree[j] or (degree[k] == degree[j] and k > j)):
                    fill[i] -= weight[j] * weight[k]
                    fill[j] -= weight[i] * weight[k]
                    fill[k] -= weight[i] * weight[j]
    return fill, around, size


@inlined
def _price(kind, noise, fill, size):
    """What the greedy rule minimises, with a random part between equals, and beyond where there is noise."""
    r = np.random.random()
    main, other = (size, fill) if kind == 2 else (fill, size)
    return main * (1.0 + noise * r) + _TIE * other + _SPREAD * r


@inlined
def _settle(heap, where, key, n, length):
    """Move the variable at heap position n to where its price puts it; the cheapest is first."""
    i = heap[n]
    while n > 0 and key[heap[(n - 1) // 2]] > key[i]:
        heap[n] = heap[(n - 1) // 2]
        where[heap[n]] = n
        n = (n - 1) // 2
    while True:
        child = 2 * n + 1
        if child >= length:
            break
        if child + 1 < length and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[heap[child]] >= key[i]:
            break
        heap[n] = heap[child]
        where[heap[n]] = n
        n = child
    heap[n] = i
    where[i] = n


@kernel
def _growth(scope_ptr, scope_vars, var_ptr, var_factors, bits, balance, noise, label, most, entries, met, place):
    """One try that looks at tables instead of edges; otherwise like `_fill`.

    Eliminating v joins the tables that hold it into one message. Its price is the entries of the message against the
    entries of the tables that vanish, so that tables that are already large are taken on and shrunk first: on a grid
    this sweeps where few pairs to join would dissect, at half the width. `balance` weighs the one against the other.
    """
    num_vars = len(bits)
    num_factors = len(scope_ptr) - 1
    # Tables: factors first, then one message per eliminated variable. Scopes and owners are lists in arenas.
    first = np.empty(num_factors + num_vars, np.int64)
    last = np.empty(num_factors + num_vars, np.int64)
    table_bits = np.zeros(num_factors + num_vars)
    gone = np.zeros(num_factors + num_vars, np.bool_)
    scopes = np.empty(2 * len(scope_vars) + 64, np.int64)
    scopes[: len(scope_vars)] = scope_vars
    end = len(scope_vars)
    for t in range(num_factors):
        first[t], last[t] = scope_ptr[t], scope_ptr[t + 1]
        for e in range(first[t], last[t]):
            table_bits[t] += bits[scope_vars[e]]
    start = np.empty(num_vars, np.int64)
    count = np.empty(num_vars, np.int64)
    room = np.empty(num_vars, np.int64)
    tables_end = 0
    for i in range(num_vars):
        start[i] = tables_end
        count[i] = var_ptr[i + 1] - var_ptr[i]
        room[i] = 2 * count[i] + 4
        tables_end += room[i]
    tables = np.empty(2 * tables_end + 64, np.int64)
    for i in range(num_vars):
        tables[start[i] : start[i] + count[i]] = var_factors[var_ptr[i] : var_ptr[i + 1]]

    seen = np.full(num_vars, -1, np.int64)
    stamp = -1
    key = np.empty(num_vars)
    heap = np.arange(num_vars)
    where = np.arange(num_vars)
    work = 0.0
    for i in range(num_vars):
        stamp += 1
        key[i], cost = _growth_price(i, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise)
        work += cost
    for n in range(num_vars // 2, -1, -1):
        _settle(heap, where, key, n, num_vars)
    entries[:] = 0.0
    met[:] = 0.0
    alive = len(most)
    left = num_vars
    new = num_factors
    while left > 0 and alive > 0:
        v = heap[0]
        left -= 1
        heap[0] = heap[left]
        where[heap[0]] = 0
        if left > 0:
            _settle(heap, where, key, 0, left)
        c = label[v]
        if entries[c] == math.inf:
            continue
        place[v] = num_vars - left
        need = 0
        for r in range(start[v], start[v] + count[v]):
            need += last[tables[r]] - first[tables[r]]
        if end + need > len(scopes):
            larger = np.empty(2 * (end + need), np.int64)
            larger[:end] = scopes[:end]
            scopes = larger
        stamp += 1
        seen[v] = stamp
        first[new] = end
        total = 0.0
        for r in range(start[v], start[v] + count[v]):
            t = tables[r]
            gone[t] = True
            for e in range(first[t], last[t]):
                u = scopes[e]
                if seen[u] != stamp:
                    seen[u] = stamp
                    scopes[end] = u
                    end += 1
                    total += bits[u]
        last[new] = end
        table_bits[new] = total
        work += need
        entries[c] += 2.0 ** min(total + bits[v], 1000.0)
        met[c] = max(met[c], total + bits[v])
        if entries[c] > most[c]:
            entries[c] = math.inf
            alive -= 1
            continue
        for e in range(first[new], last[new]):
            u = scopes[e]
            kept = start[u]
            for r in range(start[u], start[u] + count[u]):
                if not gone[tables[r]]:
                    tables[kept] = tables[r]
                    kept += 1
            work += count[u]
            count[u] = kept - start[u]
            if count[u] == room[u]:  # none of its tables was gone: impossible, but cheap to be safe from
                if tables_end + 2 * room[u] > len(tables):
                    longer = np.empty(2 * (tables_end + 2 * room[u]), np.int64)
                    longer[:tables_end] = tables[:tables_end]
                    tables = longer
                tables[tables_end : tables_end + count[u]] = tables[start[u] : start[u] + count[u]]
                start[u] = tables_end
                room[u] *= 2
                tables_end += room[u]
            tables[start[u] + count[u]] = new
            count[u] += 1
        for e in range(first[new], last[new]):
            u = scopes[e]
            stamp += 1
            key[u], cost = _growth_price(u, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise)
            work += cost
            _settle(heap, where, key, where[u], left)
        new += 1
    return work


@inlined
def _growth_price(i, start, count, tables, first, last, scopes, table_bits, bits, seen, stamp, balance, noise):
    seen[i] = stamp
    total = 0.0
    vanish = 0.0
    cost = 16.0
    for r in range(start[i], start[i] + count[i]):
        t = tables[r]
        vanish += 2.0 ** min(table_bits[t], 500.0)
        for e in range(first[t], last[t]):
            u = scopes[e]
            if seen[u] != stamp:
                seen[u] = stamp
                total += bits[u]
        cost += last[t] - first[t]
    growth = 2.0 ** min(total, 500.0) - balance * vanish
    price = math.log2(1.0 + abs(growth))
    r = np.random.random()
    if growth < 0:
        price = -price
    if noise > 0:
        price += noise * math.log(-math.log(r+1e-300))  # Gumbel
    return price + 1e-7 * r, cost


@kernel
def clusters(order, ptr, adj):
    """Separators of an elimination order as places in it, latest first, and the parent of each cluster (-1 at a root).

    Cost: the sum of the separators' sizes.
    """
    num_vars = len(order)
    place = np.empty(num_vars, np.int64)
    for n in range(num_vars):
        place[order[n]] = n
    child = np.full(num_vars, -1, np.int64)  # first child, and the next child of the same parent
    sibling = np.full(num_vars, -1, np.int64)
    parent = np.full(num_vars, -1, np.int64)
    seen = np.full(num_vars, -1, np.int64)
    sep_ptr = np.zeros(num_vars + 1, np.int64)
    sep = np.empty(4 * num_vars + 16, np.int64)
    end = 0
    for n in range(num_vars):
        v = order[n]
        need = ptr[v + 1] - ptr[v]
        c = child[n]
        while c >= 0:
            need += sep_ptr[c + 1] - sep_ptr[c]
            c = sibling[c]
        if end + need > len(sep):
            larger = np.empty(2 * (end + need), np.int64)
            larger[:end] = sep[:end]
            sep = larger
        seen[n] = n
        first = end
        for r in range(ptr[v], ptr[v + 1]):
            p = place[adj[r]]
            if p > n and seen[p] != n:
                seen[p] = n
                sep[end] = p
                end += 1
        c = child[n]
        while c >= 0:
            for r in range(sep_ptr[c], sep_ptr[c + 1]):
                p = sep[r]
                if seen[p] != n:
                    seen[p] = n
                    sep[end] = p
                    end += 1
            c = sibling[c]
        sep[first:end] = -np.sort(-sep[first:end])
        sep_ptr[n + 1] = end
        if end > first:
            up = sep[end - 1]
            parent[n] = up
            sibling[n] = child[up]
            child[up] = n
    return sep_ptr, sep[:end].copy(), parent


@kernel
def post_order(parent):
    """Places of the clusters such that every subtree is one run: fewest messages wait at the same time."""
    count = len(parent)
    child = np.full(count, -1, np.int64)
    sibling = np.full(count, -1, np.int64)
    for n in range(count):
        if parent[n] >= 0:
            sibling[n] = child[parent[n]]
            child[parent[n]] = n
    places = np.empty(count, np.int64)
    stack = np.empty(count, np.int64)
    at = count
    for root in range(count - 1, -1, -1):  # filled from the back: a parent comes after all its subtree
        if parent[root] >= 0:
            continue
        stack[0] = root
        top = 1
        while top:
            top -= 1
            n = stack[top]
            at -= 1
            places[at] = n
            c = child[n]
            while c >= 0:
                stack[top] = c
                top += 1
                c = sibling[c]
    return places


@kernel
def growth_test(scope_ptr, scope_vars, var_ptr, var_factors, bits, balance, noise, label, nc, tries, seed):
    np.random.seed(seed)
    entries=np.empty(nc); met=np.empty(nc); place=np.empty(len(bits),np.int64)
    best=np.full(nc,math.inf)
    big=0.0
    for n in range(tries):
        w=_growth(scope_ptr, scope_vars, var_ptr, var_factors, bits, balance, noise, label, best, entries, met, place)
        for c in range(nc):
            if entries[c]<best[c]:
                best[c]=entries[c]
                big=met[c]
    return best.sum(), big, w
