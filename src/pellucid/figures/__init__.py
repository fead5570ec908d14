"""Records to tables, pictures and pages. No torch: what was seen yesterday can be drawn today."""
