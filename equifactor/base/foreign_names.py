"""Names that users of other packages or of earlier versions try first, and what to write in their place.

The names come from pgmpy, pyAgrum, libDAI, OpenGM, pomegranate, PGMax and decoders of codes. The tables are read when
a name is unknown.
"""

from __future__ import annotations

_MODEL = "equifactor.FactorGraph is the model; equifactor.interop converts models of pgmpy and pyAgrum"
_TABLE = "a factor is a pair (scope, table) in equifactor.FactorGraph(variables, factors)"
_NETWORK = "equifactor.BayesianNetwork(model) takes a network of pgmpy or pyAgrum, a file, or tables by name"
_CPT = "a table is a pair (parents, table) in equifactor.BayesianNetwork({'rain': .., 'grass': ('rain', ..)})"
_VARIABLE = "a variable is a name with its states in equifactor.FactorGraph({'rain': ['no', 'yes']}, factors)"
_READ = "write equifactor.read_graph(path); the suffix names the format"
_WRITE = "write equifactor.write_graph(graph, path); the suffix names the format"
_FIT = "write equifactor.fit(graph, data)"
_SAMPLE = "write equifactor.sample(graph, n)"
_MAR = 'write equifactor.solve(graph, "MAR", evidence={..})'
_MAP = 'write equifactor.solve(graph, "MAP", evidence={..})'
_DECODER = "write equifactor.decoding.Decoder(checks, priors, observables, method)"

_PLACES = {
    _NETWORK: "BayesianModel BayesNet BN DiscreteBayesianNetwork NaiveBayes",
    _MODEL: "DiscreteMarkovNetwork FactorGraphModel "
    "Graph GraphicalModel MarkovModel MarkovNet MarkovNetwork MarkovRandomField MRF PGM",
    _CPT: "CPD CPT ConditionalProbabilityTable TabularCPD",
    _TABLE: "DiscreteFactor Factor JointProbabilityDistribution Potential FactorNode ProbabilityTable Table Tensor "
    "TFactor",
    _VARIABLE: "Categorical CategoricalDistribution DiscreteDistribution DiscreteVariable "
    "LabelizedVariable RandomVariable RangeVariable Var VarSet Variable",
    _READ: "BIFReader NETReader UAIReader XBNReader XDSLReader XMLBIFReader from_file load loadBN load_graph "
    "load_uai read read_bif read_model read_uai read_xmlbif",
    _WRITE: "BIFWriter NETWriter UAIWriter XDSLWriter XMLBIFWriter save saveBN save_graph save_model write write_bif "
    "write_model write_uai",
    _FIT: "BNLearner BayesianEstimator EM ExpectationMaximization MaximumLikelihoodEstimator ParameterEstimator learn",
    _SAMPLE: "BNDatabaseGenerator BayesianModelSampling draw generateSample generate_samples sampling simulate",
    _MAR: "ApproxInference Inference getPosterior infer inference marginal marginals posterior predict_proba query",
    'write equifactor.solve(graph, "MAP", "mplp")': "DualDecomposition MPLP Mplp",
    _MAP: "argmax map map_query mpe",
    "equifactor.ChainCRF is a model of sequences": "ChainModel LinearChainCRF",
    "equifactor.DynamicNetwork is a Bayesian network in time": "DBN DBNInference DynamicBN DynamicBayesianNetwork HMM "
    "HiddenMarkovModel",
    _DECODER: "BpDecoder BpOsdDecoder BPDecoder BPOSD Matching MinSumBPDecoder RelayDecoder bp_decoder bposd_decoder",
}
_SOLVERS = {
    "exact": "CliqueTree ExactInference JT JTree JunctionTree LazyPropagation ShaferShenoyInference "
    "ShaferShenoyMRFInference VE VariableElimination",
    "bp": "BP BeliefPropagation BeliefPropagationWithMessagePassing FBP LBP LoopyBP LoopyBeliefPropagation MaxProduct "
    "SumProduct",
    "gibbs": "Gibbs GibbsSampler GibbsSampling LoopyGibbsSampling MCMC MonteCarloSampling",
    "meanfield": "MF MeanField VariationalInference",
    "trw": "TRW TRWBP TRWS TreeReweightedBP",
    "regions": "CBP ClusterGraph HAK TreeEP",
}

# Modules that pages of earlier versions showed.
MODULES = {
    "equifactor.bounds": "equifactor.solvers, for map_upper_bound and tighten",
    "equifactor.clock": "equifactor.solvers.Clock",
    "equifactor.exact": 'equifactor.plan and equifactor.solve(graphs, "MAR", "exact")',
    "equifactor.io": "equifactor.formats",
    "equifactor.neural": "equifactor.learned, and equifactor.beliefs",
    "equifactor.numerics": "equifactor.learned.log_scores, which goes with equifactor.beliefs",
    "equifactor.ops": "equifactor.learned.log_scores, which goes with equifactor.beliefs",
    "equifactor.registry": "equifactor.solvers.register",
    "equifactor.result": "equifactor.answers; equifactor has Status and Task, equifactor.solvers has Estimate",
    "equifactor.search": 'equifactor.solvers.improve and equifactor.solve(graph, "MAP", "branch")',
    "equifactor.solver": "equifactor.solvers",
    "equifactor.solvers.optimise": "equifactor.solvers, for improve, map_upper_bound and tighten",
    "equifactor.spec": "equifactor.solvers.register",
    "equifactor.training": "equifactor.train",
}


def solver_like(text: str) -> str:
    """Return the solver that does what a text such as `junction-tree` or `loopy_bp` names; empty if unknown."""
    plain = text.casefold().replace("-", "").replace("_", "").replace(" ", "")
    words = {word.casefold(): solver for solver, names in _SOLVERS.items() for word in names.split()}
    return words.get(plain, "")


def place_of(name: str) -> str:
    """Return what to write in place of a name of another package; empty if the name is not known."""
    for solver, names in _SOLVERS.items():
        if name in names.split():
            return f'write equifactor.solve(graph, solver="{solver}")'
    return next((place for place, names in _PLACES.items() if name in names.split()), "")
