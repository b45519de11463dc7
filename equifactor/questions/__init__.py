"""Questions to a `Result` beyond its task: joints, factor marginals, entropy, information, data frames."""
