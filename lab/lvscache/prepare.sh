# Puts the caches' programs into the guest; sourced on the host.

# put_caches SERVER: copies what it needs in the guest.
put_caches() {
    mkdir -p "$overlay/etc"
    # Squid drops root privileges.
    printf 'root:x:0:0:root:/:/bin/sh\nproxy:x:13:13:proxy:/:/bin/sh\n' >"$overlay/etc/passwd"
    printf 'root:x:0:\nproxy:x:13:\n' >"$overlay/etc/group"
    case $1 in
    reelway) ;;
    squid)
        put_tools squid
        put_program /usr/lib/squid/unlinkd /usr/lib/squid/unlinkd
        mkdir -p "$overlay/etc/squid" "$overlay/usr/share" "$overlay/var/log/squid" "$overlay/var/spool/squid" "$overlay/var/run"
        cp -r /usr/share/squid "$overlay/usr/share/"
        ;;
    nginx) put_tools nginx; mkdir -p "$overlay/var/lib/nginx" "$overlay/var/log/nginx" "$overlay/etc/nginx" ;;
    varnish)
        put_tools varnishd
        # It compiles its configuration into a library. This is done here, as the guest has no
        # compiler.
        compiler="cc -O2 -pthread -fpic -shared -o %o %s && cp %o $overlay/films.so"
        varnishd -j none -C -f "$lab/lvscache/films.vcl" -n "$work/varnish" -p cc_command="$compiler" 2>/dev/null
        [ -f "$overlay/films.so" ] || { echo "varnishd has not compiled its configuration" >&2; exit 1; }
        cp "$lab/lvscache/films.vcl" "$overlay/"
        ;;
    *) echo "no such cache: $1" >&2; exit 2 ;;
    esac
}
