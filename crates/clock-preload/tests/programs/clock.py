"""The clocks of Python, against the kernel's by system call, in threads and children."""

import ctypes
import datetime
import multiprocessing
import os
import platform
import threading
import time

SYS_CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}[platform.machine()]
LIBC = ctypes.CDLL(None, use_errno=True)


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


def kernel(clock):
    spec = Timespec()
    assert LIBC.syscall(SYS_CLOCK_GETTIME, clock, ctypes.byref(spec)) == 0
    return spec.sec * 10**9 + spec.nsec


def check(rounds):
    functions = [
        (time.time_ns, time.CLOCK_REALTIME),
        (time.monotonic_ns, time.CLOCK_MONOTONIC),
        (time.perf_counter_ns, time.CLOCK_MONOTONIC),
        (lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.CLOCK_MONOTONIC_RAW),
        (lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.CLOCK_BOOTTIME),
    ]
    for function, clock in functions:
        last = 0
        for _ in range(rounds):
            before, now, after = kernel(clock), function(), kernel(clock)
            assert before - 5000 <= now <= after + 5000, (before, now, after)
            assert now >= last, (now, last)
            last = now
    assert abs(datetime.datetime.now().timestamp() - time.time()) < 60
    try:
        time.clock_gettime(4711)
        raise AssertionError("a clock that is none")
    except OSError as error:
        assert error.errno == 22, error


def child(rounds):
    check(rounds)
    os._exit(0)


if __name__ == "__main__":
    check(20000)
    threads = [threading.Thread(target=check, args=(2000,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(10):
        process = multiprocessing.get_context("fork").Process(target=child, args=(500,))
        process.start()
        children.append(process)
    for thread in threads:
        thread.join()
    for process in children:
        process.join()
        assert process.exitcode == 0, process.exitcode
    begin = time.monotonic()
    time.sleep(0.2)
    assert 0.2 <= time.monotonic() - begin < 5
    print("python: ok")
