"""What Ray Serve LLM takes: schemas of its classes, and the classes themselves where somebody has installed them."""
