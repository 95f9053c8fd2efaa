# Functions shared by lab/run and its tests. Sourced, never run.
# shellcheck shell=bash

# prepare_base: makes the base of the guest's file system once; then it is cached.
prepare_base() {
    "$root/scripts/need" qemu-system-x86_64 busybox cpio xz
    mkdir -p "$target"
    exec 9>"$target/lock"
    flock 9
    if [ "$lab/init" -nt "$target/base.cpio" ] || [ "$lab/library.sh" -nt "$target/base.cpio" ]; then
        make_base
    fi
    flock -u 9
}

# prepare_kernel [SUITE]: gets the kernel once; then it is cached. Nothing is installed for it: its
# package is downloaded and unpacked. SUITE: another Debian release than this machine's, such as
# "trixie".
prepare_kernel() {
    tree=$target/kernel${1:+-$1}
    flock 9
    if [ ! -f "$tree/version" ]; then
        fetch_kernel "$tree" "$@"
    fi
    flock -u 9
    version=$(cat "$tree/version")
    kernel=$tree/boot/vmlinuz-$version
}

# fetch_kernel TREE [SUITE]: gets the kernel on which linux-image-cloud-amd64 depends.
fetch_kernel() {
    local tree=$1 suite=${2:-} meta=linux-image-cloud-amd64 package depends mirror download=$target/download apt=()
    if [ "${REELWAY_INSTALL:-yes}" = no ]; then
        echo "lab: the kernel${suite:+ of Debian $suite} is missing: lab/run --fetch gets it" >&2
        exit 1
    fi
    echo "lab: fetching a kernel${suite:+ of Debian $suite}" >&2
    rm -rf "$tree" "$download"
    mkdir -p "$download"
    depends() { apt-cache "${apt[@]}" depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1; }
    if [ -n "$suite" ]; then
        # Uses separate lists and settings, so that the machine's stay unchanged, and the machine's
        # mirror.
        "$root/scripts/need" debian-archive-keyring
        mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' "Created-By: Packages" | sed -n 's/^Debian //p' | head -n 1)
        mkdir -p "$download"/{lists,cache/archives}/partial
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $suite main" \
            >"$download/sources.list"
        apt=(-o Dir::Etc::sourcelist="$download/sources.list" -o Dir::Etc::sourceparts=-
            -o Dir::State::lists="$download/lists" -o Dir::Cache="$download/cache" -o APT::Sandbox::User=)
        apt-get "${apt[@]}" update -qq
    elif [ -z "$(depends)" ]; then
        "$root/scripts/need" --update || true
    fi
    depends=$(depends)
    # Outdated lists may name a kernel that has been replaced.
    (cd "$download" && apt-get "${apt[@]}" download -qq "$depends" 2>/dev/null) || {
        [ -z "$suite" ] && "$root/scripts/need" --update && depends=$(depends) &&
            (cd "$download" && apt-get "${apt[@]}" download -qq "$depends")
    } || {
        echo "lab: cannot download ${depends:-$meta}. Type: sudo apt-get update" >&2
        exit 1
    }
    package=$(echo "$download"/*.deb)
    dpkg -x "$package" "$tree"
    # Debian 13 has /usr/lib/modules, Debian 12 /lib/modules.
    if [ ! -d "$tree/lib/modules" ]; then
        mkdir -p "$tree/lib"
        ln -s ../usr/lib/modules "$tree/lib/modules"
    fi
    # Debian 13's modules are compressed, which busybox's depmod does not support.
    find "$tree/lib/modules/" -name '*.ko.xz' -exec xz -d {} +
    local found
    found=$(basename "$(echo "$tree"/lib/modules/*)")
    (cd "$tree" && busybox depmod -b . "$found")
    rm -rf "$download"
    echo "$found" >"$tree/version"
}

# make_base: makes the base: busybox, the directories, and init.
make_base() {
    local tree=$target/base
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,sbin,dev,proc,sys,tmp,etc,lib,lib64,results,modules,usr/bin}
    cp "$(command -v busybox)" "$tree/bin/busybox"
    for applet in $(busybox --list | grep -vx busybox); do
        ln -sf /bin/busybox "$tree/bin/$applet"
    done
    # A separate shell: busybox's prefers its built-in programs to those in PATH.
    overlay=$tree put_program "$(command -v dash)" /bin/dash
    ln -sf dash "$tree/bin/sh"
    cp "$lab/init" "$tree/init"
    chmod +x "$tree/init"
    echo 'root:x:0:0:root:/:/bin/sh' >"$tree/etc/passwd"
    pack "$tree" "$target/base.cpio"
}

# pack TREE FILE: makes an archive that the kernel unpacks. It is not compressed: decompression
# would take the guest's processor longer than all of its start.
pack() {
    (cd "$1" && find . | cpio --quiet -o -H newc -R 0:0) >"$2.new"
    mv "$2.new" "$2"
}

# put_program FILE [PATH]: copies a program into the guest as PATH, with the libraries it needs.
put_program() {
    local file=$1 path=${2:-/bin/$(basename "$1")}
    mkdir -p "$overlay$(dirname "$path")"
    cp -L "$file" "$overlay$path"
    put_libraries "$file"
}

# put_tools NAME...: copies programs of this machine, instead of busybox's smaller ones.
put_tools() {
    local name
    "$root/scripts/need" "$@"
    for name in "$@"; do
        put_program "$(PATH=$PATH:/usr/sbin:/sbin command -v "$name")" "/bin/$name"
    done
}

# put_server: copies the server, and `serve FILM TOML`, which starts it at 10.1.0.1 with a pool of
# POOL (16MiB) and waits until it is ready. `REELWAY_BIN`: another server.
put_server() {
    local binary=${REELWAY_BIN:-${CARGO_TARGET_DIR:-$root/target}/debug/reelway}
    [ -n "${REELWAY_BIN:-}" ] || (cd "$root" && cargo build --quiet --locked --package reelway --bin reelway)
    put_program "$binary" /bin/reelway
    # Debug information fills the guest's memory.
    strip "$overlay/bin/reelway"
    cat >"$overlay/bin/serve" <<'END'
#!/bin/sh
printf 'listen = "10.1.0.1"\nstate = "/tmp/state"\n[capacity]\nnet = "none"\n[pool]\nsize = "%s"\n%s\n' "${POOL:-16MiB}" "$2" >/tmp/reelway.toml
reelway serve "$1" --config /tmp/reelway.toml >/tmp/log 2>&1 &
for try in $(seq 100); do
    grep -q "films are ready" /tmp/log && exit 0
    sleep 0.1
done
cat /tmp/log
exit 1
END
    chmod +x "$overlay/bin/serve"
}

# put_film SECONDS: makes a film of 1.6 Mbit/s, /film.mp4.
put_film() {
    "$root/scripts/need" ffmpeg
    ffmpeg -v error -y -f lavfi -i "testsrc2=size=320x180:rate=25:duration=$1,noise=alls=20:allf=t" \
        -f lavfi -i "sine=frequency=440:duration=$1" -c:v libx264 -preset ultrafast -tune zerolatency \
        -pix_fmt yuv420p -g 25 -b:v 1500k -maxrate 1500k -bufsize 400k -c:a aac -b:a 64k -movflags +faststart \
        "$overlay/film.mp4"
}

# put_libraries FILE: copies the libraries that the dynamic linker will search for.
put_libraries() {
    local library
    # For a static program, ldd prints "not a dynamic executable".
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        mkdir -p "$overlay$(dirname "$library")"
        cp -nL "$library" "$overlay$library"
    done
}

# put_c SOURCE PATH [FLAG...]: compiles a C program for the guest.
put_c() {
    local source=$1 path=$2
    shift 2
    "$root/scripts/need" cc
    cc -O2 -Wall -Wno-nonnull -pthread "$@" -o "$work/program" "$source" -ldl
    put_program "$work/program" "$path"
}

# put_players TREE: makes a file system with ffmpeg, GStreamer and VLC and everything they need,
# which is too large for the guest's memory. `attach_players TREE` makes it a disk, /dev/vdb.
put_players() {
    local plugins name
    "$root/scripts/need" ffmpeg gst-launch-1.0 vlc mke2fs
    mkdir -p "$1"/{dev,proc,sys,tmp,results}
    plugins=$(dirname "$(echo /usr/lib/*/gstreamer-1.0/libgstrtsp.so)")
    overlay=$1 put_program "$(command -v ffmpeg)" /bin/ffmpeg
    overlay=$1 put_program "$(command -v gst-launch-1.0)" /bin/gst-launch-1.0
    for name in coreelements rtsp rtp rtpmanager udp tcp videoparsersbad; do
        overlay=$1 put_program "$plugins/libgst$name.so" "/plugins/libgst$name.so"
    done
    # VLC does not run as root.
    overlay=$1 put_program "$(command -v setpriv)" /bin/setpriv
    overlay=$1 put_program "$(command -v vlc)" /bin/vlc
    plugins=$(dirname "$(echo /usr/lib/*/vlc/plugins/plugins.dat)")
    for name in access/http access/filesystem access_output/access_output_file control/dummy demux/adaptive demux/mp4 demux/playlist \
        logger/console_logger mux/mux_ts packetizer/packetizer_copy packetizer/packetizer_h264 packetizer/packetizer_mpeg4audio stream_filter/inflate \
        stream_filter/prefetch stream_filter/cache_read stream_out/stream_out_standard; do
        overlay=$1 put_program "$plugins/${name%/*}/lib${name#*/}_plugin.so" "/vlc/lib${name#*/}_plugin.so"
    done
}
attach_players() {
    mke2fs -q -t ext4 -d "$1" "$work/players.img" 768M >/dev/null
    DISKS+=(-drive "file=$work/players.img,format=raw,if=none,id=players,readonly=on" -device virtio-blk-pci,drive=players)
}

