"""How pellucid answers over HTTP: one careful way to run a Starlette app, for `pellucid lab` and `pellucid serve`.

    server      open_listener, HttpServer: uvicorn with time limits on everything that a client may delay
    door        Door: Host, Origin, credentials, sizes and security headers, decided before an app sees a request
    answers     build_app; strict JSON in (read_json, read_fields), finite JSON out (json_answer), errors as JSON

Put together, here with a key that a client has to send:

    listener = open_listener("127.0.0.1", 0)
    app = build_app([Route("/v1/models", list_models)])            # a PellucidError that it raises is an answer 400
    door = Door(app, DoorRules.of(listener, admits=BearerKey(key)))
    HttpServer(door, listener, Limits()).run(on_ready=print_address)      # until SIGINT or SIGTERM, or .stop()

`with HttpServer(...).in_thread() as server:` runs it beside other work, as tests do. A stream that would never end by
itself asks `server.is_ending`. Nothing here knows what is served.
"""
