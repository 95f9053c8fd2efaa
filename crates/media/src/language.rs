//! Converts languages from the ISO 639-2/T of films to the BCP 47 (RFC 5646) of manifests.

/// ISO 639-2/T codes that have a two-letter code in ISO 639-1, which RFC 5646 2.2.1 prefers.
const SHORT: &str = "aar:aa abk:ab afr:af aka:ak amh:am ara:ar arg:an asm:as ava:av ave:ae aym:ay \
aze:az bak:ba bam:bm bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce \
chu:cu chv:cv cor:kw cos:co cre:cr cym:cy dan:da deu:de div:dv dzo:dz ell:el eng:en epo:eo est:et \
eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff gla:gd gle:ga glg:gl glv:gv grn:gn \
guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ido:io iii:ii iku:iu \
ile:ie ina:ia ind:id ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk \
khm:km kik:ki kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln \
lit:lt ltz:lb lub:lu lug:lg mah:mh mal:ml mar:mr mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my \
nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or \
orm:om oss:os pan:pa pli:pi pol:pl por:pt pus:ps que:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa \
sin:si slk:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss \
sun:su swa:sw swe:sv tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts \
tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi \
yor:yo zha:za zho:zh zul:zu \
alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is mac:mk mao:mi \
may:ms per:fa rum:ro slo:sk tib:bo wel:cy";

/// Returns a film's language as a BCP 47 tag: `eng` becomes `en`; codes without a shorter form and
/// existing tags are returned unchanged. `None` if it is not a language tag.
pub fn bcp47(language: &str) -> Option<String> {
    let well_formed = (2..=35).contains(&language.len())
        && language.split('-').all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        });
    if !well_formed || matches!(language, "und" | "mis" | "zxx") {
        return None;
    }
    let (primary, rest) = language
        .split_once('-')
        .map_or((language, None), |(p, r)| (p, Some(r)));
    let primary = primary.to_ascii_lowercase();
    let short = SHORT
        .split_ascii_whitespace()
        .filter_map(|pair| pair.split_once(':'))
        .find_map(|(long, short)| (long == primary).then_some(short));
    let primary = short.unwrap_or(&primary);
    Some(match rest {
        Some(rest) => format!("{primary}-{rest}"),
        None => primary.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::bcp47;

    #[test]
    fn three_letters_become_two_where_there_are_two() {
        assert_eq!(bcp47("eng").as_deref(), Some("en"));
        assert_eq!(
            bcp47("ger").as_deref(),
            Some("de"),
            "639-2/B, seen in the wild"
        );
        assert_eq!(bcp47("yue").as_deref(), Some("yue"));
        assert_eq!(bcp47("pt-BR").as_deref(), Some("pt-BR"));
        assert_eq!(bcp47("zho-Hant").as_deref(), Some("zh-Hant"));
    }

    #[test]
    fn what_is_no_language_is_left_out() {
        assert_eq!(bcp47("und"), None);
        assert_eq!(bcp47("e\"g"), None);
        assert_eq!(bcp47(""), None);
    }

    #[test]
    fn each_pair_of_the_table_has_three_letters_and_two() {
        // Includes the codes of ISO 639-2/B that differ; no code occurs twice.
        let pairs: Vec<&str> = super::SHORT.split_ascii_whitespace().collect();
        for pair in &pairs {
            let (long, short) = pair.split_once(':').expect("a pair");
            assert_eq!((long.len(), short.len()), (3, 2), "{pair}");
            assert_eq!(bcp47(long).as_deref(), Some(short));
        }
        // ISO 639-1 has 183 languages; 20 of them have a second code in 639-2.
        assert_eq!(pairs.len(), 183 + 20);
    }

    #[test]
    fn a_tag_is_made_of_parts_of_one_to_eight_letters_and_digits() {
        for (language, tag) in [
            ("e", None),
            ("en", Some("en")),
            ("EN", Some("en")),
            ("english", Some("english")),
            ("de-CH-1996", Some("de-CH-1996")),
            ("sl-rozaj-biske", Some("sl-rozaj-biske")),
            ("abcdefgh", Some("abcdefgh")),
            ("abcdefghi", None),
            ("en-", None),
            ("-en", None),
            ("en--US", None),
            ("en_US", None),
            // 35 bytes at most.
            ("en-abcdefgh-abcdefgh-abcdefgh-abcdef", None),
            (
                "en-abcdefgh-abcdefgh-abcdefgh-abcde",
                Some("en-abcdefgh-abcdefgh-abcdefgh-abcde"),
            ),
            ("mis", None),
            ("zxx", None),
        ] {
            assert_eq!(bcp47(language).as_deref(), tag, "{language}");
        }
    }
}
