"""Fuzzing: damaged files of every format, given to what reads them.

python -m tests.fuzz                     2,000 cases of each format
python -m tests.fuzz --cases 100 npz     of one
python -m tests.fuzz npz 17              case 17 of a format again, in this process
python -m tests.fuzz npz FILE            a case that was kept, again
"""
