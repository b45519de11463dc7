"""What can be asked of a `Result` beyond its task: joints, factor marginals, entropy, information, data frames."""