# put_modules NAME...: copies kernel modules that are loaded at start, in this order, with their
# dependencies.
put_modules() {
    local modules=$tree/lib/modules/$version name line part
    mkdir -p "$overlay/modules"
    touch "$overlay/modules/order"
    for name in "$@"; do
        line=$(grep -E "/${name//[-_]/[-_]}\.ko[^:]*:" "$modules/modules.dep" || true)
        if [ -z "$line" ]; then
            grep -qE "/${name//[-_]/[-_]}\.ko" "$modules/modules.builtin" && continue
            echo "lab: the kernel $version has no module $name" >&2
            exit 1
        fi
        # "a.ko: b.ko c.ko": c is loaded first, a last.
        for part in $(echo "$line" | tr -d : | tr ' ' '\n' | tac); do
            part=$(basename "$part")
            grep -qx "$part" "$overlay/modules/order" && continue
            echo "$part" >>"$overlay/modules/order"
            cp "$(find "$modules" -name "$part")" "$overlay/modules/"
        done
    done
}

# qemu WORK ARGUMENT...: runs the guest with the overlay in WORK.
qemu() {
    local work=$1
    shift
    pack "$work/overlay" "$work/overlay.cpio"
    cat "$target/base.cpio" "$work/overlay.cpio" >"$work/initrd"
    # The disk to which the guest writes its results, as one archive.
    truncate -s 64M "$work/results.img"
    local counting=()
    # One instruction is one nanosecond: times in the guest are instruction counts, the same in
    # every run.
    [ "${ICOUNT:-no}" = yes ] && counting=(-icount shift=0,sleep=off)
    "${limiter[@]}" qemu-system-x86_64 \
        -accel tcg -cpu "${CPU:-max}" -smp "${CPUS:-1}" -m "${MEMORY:-512}" \
        -nographic -no-reboot -nic none -nodefaults -serial stdio \
        -kernel "$kernel" -initrd "$work/initrd" \
        -drive "file=$work/results.img,format=raw,if=none,id=results" \
        -device virtio-blk-pci,drive=results \
        "${DISKS[@]}" "${counting[@]}" "$@"
}

# boot WORK RESULTS KERNEL_ARGS LIMIT: runs the guest to its end, for LIMIT seconds at most.
# Programs have the same addresses in every run (norandmaps), as QEMU would otherwise translate them
# each time.
boot() {
    local limiter=(timeout --foreground "$4")
    qemu "$1" -append "console=ttyS0 quiet panic=-1 norandmaps $3" </dev/null >"$2/console" 2>&1
}

# interactive WORK: runs the guest with a shell on this terminal.
interactive() {
    local limiter=()
    qemu "$1" -append "console=ttyS0 quiet panic=-1 lab.shell"
}

# forwarding WORK: runs the guest on this terminal, with its ports 8080 and 8090 at this machine's
# 127.0.0.1.
forwarding() {
    local limiter=()
    qemu "$1" -netdev "user,id=net,hostfwd=tcp:127.0.0.1:8090-:8090,hostfwd=tcp:127.0.0.1:8080-:8080" \
        -device virtio-net-pci,netdev=net,romfile= -append "console=ttyS0 quiet panic=-1"
}
