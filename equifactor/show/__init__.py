"""How models, plans, answers, comparisons and training logs show themselves: HTML for notebooks, pictures."""
