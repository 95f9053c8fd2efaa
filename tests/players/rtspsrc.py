#!/usr/bin/python3
"""GStreamer's rtspsrc as a viewer: plays, seeks and pauses as told, and says what came.

    rtspsrc.py URL udp|tcp STEP...

Steps: `play:SECONDS` (from when all tracks have begun), `seek:SECONDS` (of the film), `pause:SECONDS`, `end` (to the film's end).

Writes JSON, one object a line:
    {"unit": "video", "run": 1, "at": 2.04, "hashes": [...]}     an access unit as received
    {"frame": "video", "run": 1, "at": 2.04}                     a decoded frame
    {"step": "seek:2", "run": 1}                                 a step begins
    {"end": true, "run": 1}                                       the film's end was reached
`run` counts the seeks; `at` is the film's time in seconds (null where there is none). `hashes` are
length and CRC-32 of the NAL units without access unit delimiters and parameter sets, of the OBUs without
temporal delimiters and sequence headers, or of the whole picture or the sound's access unit where there
are none. A unit of AV1 is what is whole after a packet: part of a picture, or all of it; `stamp` is the packet's RTP timestamp,
which all parts of a picture have in common.

In the environment, LATENCY_MS is what it waits for late packets, 200 by default. OBUS_TO is a file to which
the OBUs of AV1 are written, as decoders read them. With UNDECODED nothing is decoded.

Ends with 1 and words on standard error when something fails.
"""

import json
import os
import re
import sys
import threading
import zlib

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

# Seconds that a change of state or a seek may take.
PATIENCE = 20

# PyGObject makes a class when its name is first used, and two streaming threads that do so at once get one each.
# So what the probes use is named here.
KINDS = (Gst.Buffer, Gst.Caps, Gst.Event, Gst.PadProbeInfo, Gst.Segment, Gst.Structure)
EVENT = Gst.PadProbeType.EVENT_DOWNSTREAM
BOTH = Gst.PadProbeType.BUFFER | EVENT
PASS, LINKED = Gst.PadProbeReturn.OK, Gst.PadLinkReturn.OK
SEGMENT, TIME = Gst.EventType.SEGMENT, Gst.Format.TIME
NO_TIME, SECOND = Gst.CLOCK_TIME_NONE, Gst.SECOND

# Kinds of OBUs.
SEQUENCE, DELIMITER = 1, 2

BRANCHES = {
    "H264": "rtph264depay name=depay ! video/x-h264,stream-format=byte-stream,alignment=au"
    " ! h264parse ! avdec_h264",
    "H265": "rtph265depay name=depay ! video/x-h265,stream-format=byte-stream,alignment=au"
    " ! h265parse ! avdec_h265",
    "MPEG4-GENERIC": "rtpmp4gdepay name=depay ! aacparse ! avdec_aac",
    "OPUS": "rtpopusdepay name=depay ! opusparse ! avdec_opus",
    # This depayloader gives what a packet carries, not a whole picture.
    "MPV": "rtpmpvdepay ! mpegvideoparse name=depay ! avdec_mpeg2video",
    "MP4V-ES": "rtpmp4vdepay name=depay ! mpeg4videoparse ! avdec_mpeg4",
    "VP8": "rtpvp8depay name=depay ! vp8dec",
    "VP9": "rtpvp9depay name=depay ! vp9dec",
    "MPA": "rtpmpadepay name=depay ! mpegaudioparse ! mpg123audiodec",
    "AC3": "rtpac3depay name=depay ! ac3parse ! avdec_ac3",
    # There is no depayloader for it. Packets of whole frames have the same head as those of AC-3: 0, and how many frames there
    # are (RFC 4184 4.1.1, RFC 4598 4.1.1).
    "EAC3": "capssetter caps=application/x-rtp,encoding-name=AC3 ! rtpac3depay name=depay ! ac3parse ! avdec_eac3",
    # This depayloader gives what is whole after each packet. It leaves out the mark between two pictures where the second
    # begins with a fragment, so that the decoder may miss some: OBUS_TO has all.
    "AV1": "rtpav1depay name=depay ! av1parse ! av1dec",
    "VORBIS": "rtpvorbisdepay name=depay ! vorbisdec",
}


def hashed(data):
    return f"{len(data)}-{zlib.crc32(data):08x}"


