"""The lab: all of pellucid in the browser, on this machine alone.

    app          Lab: the app behind its door, its static files, who may come in
    session      the one-time token of the link, and the cookie that it is exchanged for
    memory       what answers have freed is given back to the system
    workers      where heavy work is done, so that pages stay quick
    runs         runs as cards, live, in full; figures, files, the doctor, single numbers
    uploads      a file or a folder of images that is dropped, kept under names of our own
    training     data that were dropped or picked, what they are, and trainings in processes of their own
    speaking     the decoding tree, samples, surprise
    teaching     derive, x-ray, lessons, claims
    static/      the pages: ES modules without a build step, one style sheet, vendored libraries

It calls `api/` and nothing else: numbers on a page are the command line's.
"""
