"""GStreamer's playbin as a viewer over HTTP: plays an address in real time and prints what it shows.

usage: playbin.py URL STEP...
  play:S   play for S seconds
  seek:T   seek to T seconds, exactly
  end:S    play to the end, at most for S seconds

Prints a line of JSON for each frame that is shown: `{"kind", "run", "at", "wall"}` (presentation time and wall
clock in seconds; run counts the seeks), for each error, and at the end `{"end": true}`. GStreamer's warnings go to
standard error.
"""

import json
import os
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

os.environ.setdefault("GST_DEBUG", "2")
os.environ.setdefault("GST_DEBUG_NO_COLOR", "1")
Gst.init(None)

# PyGObject makes a class when its name is first used, and two streaming threads that do so at once get one each.
# So what the sinks' threads use is named here, and their members, which are looked up when they are first used.
KINDS = (Gst.Buffer, Gst.Sample, Gst.Segment, Gst.Buffer.pts, Gst.Sample.get_buffer, Gst.Segment.to_stream_time)
TIME, SECOND, OK = Gst.Format.TIME, Gst.SECOND, Gst.FlowReturn.OK


def say(**line):
    # One write a line: picture and sound speak from threads of their own.
    os.write(1, (json.dumps(line) + "\n").encode())


class Viewer:
    def __init__(self, url, steps):
        self.steps = steps
        self.run = 0
        self.loop = GLib.MainLoop()
        self.player = Gst.ElementFactory.make("playbin3" if "/file" not in url else "playbin", None)
        if self.player is None:
            sys.exit("no playbin: install gstreamer1.0-plugins-base")
        self.player.set_property("uri", url)
        for kind in ("video", "audio"):
            sink = Gst.ElementFactory.make("appsink", None)
            sink.set_property("sync", True)
            sink.set_property("emit-signals", True)
            sink.set_property("max-buffers", 5)
            sink.connect("new-sample", self.shown, kind)
            self.player.set_property(kind + "-sink", sink)
        bus = self.player.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.told)

    def shown(self, sink, kind):
        sample = sink.emit("pull-sample")
        buffer, segment = sample.get_buffer(), sample.get_segment()
        at = segment.to_stream_time(TIME, buffer.pts)
        say(kind=kind, run=self.run, at=at / SECOND, wall=time.monotonic())
        return OK

    def told(self, _bus, message):
        if message.type == Gst.MessageType.ERROR:
            error, debug = message.parse_error()
            say(error=f"{error.message}: {debug}")
            self.loop.quit()
        elif message.type == Gst.MessageType.EOS:
            say(end=True)
            self.loop.quit()
        elif message.type == Gst.MessageType.ASYNC_DONE and self.waiting:
            # The first frame is there, after the start or a seek.
            self.waiting = False
            self.player.set_state(Gst.State.PLAYING)
            self.step()

    def step(self):
        if not self.steps:
            say(error="not at the end after the last step")
            self.loop.quit()
            return False
        word, value = self.steps.pop(0).split(":")
        if word == "seek":
            self.run += 1
            self.waiting = True
            flags = Gst.SeekFlags.FLUSH | Gst.SeekFlags.ACCURATE
            if not self.player.seek_simple(Gst.Format.TIME, flags, int(float(value) * Gst.SECOND)):
                say(error=f"cannot seek to {value}")
        else:
            GLib.timeout_add(int(float(value) * 1000), self.step)
        return False

    def watch(self):
        self.waiting = True
        self.player.set_state(Gst.State.PAUSED)
        self.loop.run()
        self.player.set_state(Gst.State.NULL)


Viewer(sys.argv[1], sys.argv[2:]).watch()
