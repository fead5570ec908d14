"""One function for each verb: typed options in, a record out. Python users and every command call the same ones.

    train       train, resume, compare, rate (the search for a learning rate)
    open        open_model: a model that others made, as a run
    run         TrainedRun, a run as Python users hold it; sample, score, predict
    doctor      doctor, watch           inspect     inspect
    derive      derive                  draw        draw                    split       split
    tokens      tokens
    results     what they give back: a record that shows itself, and files

Nothing is imported here: who wants one verb loads what that one needs, and `pellucid` itself finds each by its name.
"""
