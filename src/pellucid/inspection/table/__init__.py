"""`pellucid inspect`: what each part of a module is, was given and cost."""
