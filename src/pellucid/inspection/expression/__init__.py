"""Modules and inputs as people write them, read without running anything but the constructors of torch.nn."""
