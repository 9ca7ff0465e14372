#!/usr/bin/env python3
"""One core's work: burn.py ID SECONDS LOG spends so much processor time, whatever else the machine does, and puts its
begin and its end on the log."""
import os
import sys
import time


def note(word):
    fd = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, f"{word} {sys.argv[1]} {time.time_ns()}\n".encode())
    os.close(fd)


note("begin")
while time.process_time() < float(sys.argv[2]):
    pass
note("end")
