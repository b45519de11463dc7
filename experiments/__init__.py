"""The program behind the tables, figures and weights of this repository: `python -m experiments --help`.

Every experiment is a folder with its config, results, tables, figure and one archive of runs. The code:

experiment_commands the subcommands
experiment_config   reading a config; marginal_experiment and map_experiment are what it says
runner              runs side by side, each kept in the run_store: an archive and a working folder
marginal_*          networks and solvers compared by their marginals on generated graphs
map_*               solvers and networks compared by MAP on collections of public models
bursty_*            decoders and networks compared on words of a code under bursty noise
word_training       networks trained to read words, many words of one code at a time
isomorphic_models   test models that are training models in other words
report, figures     results, tables and figures of all experiments
weights_*           making and judging the weights that come with the package
score_card          MAP over all collections beside the board of a competition
"""
