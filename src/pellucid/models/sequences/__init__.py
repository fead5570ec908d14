"""Networks that read tokens and score what comes next."""
