"""GStreamer's rtspsrc as a receiver of transport streams: writes what comes to a file, until the stream ends.

usage: multiplex.py URL PROTOCOL FILE
"""

import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

Gst.init(None)
url, protocol, path = sys.argv[1:]
pipeline = Gst.parse_launch("rtspsrc name=source ! rtpmp2tdepay ! filesink name=file")
source = pipeline.get_by_name("source")
source.set_property("location", url)
source.set_property("protocols", protocol)
# A machine with other things to do reads late.
source.set_property("udp-buffer-size", 4 << 20)
pipeline.get_by_name("file").set_property("location", path)
loop = GLib.MainLoop()
failed = []


def on_message(_bus, message):
    if message.type == Gst.MessageType.ERROR:
        failed.append(message.parse_error())
        loop.quit()
    elif message.type == Gst.MessageType.EOS:
        loop.quit()


bus = pipeline.get_bus()
bus.add_signal_watch()
bus.connect("message", on_message)
pipeline.set_state(Gst.State.PLAYING)
loop.run()
pipeline.set_state(Gst.State.NULL)
if failed:
    sys.exit(f"multiplex.py: {failed}")
