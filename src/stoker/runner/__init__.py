"""What happens on a node: the only part of Stoker that touches the users' world.

Standard library only (nvidia-ml-py and PAM guarded), Python 3.8 grammar, built into one file
by `build.py`. The server imports `protocol` and `killpoint` from here and nothing else.
"""
