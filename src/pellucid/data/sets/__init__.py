"""The sets that come with pellucid, one file each, so that everything runs without a network."""
