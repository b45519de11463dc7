# mypy: ignore-errors
"""The graph that an elimination order is for, and the clusters that an order makes.

Adjacency lies in compressed rows (`ptr`, `adj`), without loops or repeats.
"""

import numpy as np

from equifactor.kernels.jit import kernel
from equifactor.solvers.elimination.greedy import longer


@kernel
def adjacency(num_vars, scope_ptr, scope_vars):
    """Return the rows of the graph that joins variables sharing a factor. Cost O(pairs), with repeats."""
    ptr = np.zeros(num_vars + 1, np.int64)
    for a in range(len(scope_ptr) - 1):
        for e in range(scope_ptr[a], scope_ptr[a + 1]):
            ptr[scope_vars[e] + 1] += scope_ptr[a + 1] - scope_ptr[a] - 1
    at = np.empty(num_vars, np.int64)
    for i in range(num_vars):
        at[i] = ptr[i]
        ptr[i + 1] += ptr[i]
    adj = np.empty(ptr[num_vars], np.int64)
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
    return ptr, longer(adj, kept, kept)


@kernel
def components(ptr, adj):
    """Return the component of each variable [V], numbered by their first variable, and the number of components."""
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
def clusters(order, ptr, adj):
    """Return the separators of an order as places in it, latest first, and the parent of each cluster (-1 at a root).

    Cost: the sum of the separators' sizes.
    """
    num_vars = len(order)
    place = np.empty(num_vars, np.int64)
    for n in range(num_vars):
        place[order[n]] = n
    child = np.full(num_vars, -1, np.int64)  # the first child, and the next child of the same parent
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
            sep = longer(sep, end, 2 * (end + need))
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
        for r in range(first + 1, end):  # insertion is fast: separators are short, and usually merged from sorted ones
            p = sep[r]
            at = r
            while at > first and sep[at - 1] < p:
                sep[at] = sep[at - 1]
                at -= 1
            sep[at] = p
        sep_ptr[n + 1] = end
        if end > first:
            up = sep[end - 1]
            parent[n] = up
            sibling[n] = child[up]
            child[up] = n
    return sep_ptr, longer(sep, end, end), parent


@kernel
def post_order(parent):
    """Return places of the clusters such that every subtree is one run: then the fewest messages are alive at once."""
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
    for root in range(count - 1, -1, -1):  # filled from the back: a parent comes after its whole subtree
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