def nal_hashes(data, encoding):
    """Hashes of the NAL units of a byte stream."""
    hashes = []
    for unit in re.split(b"\x00\x00\x01", data)[1:]:
        unit = unit.rstrip(b"\x00")
        if not unit:
            continue
        if encoding == "H264":
            skip = unit[0] & 0x1F in (7, 8, 9)
        else:
            skip = 32 <= (unit[0] >> 1 & 0x3F) <= 35
        if not skip:
            hashes.append(hashed(unit))
    return hashes


def obus(data):
    """OBUs: what kind each is, its bytes without its size, and with it."""
    while data:
        head = data[:1] if not data[0] & 4 else data[:2]
        at, size = len(head), 0
        for nth in range(8):
            size |= (data[at] & 0x7F) << 7 * nth
            at += 1
            if not data[at - 1] & 0x80:
                break
        whole = data[: at + size]
        yield head[0] >> 3 & 15, bytes([head[0] & ~2]) + head[1:] + whole[at:], whole
        data = data[at + size :]


class Obus:
    """A file of the OBUs that came: those of one timestamp, behind a temporal delimiter, are one unit."""

    def __init__(self, path):
        self.file = open(path, "wb", buffering=0)
        self.stamp = None

    def take(self, stamp, units):
        if stamp != self.stamp:
            self.stamp = stamp
            self.file.write(b"\x12\x00")
        self.file.write(b"".join(whole for kind, _, whole in units if kind != DELIMITER))


