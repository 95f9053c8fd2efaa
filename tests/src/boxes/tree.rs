//! Boxes as a tree (ISO/IEC 14496-12 4.2).

use anyhow::{Context, Result, bail, ensure};

/// A box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The box type, four characters.
    pub kind: [u8; 4],
    /// The contents.
    pub body: Body,
}

/// The contents of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Raw bytes after the header (with version and flags of a full box).
    Leaf(Vec<u8>),
    /// Child boxes.
    Nodes(Vec<Node>),
}

/// The boxes that are parsed into children; all others stay raw bytes.
const CONTAINERS: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts"];

/// Parses a box header: returns its type, the offset of its body, and the length of the whole box.
/// A length of `None` means: to the end of the file.
pub fn header(bytes: &[u8]) -> Result<([u8; 4], usize, Option<u64>)> {
    let head: [u8; 8] = bytes.get(..8).context("box header cut off")?.try_into()?;
    let kind = [head[4], head[5], head[6], head[7]];
    match u32_at(&head, 0) {
        0 => Ok((kind, 8, None)),
        1 => {
            let wide = bytes.get(8..16).context("64-bit box header cut off")?;
            Ok((kind, 16, Some(u64::from_be_bytes(wide.try_into()?))))
        }
        size => Ok((kind, 8, Some(u64::from(size)))),
    }
}

/// Reads the big-endian 32-bit number at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads the big-endian 64-bit number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Node {
    /// Makes a box of raw bytes.
    pub fn leaf(kind: &[u8; 4], body: Vec<u8>) -> Node {
        Node {
            kind: *kind,
            body: Body::Leaf(body),
        }
    }

    /// Makes a box of child boxes.
    pub fn of(kind: &[u8; 4], nodes: Vec<Node>) -> Node {
        Node {
            kind: *kind,
            body: Body::Nodes(nodes),
        }
    }

    /// Parses the boxes that fill `bytes`.
    pub fn parse_all(mut bytes: &[u8]) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        while !bytes.is_empty() {
            let (kind, start, size) = header(bytes)?;
            let end = size.map_or(bytes.len(), |size| size as usize);
            ensure!(
                start <= end && end <= bytes.len(),
                "{} reaches past its parent",
                kind.escape_ascii()
            );
            let inside = &bytes[start..end];
            let body = match CONTAINERS.contains(&&kind) {
                true => Body::Nodes(Node::parse_all(inside)?),
                false => Body::Leaf(inside.to_vec()),
            };
            nodes.push(Node { kind, body });
            bytes = &bytes[end..];
        }
        Ok(nodes)
    }

    /// Appends the box to `out`; with `wide`, it and all its descendants get 64-bit sizes.
    pub fn write(&self, wide: bool, out: &mut Vec<u8>) {
        let start = out.len();
        let head = if wide { 16 } else { 8 };
        out.resize(start + head, 0);
        match &self.body {
            Body::Leaf(bytes) => out.extend_from_slice(bytes),
            Body::Nodes(nodes) => nodes.iter().for_each(|node| node.write(wide, out)),
        }
        let size = out.len() - start;
        out[start..start + 4].copy_from_slice(&(if wide { 1 } else { size as u32 }).to_be_bytes());
        out[start + 4..start + 8].copy_from_slice(&self.kind);
        if wide {
            out[start + 8..start + 16].copy_from_slice(&(size as u64).to_be_bytes());
        }
    }

    /// The child boxes; empty for a box of raw bytes.
    pub fn nodes(&self) -> &[Node] {
        match &self.body {
            Body::Nodes(nodes) => nodes,
            Body::Leaf(_) => &[],
        }
    }

    /// The child boxes, mutably.
    pub fn nodes_mut(&mut self) -> &mut Vec<Node> {
        match &mut self.body {
            Body::Nodes(nodes) => nodes,
            Body::Leaf(_) => panic!("{} is a box of bytes", self.kind.escape_ascii()),
        }
    }

    /// The contents of a box of raw bytes.
    pub fn bytes(&self) -> Result<&[u8]> {
        match &self.body {
            Body::Leaf(bytes) => Ok(bytes),
            Body::Nodes(_) => bail!("{} is a box of boxes", self.kind.escape_ascii()),
        }
    }

    /// The contents of a box of raw bytes, mutably.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        match &mut self.body {
            Body::Leaf(bytes) => bytes,
            Body::Nodes(_) => panic!("{} is a box of boxes", self.kind.escape_ascii()),
        }
    }

    /// Returns the first box at a path of types below this one.
    pub fn find(&self, path: &[&[u8; 4]]) -> Option<&Node> {
        let (first, rest) = path.split_first()?;
        let node = self.nodes().iter().find(|node| node.kind == **first)?;
        if rest.is_empty() {
            Some(node)
        } else {
            node.find(rest)
        }
    }

    /// Like `find`, mutably.
    pub fn find_mut(&mut self, path: &[&[u8; 4]]) -> Option<&mut Node> {
        let (first, rest) = path.split_first()?;
        let Body::Nodes(nodes) = &mut self.body else {
            return None;
        };
        let node = nodes.iter_mut().find(|node| node.kind == **first)?;
        if rest.is_empty() {
            Some(node)
        } else {
            node.find_mut(rest)
        }
    }

    /// Returns the box at a path, or an error if it is missing.
    pub fn need(&self, path: &[&[u8; 4]]) -> Result<&Node> {
        self.find(path).with_context(|| {
            let path: Vec<_> = path
                .iter()
                .map(|kind| kind.escape_ascii().to_string())
                .collect();
            format!("no box {} in {}", path.join("/"), self.kind.escape_ascii())
        })
    }
}
