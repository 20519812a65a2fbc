"""What holds the course up and teaches nothing: skip it on a first reading, and leave it alone.

`validation.py` refuses bad input in one sentence, `files.py` writes whole files or none and reads
without trust, `dropout.py` is a faster `nn.Dropout`, `threads.py` keeps to a container's cores and
shares them with other programs, `command_line.py` says the errors of a command in one line.
"""
