"""The public names of `equifactor.symmetry`."""

from equifactor.symmetry.auditing import audit as audit
from equifactor.symmetry.auditing import equivariance_error as equivariance_error
from equifactor.symmetry.canonical_forms import canonical_form as canonical_form
from equifactor.symmetry.canonical_forms import canonical_relabelling as canonical_relabelling
from equifactor.symmetry.canonical_forms import graph_hash as graph_hash
from equifactor.symmetry.isomorphisms import isomorphism as isomorphism
from equifactor.symmetry.relabelled_graph import relabel as relabel
from equifactor.symmetry.relabelling import KINDS as KINDS
from equifactor.symmetry.relabelling import Relabelling as Relabelling
