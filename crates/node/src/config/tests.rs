use super::*;

#[test]
fn the_reference_shows_the_defaults() {
    let shown: Config = toml::from_str(REFERENCE).unwrap();
    assert_eq!(shown, Config::default());
    shown.check().unwrap();
}

#[test]
fn the_reference_shows_every_key() {
    // A key that the reference lacks would get its default, so parsing the reference does not
    // reveal it. Count keys instead.
    let table: toml::Table = toml::from_str(REFERENCE).unwrap();
    let shown: usize = table
        .values()
        .map(|value| value.as_table().map_or(1, |table| table.len()))
        .sum();
    let debug = format!("{:#?}", Config::default());
    let sections = [
        "rtsp:",
        "rtp:",
        "http:",
        "tls:",
        "pool:",
        "tier:",
        "sessions:",
        "capacity:",
        "admission:",
        "sender:",
        "log:",
        "index:",
        "siblings:",
    ];
    let keys = debug
        .lines()
        // There are no sources by default; their keys are checked in `sources.rs`.
        .filter(|line| line.contains(": ") && !line.contains(" source: ["))
        .filter(|line| {
            !sections
                .iter()
                .any(|section| line.trim_start().starts_with(section) && line.ends_with('{'))
        })
        .count();
    // ByteSize prints as a tuple of one number on a line of its own without a key.
    assert_eq!(
        shown, keys,
        "config.toml and config.rs differ in their keys:\n{debug}"
    );
}

#[test]
fn a_wrong_key_is_named_with_its_line() {
    let error = toml::from_str::<Config>("[rtp]\nmtu = 1400\nbrust = 4\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 3") && error.contains("brust") && error.contains("burst"),
        "{error}"
    );
}

#[test]
fn a_value_out_of_its_range_is_named_with_its_line() {
    for (text, wanted) in [
        (
            "films = []\n[rtp]\nport = 1\nmtu = 100\n",
            "line 4: rtp.mtu = 100: must lie between 576 and 9216",
        ),
        (
            "[pool]\npolicy = \"random\"\n",
            "line 2: pool.policy = \"random\": there is no cache policy `random`",
        ),
        (
            "[http]\nedge_tokens = [\"short\"]\n",
            "line 2: http.edge_tokens: a token has fewer than 16 characters",
        ),
        (
            "[http]\n[tls]\nport = 443\ncertificate = \"tv.pem\"\n",
            "line 4: tls.certificate = \"tv.pem\": wants tls.key, the file of its private key",
        ),
        (
            "[tls]\nkey = \"tv.key\"\n",
            "line 2: tls.key = \"tv.key\": wants tls.certificate, the file of its certificate",
        ),
        (
            "[capacity]\nnet = \"0Mbit\"\n",
            "line 2: capacity.net = \"0Mbit\": must be more than 0",
        ),
        (
            "[capacity]\nnet = \"-5Mbit\"\n",
            "line 2: capacity.net = \"-5Mbit\": must be a rate, such as 100Mbit",
        ),
        (
            "[capacity]\ncpu = \"1.5\"\n",
            "line 2: capacity.cpu = \"1.5\": a share must be more than 0 and at most 1",
        ),
        (
            "[capacity]\ninterfaces = { eth0 = \"0bit\" }\n",
            "line 2: capacity.interfaces: eth0 = \"0bit\": must be more than 0",
        ),
        (
            "[capacity]\ninterfaces = { eth0 = \"auto\" }\n",
            "line 2: capacity.interfaces: eth0 = \"auto\": must be a rate",
        ),
        (
            "[admission]\nclasses = [{ name = \"a\", percent = 0 }]",
            "line 2: admission.classes: class \"a\": percent = 0: must lie between 1 and 100",
        ),
        (
            "[admission]\nclasses = [{ name = \"a\", percent = 50, networks = [\"10.0.0.0/33\"] }]",
            "line 2: admission.classes: class \"a\": `10.0.0.0/33` is not a network",
        ),
        (
            "[admission]\nper_user = 2",
            "line 2: admission.per_user = 2: wants admission.user_key, as nobody is known without it",
        ),
        (
            "admission.policy = \"fair\"\n",
            "line 1: admission.policy = \"fair\": unknown policy `fair`",
        ),
        (
            "[capacity]\nqueue = 0\n",
            "line 2: capacity.queue = 0: must lie between 1 and 1000",
        ),
        (
            "[sessions]\nunplayed_per_connection = 0\n",
            "line 2: sessions.unplayed_per_connection = 0: must lie between 1 and 4294967295",
        ),
        (
            "[sender]\nrealtime = 100\n",
            "line 2: sender.realtime = 100: must lie between 0 and 99",
        ),
        (
            "[sender]\ncatch_up = 1\n",
            "line 2: sender.catch_up = 1: must lie between 2 and 60000",
        ),
        (
            "[sender]\ndrop_after = 0\n",
            "line 2: sender.drop_after = 0: must lie between 1 and 60000",
        ),
        (
            "[sender]\nthreads = 1\ncores = [0, 5000]\n",
            "line 3: sender.cores = 5000: must lie between 0 and 1023",
        ),
        (
            "rtsp.max_lag = 0",
            "line 1: rtsp.max_lag = 0: must lie between 1 and 3600",
        ),
        (
            "[pool]\nblock = \"2MiB\"\nsize = \"2MiB\"\n",
            "line 3: pool.size = \"2.0 MiB\": must hold at least 16 blocks of 2.0 MiB",
        ),
        (
            "[tier]\nsize = \"1MiB\"\n",
            "line 2: tier.size = \"1.0 MiB\": must be 0, or hold at least 8 blocks of 256.0 KiB",
        ),
    ] {
        let error = Config::parse(text).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn a_wrong_value_is_named_with_its_range() {
    let config: Config = toml::from_str("[rtp]\nburst = 0\n").unwrap();
    let error = config.check().unwrap_err().to_string();
    assert_eq!(error, "rtp.burst = 0: must lie between 1 and 64");
    assert!(
        toml::from_str::<Config>("listen = \"wan\"")
            .unwrap_err()
            .to_string()
            .contains("loopback")
    );
}
