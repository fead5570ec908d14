"""What a trained network is used for: to go on with a text and score one, to answer, and to be looked at."""
