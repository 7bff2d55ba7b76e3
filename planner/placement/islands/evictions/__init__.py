"""Who has to go for an island: prices, limits, order, trials."""
