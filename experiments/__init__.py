"""The program behind the tables, figures and weights of this repository: `python -m experiments --help`.

Every experiment is a folder with its config, results, tables, figure and one archive of runs. The code:

experiment_commands the subcommands
experiment_config   reading a config, into marginal_experiment, map_experiment or bursty_experiment
runner              runs in parallel, each stored in the run_store: an archive and a working folder
marginal_*          networks and solvers compared by their marginals on generated graphs
map_*               solvers and networks compared by MAP on collections of public models
bursty_*            decoders and networks compared on words of a code under bursty noise
word_training       networks trained to decode words, many words of one code at a time
isomorphic_models   test models that are isomorphic to training models
report, figures     results, tables and figures of all experiments
weights_*           making and judging the weights that come with the package
score_card          MAP over all collections beside the board of a competition
"""
