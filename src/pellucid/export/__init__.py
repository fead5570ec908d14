"""Runs for other tools: Hugging Face, ONNX Runtime, llama.cpp, and torch without pellucid.

    request         what is asked for, refused early where it cannot be, and written all or nothing
    subject         the run that is exported: its network, what it reads, and inputs to check an export with
    hf_format       a folder that transformers loads with its own code
    onnx_format     one graph, with counts and preparation inside
    gguf_format     one file for llama.cpp and Ollama
    torch_format    one Python file, its weights and a script
    source          the source of a network as one file
    tokenizer       tokenizer.json of any vocabulary
    model_card      README.md, made from the run

Each format has `refuse`, which needs no torch, `write`, and `check`, which loads what was written with the other tool.
"""

from pellucid.export.request import FORMATS, ExportOptions, export_run

__all__ = ["FORMATS", "ExportOptions", "export_run"]
