"""Learning from data: potentials (`fitting`), networks (`training`), and layers of other networks (`crf`)."""
