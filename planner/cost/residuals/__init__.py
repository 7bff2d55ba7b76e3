"""What measured runs say beyond the walk over a model's layers: paces that correct it, bands of what they leave."""
