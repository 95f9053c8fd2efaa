# What the clock's tests share: the preload library in the guest, and C programs that use it.
# shellcheck shell=bash

# put_clock: copies the library as shipped to /lib/clock.so, and `await-counter`, for tests with
# COUNTER_CLOCK. Until the kernel has measured the counter, some seconds after its start, its clock
# source is tsc-early, which the library does not trust.
put_clock() {
    (cd "$root" && cargo build --quiet --locked --profile preload --package reelway-clock-preload)
    put_program "${CARGO_TARGET_DIR:-$root/target}/preload/libreelway_clock_preload.so" /lib/clock.so
    mkdir -p "$overlay/bin"
    cat >"$overlay/bin/await-counter" <<'END'
#!/bin/sh
source=/sys/devices/system/clocksource/clocksource0/current_clocksource
for try in $(seq 300); do
    [ "$(cat $source)" = tsc ] && exit 0
    sleep 0.1
done
echo "the kernel's clock source is $(cat $source)"
exit 1
END
    chmod +x "$overlay/bin/await-counter"
}

# put_clock_program SOURCE PATH: compiles a C program that uses the checks of the library's own
# tests.
put_clock_program() {
    put_c "$1" "$2" -I "$root/crates/clock-preload/tests/c"
}

# The kernel uses the counter although QEMU without KVM does not report it as invariant.
COUNTER_CLOCK="clocksource=tsc tsc=reliable"

# judge_cost SOURCE: checks that the kernel used that source, that the library said so, and that a
# reading by the library costs at most a fifth of one by the kernel.
judge_cost() {
    head -n 1 "$results/output" | grep -qx "$1" || { echo "the clock source was another" >&2; return 1; }
    grep -q "comes from the kernel's clock: the kernel's clock source is $1" "$results/output" || return 1
    awk '
        { cost[$1] = $2 }
        END {
            status = 0
            for (name in cost) if (sub(/^kernel-/, "", name)) {
                ratio = cost["kernel-" name] / cost["ours-" name]
                printf "%s: %.1f times faster\n", name, ratio
                if (ratio < 5) status = 1
            }
            exit status
        }' "$results/costs"
}
