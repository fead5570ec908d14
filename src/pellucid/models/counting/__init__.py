"""Count models: the next token by how often it was seen after those before it."""
