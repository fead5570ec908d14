"""One file for each rule of the doctor. Each ends with its card: what it proves, how, its sick and its well patient."""
