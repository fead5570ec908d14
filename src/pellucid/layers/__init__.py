"""Parts of networks: attention, positions, norms, activations, feed-forward. Each is small enough to read at once."""
