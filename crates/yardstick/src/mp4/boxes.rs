//! Boxes and their fields. Nothing is trusted: what does not fit is an error in words.

/// What a reader says of bytes that are no MP4.
pub type Result<T> = std::result::Result<T, String>;

/// A box: its type and content.
#[derive(Clone, Copy, Debug)]
pub struct Box<'a> {
    /// Four characters.
    pub kind: [u8; 4],
    /// What follows the header.
    pub body: &'a [u8],
    /// Where its header begins in what was walked.
    pub start: usize,
}

/// The header of a box at the beginning of `bytes`: type, header's length, whole length (`None`: to the
/// end).
pub fn header(bytes: &[u8]) -> Result<([u8; 4], usize, Option<u64>)> {
    let mut fields = Fields(bytes);
    let size = fields.u32()?;
    let kind = fields.u32()?.to_be_bytes();
    match size {
        0 => Ok((kind, 8, None)),
        1 => {
            let size = fields.u64()?;
            if size < 16 {
                return Err(format!("a box {} of {size} bytes", name(kind)));
            }
            Ok((kind, 16, Some(size)))
        }
        2..8 => Err(format!("a box {} of {size} bytes", name(kind))),
        _ => Ok((kind, 8, Some(size.into()))),
    }
}

/// A type as text.
pub fn name(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string()
}

/// The boxes in `bytes`, one after the other.
pub fn boxes(bytes: &[u8]) -> impl Iterator<Item = Result<Box<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let next = header(rest).and_then(|(kind, header, size)| {
            let size = size.map_or(rest.len(), |size| {
                usize::try_from(size).unwrap_or(usize::MAX)
            });
            let body = rest
                .get(header..size)
                .ok_or_else(|| format!("a box {} longer than what holds it", name(kind)))?;
            let found = Box {
                kind,
                body,
                start: at,
            };
            at += size;
            Ok(found)
        });
        if next.is_err() {
            at = bytes.len();
        }
        Some(next)
    })
}

/// The first box of a type in `bytes`.
pub fn find<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Result<Option<Box<'a>>> {
    for found in boxes(bytes) {
        let found = found?;
        if found.kind == *kind {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The box down a path of types.
pub fn descend<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Result<Option<&'a [u8]>> {
    let mut bytes = bytes;
    for kind in path {
        match find(bytes, kind)? {
            Some(found) => bytes = found.body,
            None => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// As [`descend`], for what must be there.
pub fn need<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Result<&'a [u8]> {
    descend(bytes, path)?.ok_or_else(|| {
        let names: Vec<String> = path.iter().map(|kind| name(**kind)).collect();
        format!("no {}", names.join("/"))
    })
}

/// Fields one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next so many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or("a box that ends within a field")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    /// Version and flags of a full box.
    pub fn full(&mut self) -> Result<(u8, u32)> {
        let word = self.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Four bytes, or eight in version 1.
    pub fn u32_or_64(&mut self, version: u8) -> Result<u64> {
        if version == 1 {
            self.u64()
        } else {
            Ok(self.u32()?.into())
        }
    }

    /// A count of entries of so many bytes, which must be there.
    pub fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count
            .checked_mul(each)
            .is_none_or(|bytes| bytes > self.0.len())
        {
            return Err("a table with more entries than it holds".into());
        }
        Ok(count)
    }
}
