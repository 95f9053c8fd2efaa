//! MP4 boxes and their fields. The input is not trusted; errors are in words.

/// The result of a reader; its error says why the bytes are not MP4.
pub type Result<T> = std::result::Result<T, String>;

/// A box: its type and content.
#[derive(Clone, Copy, Debug)]
pub struct Box<'a> {
    /// The type, four characters.
    pub kind: [u8; 4],
    /// The content after the header.
    pub body: &'a [u8],
    /// Offset of its header in the input.
    pub start: usize,
}

/// Parses a box header at the start of `bytes`: type, length of the header, length of the box
/// (`None`: to the end).
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

/// Returns a type as text.
pub fn name(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string()
}

/// Iterates over consecutive boxes in `bytes`.
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

/// Returns the first box of a type in `bytes`.
pub fn find<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Result<Option<Box<'a>>> {
    for found in boxes(bytes) {
        let found = found?;
        if found.kind == *kind {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the content of the box at a path of types.
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

/// Like [`descend`], but the box must exist.
pub fn need<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Result<&'a [u8]> {
    descend(bytes, path)?.ok_or_else(|| {
        let names: Vec<String> = path.iter().map(|kind| name(**kind)).collect();
        format!("no {}", names.join("/"))
    })
}

/// Reads consecutive fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or("a box that ends within a field")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    /// Reads the version and flags of a full box.
    pub fn full(&mut self) -> Result<(u8, u32)> {
        let word = self.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff))
    }

    /// Reads four bytes, or eight in version 1.
    pub fn u32_or_64(&mut self, version: u8) -> Result<u64> {
        if version == 1 {
            self.u64()
        } else {
            Ok(self.u32()?.into())
        }
    }

    /// Reads a number of entries of `each` bytes, and checks that the box has room for them.
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
