"""One chart kit: panels with axes, heat maps, ridges, small images and the marks they are made of, as SVG."""