class Viewer:
    def __init__(self, url, protocol):
        self.lock = threading.Lock()
        self.run = 0
        self.failure = None
        self.sinks = []
        # Whether all tracks are there, and how many have shown something.
        self.complete = False
        self.shown = 0
        self.obus = Obus(os.environ["OBUS_TO"]) if "OBUS_TO" in os.environ else None
        self.pipeline = Gst.Pipeline.new()
        self.source = Gst.ElementFactory.make("rtspsrc")
        self.source.set_property("location", url)
        self.source.set_property("latency", int(os.environ.get("LATENCY_MS", 200)))
        # The socket's buffer bears a player that does not get the processor for a while.
        self.source.set_property("udp-buffer-size", 4_000_000)
        Gst.util_set_object_arg(self.source, "protocols", protocol)
        self.source.connect("pad-added", self.pad_added)
        self.source.connect("no-more-pads", self.no_more_pads)
        self.pipeline.add(self.source)
        self.bus = self.pipeline.get_bus()

    def say(self, **words):
        with self.lock:
            print(json.dumps(words), flush=True)

    def tell(self, name):
        """Wakes up who waits for the first of each track."""
        words = Gst.Structure.new_empty(name)
        self.bus.post(Gst.Message.new_application(self.source, words))

    def no_more_pads(self, _source):
        self.complete = True
        self.tell("complete")

    def pad_added(self, _source, pad):
        caps = pad.get_current_caps().get_structure(0)
        kind, encoding = caps.get_string("media"), caps.get_string("encoding-name")
        elements = BRANCHES[encoding]
        if "UNDECODED" in os.environ:
            # The decoder is the last one.
            elements = elements.rpartition(" ! ")[0]
        branch = Gst.parse_bin_from_description(f"queue ! {elements} ! fakesink name=sink sync=true", True)
        # Of units and frames: the segment, and the run in which it began. What passes between a seek's call and its flush
        # belongs to the run before.
        segments = {}
        # Of the packet at hand, where units are put together by it: rtspsrc corrects the times of units by when packets come.
        stamp = {}
        # Whether something was shown.
        shown = []

        def begins(where, event):
            if event.type == SEGMENT:
                segments[where] = (event.parse_segment(), self.run)

        def place(where, buffer):
            segment, run = segments.get(where, (None, self.run))
            if segment is None or buffer.pts == NO_TIME:
                return {"run": run, "at": None}
            time = segment.to_stream_time(TIME, buffer.pts)
            return {"run": run, "at": None if time == NO_TIME else time / SECOND}

        def stamped(_pad, info):
            stamp["stamp"] = int.from_bytes(info.get_buffer().extract_dup(4, 4), "big")
            return PASS

        def received(_pad, info):
            event = info.get_event() if info.type & EVENT else None
            if event is not None:
                begins("unit", event)
                return PASS
            buffer = info.get_buffer()
            data = buffer.extract_dup(0, buffer.get_size())
            # Headers of Vorbis come from the session description.
            if encoding == "VORBIS" and data[:1] in (b"\x01", b"\x03", b"\x05"):
                return PASS
            if encoding in ("H264", "H265"):
                hashes = nal_hashes(data, encoding)
            elif encoding == "AV1":
                units = list(obus(data))
                if self.obus:
                    self.obus.take(stamp["stamp"], units)
                hashes = [hashed(unit) for kind, unit, _ in units if kind not in (SEQUENCE, DELIMITER)]
            else:
                hashes = [hashed(data)]
            self.say(unit=kind, **place("unit", buffer), **stamp, hashes=hashes)
            return PASS

        def decoded(_pad, info):
            event = info.get_event() if info.type & EVENT else None
            if event is not None:
                begins("frame", event)
                return PASS
            self.say(frame=kind, **place("frame", info.get_buffer()))
            if not shown:
                shown.append(True)
                with self.lock:
                    self.shown += 1
                self.tell("shown")
            return PASS

        self.sinks.append(branch.get_by_name("sink"))
        depay = branch.get_by_name("depay")
        if encoding == "AV1":
            depay.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, stamped)
        depay.get_static_pad("src").add_probe(BOTH, received)
        branch.get_by_name("sink").get_static_pad("sink").add_probe(BOTH, decoded)
        self.pipeline.add(branch)
        branch.sync_state_with_parent()
        if pad.link(branch.get_static_pad("sink")) != LINKED:
            self.failure = f"cannot link {encoding}"

    def wait(self, seconds, until=None):
        """Waits for a kind of message; true when it came. Ends on an error."""
        kinds = Gst.MessageType.ERROR | Gst.MessageType.EOS
        if until:
            kinds |= until
        deadline = GLib.get_monotonic_time() + int(seconds * 1e6)
        while True:
            left = (deadline - GLib.get_monotonic_time()) * 1000
            message = self.bus.timed_pop_filtered(max(left, 0), kinds)
            if self.failure:
                sys.exit(self.failure)
            if message is None:
                return False
            if message.type == Gst.MessageType.ERROR:
                sys.exit(" ".join(map(str, message.parse_error())))
            if until and message.type & until:
                return True
            if message.type == Gst.MessageType.EOS:
                sys.exit("the stream ended early")

    def state(self, state):
        if self.pipeline.set_state(state) == Gst.StateChangeReturn.FAILURE:
            self.wait(1)
            sys.exit(f"{state} refused")

    def wait_for_buffers(self, do):
        """Whether a change of state or a seek is done only when each sink has something to show."""
        for sink in self.sinks:
            sink.set_property("async", do)

    def step(self, name, value):
        if name == "seek":
            self.run += 1
        self.say(step=f"{name}:{value}", run=self.run)
        if name == "play":
            self.state(Gst.State.PLAYING)
            # A busy machine may take longer to begin than is to be played.
            while not self.complete or self.shown < len(self.sinks):
                if not self.wait(PATIENCE, Gst.MessageType.APPLICATION):
                    sys.exit("nothing came")
            self.wait(float(value))
        elif name == "pause":
            # A sink that has nothing at hand would wait for the next buffer, and PLAYING for that: rtspsrc would pause for good,
            # for it gets none before it has sent PLAY. That is so where packets were late.
            self.wait_for_buffers(False)
            self.state(Gst.State.PAUSED)
            self.wait(float(value))
            self.state(Gst.State.PLAYING)
            self.wait_for_buffers(True)
        elif name == "seek":
            place = int(float(value) * SECOND)
            if not self.pipeline.seek_simple(TIME, Gst.SeekFlags.FLUSH, place):
                sys.exit("the seek was refused")
            if not self.wait(PATIENCE, Gst.MessageType.ASYNC_DONE):
                sys.exit("nothing came after the seek")
        elif name == "end":
            if not self.wait(float(value or 60), Gst.MessageType.EOS):
                sys.exit("the film did not end")
            self.say(end=True, run=self.run)
        else:
            sys.exit(f"no such step: {name}")


def main():
    Gst.init(None)
    url, protocol, *steps = sys.argv[1:]
    viewer = Viewer(url, protocol)
    try:
        for step in steps:
            name, _, value = step.partition(":")
            viewer.step(name, value)
    finally:
        viewer.pipeline.set_state(Gst.State.NULL)


main()
