"""Why shapes disagree: how far a forward came, which two numbers do not fit, and repairs that were tried."""
