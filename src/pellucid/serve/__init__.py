"""`pellucid serve`: the network of a run over HTTP, in the form that OpenAI's clients speak.

    options             ServeOptions: where it listens, how much at a time, how long
    completion_calls    a body of /v1/completions to prompts and options; pieces of text to its answers
    generation          GenerationThread: one thread for all prompts together, and a bounded queue before it
    prediction_calls    /v1/predict for tables, images and pairs
    metrics             what happened, as Prometheus reads it
    app                 the addresses; run_server puts everything together

It calls `pellucid.api.serving` for everything that a network does, and `pellucid.http` for everything that HTTP does.
"""
