//! Language codes: ISO 639-1, and ISO 639-2, in which some languages have two codes, B and T.

/// Two letters, or `-`, three letters (T), and three letters (B) if they differ. Only languages in
/// which subtitles are common; a language whose three letters are a word used in file names, such
/// as `run`, is left out.
const LANGUAGES: &str = "aa:aar af:afr am:amh an:arg ar:ara as:asm ay:aym az:aze ba:bak be:bel bg:bul bn:ben bo:bod:tib br:bre bs:bos ca:cat \
ce:che co:cos cs:ces:cze cv:chv cy:cym:wel da:dan de:deu:ger dv:div dz:dzo el:ell:gre en:eng eo:epo es:spa et:est \
eu:eus:baq fa:fas:per fi:fin fo:fao fr:fra:fre fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj ha:hau he:heb hi:hin hr:hrv \
ht:hat hu:hun hy:hye:arm ia:ina id:ind ig:ibo is:isl:ice it:ita iu:iku ja:jpn jv:jav ka:kat:geo kk:kaz kl:kal km:khm \
kn:kan ko:kor ks:kas ku:kur ky:kir la:lat lb:ltz ln:lin lo:lao lt:lit lv:lav mg:mlg mi:mri:mao mk:mkd:mac ml:mal \
mn:mon mr:mar ms:msa:may mt:mlt my:mya:bur nb:nob ne:nep nl:nld:dut nn:nno no:nor ny:nya oc:oci om:orm or:ori os:oss \
pa:pan pl:pol ps:pus pt:por qu:que rm:roh ro:ron:rum ru:rus rw:kin sa:san sc:srd sd:snd se:sme si:sin sk:slk:slo \
sl:slv sm:smo sn:sna so:som sq:sqi:alb sr:srp su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl \
tr:tur tt:tat ug:uig uk:ukr ur:urd uz:uzb vi:vie wo:wol xh:xho yi:yid yo:yor zh:zho:chi zu:zul -:ast -:ckb -:cmn -:dsb \
-:fil -:gsw -:haw -:hsb -:nan -:nds -:yue";

/// Words that programs write instead of a tag. Hebrew had another code until 1989, which is still
/// in use.
const OTHERS: &str = "pob:pt-BR chs:zh-Hans cht:zh-Hant iw:he";

/// Returns the shortest code of a language, given by its two or three letters in lower case. If it
/// has a two-letter code, returns that.
pub fn shortest(code: &str) -> Option<&'static str> {
    if code.is_empty() || code == "-" {
        return None;
    }
    let mut others = OTHERS.split(' ').filter_map(|pair| pair.split_once(':'));
    let other = others.find(|(other, _)| *other == code);
    other.map(|(_, tag)| tag).or_else(|| {
        let mut languages = LANGUAGES.split(' ');
        let language = languages.find(|language| language.split(':').any(|own| own == code))?;
        language.split(':').find(|own| *own != "-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_letters_are_preferred() {
        for (code, tag) in [
            ("en", "en"),
            ("eng", "en"),
            ("ger", "de"),
            ("deu", "de"),
            ("chi", "zh"),
            ("fil", "fil"),
            ("pob", "pt-BR"),
        ] {
            assert_eq!(shortest(code), Some(tag));
        }
        for code in ["", "e", "xx", "web", "run"] {
            assert_eq!(shortest(code), None);
        }
    }

    #[test]
    fn no_code_is_there_twice() {
        let others = OTHERS.split(' ').filter_map(|pair| pair.split(':').next());
        let mut codes: Vec<&str> = LANGUAGES
            .split([' ', ':'])
            .filter(|code| *code != "-")
            .chain(others)
            .collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
