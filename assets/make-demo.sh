#!/bin/sh
# Makes demo.mp4, the film that `make run` shows and the tests measure. Needs ffmpeg with x264 and the
# DejaVu fonts; the film is committed, so nobody has to run this to use Reelway.
#
# A film leader of 24 s, 640x360 at 25 pictures a second, H.264 with B-frames and a sync picture every
# 2 s, AAC stereo at 48 kHz, index at the front. What the tests rely on:
#
#   - at each full second, 0 included, two pictures (25n and 25n+1) have a white disc in the dial, and a
#     beep of 1 kHz and 60 ms starts with the first of them; between the beeps there is silence;
#   - the square of 48x48 at (370, 132), in the disc and clear of the digits, is white (luma > 200) in those
#     two pictures and dark (luma < 80) in all others;
#   - the mark on the ruler passes a tick at each full second, the hand of the dial points straight up.
#
# usage: make-demo.sh [OUTPUT]
set -eu
out=${1:-"$(dirname "$0")/demo.mp4"}
seconds=24
rate=25

paper=0xE9EDF4   # text
soft=0x8793A8    # secondary text, ticks
amber=0xF4A742   # accent: what moves
ink=0x0F141D     # text on the flash

sans='DejaVu Sans'
mono='DejaVu Sans Mono'

# The dial: centre (450, 156), outer ring of radius 112, inner ring of radius 92.
cx=450 cy=156 outer=112 inner=92
ring() { # ring RADIUS WIDTH: coverage 0..1 of an antialiased ring
  echo "clip($2/2+0.5-abs(hypot(X-$cx,Y-$cy)-$1),0,1)"
}
cross="0.20*(lt(abs(X-$cx),0.6)*lt(abs(Y-$cy),136)+lt(abs(Y-$cy),0.6)*lt(abs(X-$cx),150))"
lines="max($cross,0.75*max($(ring $outer 2),$(ring $inner 1.4)))"
shade="(1-0.40*pow(hypot(X-$cx,Y-$cy)/520,1.5))"   # lighter behind the dial, darker to the corners

ruler_x=40 ruler_y=322 ruler_w=560   # the mark crosses the ruler in 4 s: a tick a second
ticks=
for i in 0 1 2 3 4; do
  ticks="$ticks,drawbox=x=$((ruler_x + i * ruler_w / 4 - 1)):y=$((ruler_y - 8)):w=2:h=16:color=$soft:t=fill"
done
for i in 1 2 3 5 6 7 9 10 11 13 14 15; do
  ticks="$ticks,drawbox=x=$((ruler_x + i * ruler_w / 16)):y=$((ruler_y - 4)):w=1:h=8:color=$soft@0.6:t=fill"
done
flash="lt(mod(n\,$rate)\,2)"
digit="text='%{eif\:floor(t)\:d}':font='$sans':fontsize=84:x=$cx-text_w/2:y=$cy-30"

ffmpeg -hide_banner -loglevel error -y -filter_complex "
  color=black:s=640x360:r=$rate:d=0.04,format=gbrp,geq=
    r='(26*$shade)*(1-$lines)+135*$lines':
    g='(35*$shade)*(1-$lines)+147*$lines':
    b='(51*$shade)*(1-$lines)+168*$lines',
    drawbox=x=$ruler_x:y=$ruler_y:w=$ruler_w:h=1:color=$soft@0.6:t=fill$ticks,
    drawtext=text='Reelway':font='$sans':fontsize=50:fontcolor=$paper:x=38:y=44,
    drawtext=text='demo film':font='$sans':fontsize=20:fontcolor=$amber:x=41:y=103,
    drawtext=text='640 × 360, 25 pictures a second':font='$sans':fontsize=12:fontcolor=$soft:x=41:y=238,
    drawtext=text='flash and beep on the second':font='$sans':fontsize=12:fontcolor=$soft:x=41:y=257,
    loop=loop=-1:size=1:start=0,setpts=N/$rate/TB,trim=duration=$seconds[card];

  color=$amber:s=224x224:r=$rate:d=$seconds,format=rgba,geq=r='244':g='167':b='66':
    a='255*clip($outer-hypot(X-112,Y-112),0,1)*clip(hypot(X-112,Y-112)-$inner,0,1)
       *clip(1-mod(T-atan2(X-112,112-Y)/(2*PI)+2,1)*1.4,0,1)'[sweep];

  color=white:s=184x184:r=$rate:d=$seconds,format=rgba,geq=r='250':g='250':b='246':
    a='255*clip($inner-2-hypot(X-92,Y-92),0,1)'[disc];

  [card][sweep]overlay=x=$((cx - 112)):y=$((cy - 112)):format=gbrp[dial];
  [dial][disc]overlay=x=$((cx - 92)):y=$((cy - 92)):format=gbrp:enable='$flash'[lit];
  [lit]
    drawtext=$digit:fontcolor=$paper:enable='not($flash)',
    drawtext=$digit:fontcolor=$ink:enable='$flash',
    drawtext=text='%{pts\:hms}':font='$mono':fontsize=27:fontcolor=$paper:x=24:y=158,
    drawtext=text='picture %{eif\:n\:d\:4}':font='$mono':fontsize=16:fontcolor=$soft:x=41:y=196[text];
  color=$amber:s=4x28:r=$rate:d=$seconds[mark];
  [text][mark]overlay=x='$ruler_x+$ruler_w*mod(t,4)/4-2':y=$((ruler_y - 14)):format=gbrp,
    scale=out_color_matrix=bt709:out_range=tv,format=yuv420p[v];

  aevalsrc='0.4*sin(2000*PI*t)*lt(mod(t,1),0.06)*min(1,(0.06-mod(t,1))*200)':s=48000:d=$seconds,
    pan=stereo|c0=c0|c1=c0[a]" \
  -map '[v]' -map '[a]' -t $seconds \
  -c:v libx264 -preset veryslow -crf 19 -profile:v high -bf 3 -g $((2 * rate)) -keyint_min $((2 * rate)) -sc_threshold 0 \
  -colorspace bt709 -color_primaries bt709 -color_trc bt709 \
  -c:a aac -b:a 96k -metadata title='Reelway demo film' -metadata:s:a:0 language=eng \
  -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -movflags +faststart "$out"
