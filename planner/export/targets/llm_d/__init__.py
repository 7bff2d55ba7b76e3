"""Values for the llm-d-modelservice chart."""
