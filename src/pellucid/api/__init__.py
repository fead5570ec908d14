"""One function for each verb: typed options in, a record out. Python users and every command call the same ones.

    train       train, resume, compare, compare_sizes, rate (the search for a learning rate)
    run         TrainedRun, open_run: a run as Python users hold it
    language    sample, score
    predict     predict                 split       split
    derive      derive                  draw        draw
    inspect     inspect                 doctor      doctor                  watch       watch

Nothing is imported here: who wants one verb loads what that one needs, and `pellucid` itself finds each by its name.
"""
