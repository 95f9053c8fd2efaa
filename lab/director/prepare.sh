# What the tests of the director have in common: the modules, and the guest's files.
MODULES="veth bridge ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_lblc ip_vs_lblcr ip_vs_dh ip_vs_sh ip_vs_mh ip_vs_sed ip_vs_nq ipip fou nf_tables nft_chain_nat nft_nat nft_ct"
MEMORY=1024
# Times are instructions: the same however busy the machine is.
ICOUNT=yes
LIMIT=400

# put_director SECONDS: the server, a film of so many seconds, and the network.
put_director() {
    put_server
    put_film "$1"
    put_tools ip nft curl
    cp "$lab/director/network" "$overlay/network"
}

# figure FILE NAME: what the yardstick saw.
figure() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$results/$1.json" | head -n 1; }
