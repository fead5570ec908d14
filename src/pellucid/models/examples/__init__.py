"""Networks that read examples, rows of a table or images, and answer with a class, a number or the example itself."""
