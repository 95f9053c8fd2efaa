//! Headers with a grammar of their own.

pub mod range;
pub mod rtp_info;
pub mod transport;

/// Returns whether a DESCRIBE with these `Accept` headers accepts SDP (RFC 2326 section 12.1).
/// Clients without the header do.
pub(crate) fn accepts_sdp<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
    let mut said_something = false;
    for range in accept
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
    {
        said_something = true;
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|parameter| {
            let quality = parameter
                .split_once('=')
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
            quality.is_some_and(|(_, value)| value.trim().parse() == Ok(0.0))
        });
        if !refused && ["application/sdp", "application/*", "*/*", "*"].contains(&kind.as_str()) {
            return true;
        }
    }
    !said_something
}

#[cfg(test)]
mod tests {
    use super::accepts_sdp;

    #[test]
    fn who_does_not_rule_sdp_out_gets_it() {
        assert!(accepts_sdp([].into_iter()));
        assert!(accepts_sdp([""].into_iter()));
        assert!(accepts_sdp(
            ["application/rtsl, Application/SDP;level=2"].into_iter()
        ));
        assert!(accepts_sdp(["text/html", "*/*;q=0.1"].into_iter()));
        assert!(!accepts_sdp(["application/mheg"].into_iter()));
        assert!(!accepts_sdp(["application/sdp;q=0"].into_iter()));
    }
}
