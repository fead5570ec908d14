"""Every sentence and every table of words: records in, text for a terminal or a page out."""
