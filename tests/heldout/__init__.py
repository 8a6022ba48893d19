"""Errors of libraries that Outlast does not describe, each raised by the library itself, with labels given beforehand.

The errors are kept as JSON (`cases/`), so the libraries are not needed to read them. `measure` compares the labels with what
`outlast.classify` says. `record` provokes the errors again, with the libraries of `requirements.txt` installed.
"""
