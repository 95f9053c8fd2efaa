#!/usr/bin/env python3
"""The smallest server of files with gst-rtsp-server: a factory a film, a pipeline a viewer.

    gst_server.py ADDRESS PORT FILM...        rtsp://ADDRESS:PORT/film0, film1, ...
"""
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address(sys.argv[1])
server.set_service(sys.argv[2])
server.set_backlog(128)
for number, path in enumerate(sys.argv[3:]):
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f'( filesrc location="{path}" ! qtdemux name=d '
        "d.video_0 ! queue ! rtph264pay mtu=1400 pt=96 name=pay0 "
        "d.audio_0 ! queue ! rtpmp4gpay mtu=1400 pt=97 name=pay1 )"
    )
    factory.set_shared(False)
    server.get_mount_points().add_factory(f"/film{number}", factory)
server.attach(None)
GLib.MainLoop().run()
