# What the tests of the director have in common: modules, and files of the guest.
MODULES="veth bridge ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_lblc ip_vs_lblcr ip_vs_dh ip_vs_sh ip_vs_mh ip_vs_sed ip_vs_nq sch_netem ipip ip6_tunnel fou fou6 nf_tables nft_chain_nat nft_nat nft_ct"
MEMORY=1024
# Times are instruction counts: the same however busy the machine is.
ICOUNT=yes
LIMIT=400
# Without the features that QEMU emulates most slowly and no test of the director needs: copying by
# single bytes (erms, fsrm), a fifth level of page tables, protection around each access to a
# program's memory. The tests take a third of the time.
CPU=max,erms=off,fsrm=off,la57=off,smap=off,smep=off,pku=off,pks=off

# put_director SECONDS: copies the server, a film of this many seconds, and the network.
put_director() {
    put_server
    put_film "$1"
    put_tools ip nft curl tc
    cp "$lab/director/network" "$lab/director/methods" "$overlay/"
}

# judge_methods METHOD...: checks the results of `methods` for each method.
judge_methods() {
    local method run failed=0 through back film
    film=$(stat -c %s "$overlay/film.mp4")
    for method in "$@"; do
        for run in udp tcp hls; do
            # Bytes that the director's machine received from edges and viewers.
            through=$(cat "$results/$method.$run.through")
            # Bytes that it sent to viewers.
            back=$(cat "$results/$method.$run.back")
            echo "$method $run: $(figure "$method.$run" verdict), $(figure "$method.$run" lost) lost, $through bytes to the director and $back from it to viewers, of a film of $film"
            [ "$(figure "$method.$run" verdict), $(figure "$method.$run" lost)" = "well, 0" ] || failed=1
            case $method in
            nat) [ "$through" -gt "$film" ] && [ "$back" -gt "$film" ] || failed=1 ;;
            *) [ "$through" -lt $((film / 5)) ] && [ "$back" = 0 ] || failed=1 ;;
            esac
        done
        # All settings are restored.
        cmp "$results/before" "$results/$method.after" || failed=1
    done
    return $failed
}

# put_failover: the same for two directors.
put_failover() {
    put_director 14
    put_tools keepalived
    cp "$lab/director/failover" "$overlay/"
}

# judge_failover: checks the results of `failover`.
judge_failover() {
    local method run failed=0 lost verdict
    for method in direct nat; do
        echo "$method: a director died: the address answers again after $(cat "$results/$method.died") ms; one ended: after $(cat "$results/$method.ended") ms"
        [ "$(cat "$results/$method.died")" -le 3000 ] || failed=1
        [ "$(cat "$results/$method.ended")" -le 1000 ] || failed=1
        for run in udp tcp hls; do
            lost=$(figure "$method.$run" lost) verdict=$(figure "$method.$run" verdict)
            echo "$method $run: $verdict, $lost lost of $(figure "$method.$run" packets)"
            case $method.$run in
            # Media passes through the director: packets sent while there is none are lost.
            nat.udp) [ "$verdict" = lost ] && [ "$lost" -gt 0 ] && [ "$lost" -lt $(($(figure "$method.$run" packets) / 4)) ] || failed=1 ;;
            *) [ "$verdict, $lost" = "well, 0" ] || failed=1 ;;
            esac
        done
        cmp "$results/before" "$results/$method.after" || failed=1
    done
    return $failed
}

# figure FILE NAME: prints a figure of the yardstick's results.
figure() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$results/$1.json" | head -n 1; }
