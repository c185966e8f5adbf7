use bytes::Buf;

/// The bytes of a part, without taking them.
pub(crate) fn copy(data: &impl Buf, into: &mut Vec<u8>) {
    // A part is usually contiguous.
    if data.chunk().len() == data.remaining() {
        into.extend_from_slice(data.chunk());
        return;
    }
    let mut parts = [std::io::IoSlice::new(&[]); 64];
    let count = data.chunks_vectored(&mut parts);
    for part in &parts[..count] {
        into.extend_from_slice(part);
    }
}
