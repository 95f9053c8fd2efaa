#!/usr/bin/python3
"""FFmpeg's library as a viewer, with the calls that ffplay makes: plays, seeks and pauses as told.

    avformat.py URL udp|tcp STEP...

Steps and output as of rtspsrc.py, and `doze:SECONDS`: to the film's end, but it stands still that
long after each tenth of a second. There are no decoded frames here, and `at` is left out.
"""

import ctypes
import fcntl
import glob
import json
import os
import re
import stat
import struct
import sys
import termios
import time
import zlib

# libavutil/error.h, libavutil/avutil.h, libavformat/avformat.h
AVERROR_EOF = -0x20464F45
AVSEEK_FLAG_BACKWARD = 1
AV_TIME_BASE = 1_000_000
VIDEO, AUDIO = 0, 1


class Packet(ctypes.Structure):
    """The beginning of AVPacket, the same in all versions for a decade."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("pts", ctypes.c_int64),
        ("dts", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int),
        ("stream_index", ctypes.c_int),
    ]


def library(name):
    found = sorted(glob.glob(f"/usr/lib/*/lib{name}.so.*") + glob.glob(f"/usr/lib/lib{name}.so.*"))
    if not found:
        sys.exit(f"lib{name} is missing: install ffmpeg")
    return ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL)


util, codec, fmt = library("avutil"), library("avcodec"), library("avformat")
codec.av_packet_alloc.restype = ctypes.POINTER(Packet)
fmt.av_seek_frame.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int]
fmt.av_find_best_stream.argtypes = [ctypes.c_void_p] + [ctypes.c_int] * 3 + [ctypes.c_void_p, ctypes.c_int]


def check(result, what):
    if result < 0:
        text = ctypes.create_string_buffer(200)
        util.av_strerror(result, text, len(text))
        sys.exit(f"{what}: {text.value.decode()}")
    return result


def hashed(data):
    return f"{len(data)}-{zlib.crc32(data):08x}"


def nal_hashes(data):
    """Hashes of the H.264 NAL units of a byte stream but delimiters and parameter sets."""
    units = (unit.rstrip(b"\x00") for unit in re.split(b"\x00\x00\x01", data)[1:])
    return [hashed(unit) for unit in units if unit and unit[0] & 0x1F not in (7, 8, 9)]


def unread():
    """Bytes that have come and lie in this process's sockets."""
    total = 0
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                total += struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]
        except OSError:
            pass  # The directory's own descriptor is closed by now.
    return total


class Viewer:
    def __init__(self, url, protocol):
        self.run = 0
        self.context = ctypes.c_void_p()
        options = ctypes.c_void_p()
        util.av_dict_set(ctypes.byref(options), b"rtsp_transport", protocol.encode(), 0)
        # The socket's buffer bears a player that does not get the processor for a while.
        util.av_dict_set(ctypes.byref(options), b"buffer_size", b"4000000", 0)
        check(
            fmt.avformat_open_input(ctypes.byref(self.context), url.encode(), None, ctypes.byref(options)),
            "DESCRIBE, SETUP or PLAY",
        )
        check(fmt.avformat_find_stream_info(self.context, None), "the streams")
        self.kinds = {
            fmt.av_find_best_stream(self.context, kind, -1, -1, None, 0): name
            for kind, name in ((VIDEO, "video"), (AUDIO, "audio"))
        }
        self.packet = codec.av_packet_alloc()

    def say(self, **words):
        print(json.dumps(words), flush=True)

    def read(self):
        """Reads a packet; false at the end."""
        result = fmt.av_read_frame(self.context, self.packet)
        if result == AVERROR_EOF:
            return False
        check(result, "reading")
        packet = self.packet.contents
        data = ctypes.string_at(packet.data, packet.size)
        kind = self.kinds.get(packet.stream_index)
        if kind:
            hashes = nal_hashes(data) if kind == "video" else [hashed(data)]
            self.say(unit=kind, run=self.run, hashes=hashes)
        codec.av_packet_unref(self.packet)
        return True

    def step(self, name, value):
        if name == "seek":
            self.run += 1
        self.say(step=f"{name}:{value}", run=self.run)
        if name == "play":
            # Behind its time on a busy machine, it reads on: at a pause ffmpeg throws away what it has not read.
            until = time.monotonic() + float(value)
            while time.monotonic() < until or unread():
                if not self.read():
                    sys.exit("the stream ended early")
        elif name == "pause":
            check(fmt.av_read_pause(self.context), "PAUSE")
            time.sleep(float(value))
            check(fmt.av_read_play(self.context), "PLAY after PAUSE")
        elif name == "seek":
            place = int(float(value) * AV_TIME_BASE)
            check(fmt.av_seek_frame(self.context, -1, place, AVSEEK_FLAG_BACKWARD), "PLAY elsewhere")
        elif name == "doze":
            awake = time.monotonic()
            while self.read():
                if time.monotonic() - awake > 0.1:
                    time.sleep(float(value))
                    awake = time.monotonic()
            self.say(end=True, run=self.run)
        elif name == "end":
            while self.read():
                pass
            self.say(end=True, run=self.run)
        else:
            sys.exit(f"no such step: {name}")


def main():
    url, protocol, *steps = sys.argv[1:]
    viewer = Viewer(url, protocol)
    for step in steps:
        name, _, value = step.partition(":")
        viewer.step(name, value)
    fmt.avformat_close_input(ctypes.byref(viewer.context))


main()
