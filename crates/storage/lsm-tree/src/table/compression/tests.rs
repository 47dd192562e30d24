//! Blocks that are compressed and decompressed again, an encoder that errs, and false blocks.

use proptest::prelude::*;

use super::*;

fn decompress(used: Compression, stored: &[u8]) -> Result<Vec<u8>, Corruption> {
    used.decompress_by(stored, |len| vec![0; len])
}

/// Records as people store them.
fn records(count: u64) -> Vec<u8> {
    let mut state = 1;
    let mut next = |below: u64| {
        state = codec::hash64(state, b"next");
        state % below
    };
    let mut text = String::new();
    for id in 0..count {
        let (day, tag, name) = (next(28), next(200), next(1 << 40));
        text += &format!(
            "{{\"id\":{id},\"email\":\"{name:x}@example.org\",\"created\":\"2026-11-{day:02}\",\
             \"active\":{},\"tags\":[\"lake\",\"t{tag}\"]}}\n",
            next(2) == 0
        );
    }
    text.into_bytes()
}

/// Nothing that compresses.
fn noise(len: u64) -> Vec<u8> {
    (0..len).map(|at| codec::hash64(at, b"noise") as u8).collect()
}

/// Returns the stored bytes of a block, how they are compressed, and the counts.
fn compress(block: &[u8], compression: Compression) -> (Vec<u8>, Compression, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let (stored, used) = Compressor::new(compression, &tally).compress(block.to_vec());
    (stored, used, tally)
}

/// The compressor tries few blocks that do not compress. It finds a block that compresses within 64
/// blocks, and tries all blocks from there on.
#[test]
fn blocks_that_do_not_compress_are_left_out() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let tally = Arc::new(Tally::default());
        let mut compressor = Compressor::new(compression, &tally);
        let mut compress = |block: &[u8]| compressor.compress(block.to_vec()).1;
        let tries = || tally.tries.load(Relaxed);
        let (noise, text) = (noise(4_096), records(40));
        for _ in 0..1_000 {
            assert_eq!(compress(&noise), Compression::None);
        }
        // Eight, the six after which the distance doubles, and then one of 65.
        assert_eq!(tries(), 8 + 6 + (1_000 - 8 - 6 - 63) / 65);
        let found = (0..1_000).find(|_| compress(&text) == compression);
        assert!(found.is_some_and(|before| before <= 64), "{found:?}");
        let before = tries();
        assert!((0..100).all(|_| compress(&text) == compression));
        assert_eq!(tries() - before, 100);
        // Some blocks amid others cause nothing.
        for _ in 0..7 {
            assert_eq!(compress(&noise), Compression::None);
        }
        assert_eq!(compress(&text), compression);
        let (block_bytes, stored) = (&tally.block_bytes, &tally.stored_bytes);
        assert!(stored.load(Relaxed) < block_bytes.load(Relaxed));
    }
}

/// Decodes a frame with another decoder of zstd.
fn witness(frame: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    let found = decoder.decode_all(frame, &mut bytes).expect("a frame of zstd");
    bytes.truncate(found);
    bytes
}

/// Pieces of noise, of text, of one byte, and of earlier pieces.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0..4_u8, 0..3000_u64, any::<u64>());
    prop::collection::vec(piece, 0..12).prop_map(|pieces| {
        let mut block: Vec<u8> = Vec::new();
        for (kind, len, seed) in pieces {
            match kind {
                0 => block.extend(noise(len + seed % 5).iter().skip((seed % 5) as usize)),
                1 => block.extend(records(1 + len / 60).iter().skip((seed % 50) as usize)),
                2 => block.extend(std::iter::repeat_n(seed as u8, len as usize)),
                _ => {
                    let at = seed as usize % (block.len() + 1);
                    let again: Vec<u8> =
                        block.iter().skip(at).take(len as usize).copied().collect();
                    block.extend(again);
                }
            }
        }
        block
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_compressed_comes_back(
        blocks in prop::collection::vec(blocks(), 1..6),
        compression in prop::sample::select(Compression::ALL.to_vec()),
    ) {
        let tally = Arc::new(Tally::default());
        let mut compressor = Compressor::new(compression, &tally);
        for block in &blocks {
            let (stored, used) = compressor.compress(block.to_vec());
            prop_assert!(stored.len() <= block.len());
            let found = decompress(used, &stored);
            prop_assert_eq!(found.as_ref(), Ok(block));
            if used == Compression::Zstd {
                prop_assert_eq!(&witness(&stored[LENGTH_BYTES..], block.len()), block);
            }
        }
        let sum: usize = blocks.iter().map(Vec::len).sum();
        prop_assert_eq!(tally.block_bytes.load(Relaxed), sum as u64);
        prop_assert_eq!(tally.mistakes.load(Relaxed), 0);
    }

    /// However a stored block is changed: an error, or exactly the number of bytes that it
    /// declares.
    #[test]
    fn a_block_that_is_not_what_was_written_allocates_no_more_than_it_declares(
        block in blocks(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (stored, used, _) = compress(&block, Compression::Zstd);
        if used == Compression::Zstd {
            let mut changed = stored.clone();
            edits.iter().for_each(|(at, byte)| changed[at.index(stored.len())] = *byte);
            for changed in [changed, stored[..cut.index(stored.len())].to_vec()] {
                if let Ok(bytes) = decompress(used, &changed) {
                    let declared = u32::from_le_bytes(*changed.first_chunk().expect("it declares"));
                    prop_assert_eq!(bytes.len(), declared as usize);
                    prop_assert!(bytes.capacity() <= bytes.len() + 64);
                }
            }
        }
    }
}

/// `cargo test -p thermocline-lsm-tree --lib zstd_takes_less -- --nocapture` shows the figures.
#[test]
fn zstd_takes_less_of_text_than_lz4_does() {
    let text = records(2000);
    for len in [4096, 16384] {
        let [none, lz4, zstd] = Compression::ALL.map(|compression| {
            let tally = Arc::new(Tally::default());
            let mut compressor = Compressor::new(compression, &tally);
            text.chunks(len).for_each(|block| drop(compressor.compress(block.to_vec())));
            let [all, stored] =
                [&tally.block_bytes, &tally.stored_bytes].map(|at| at.load(Relaxed));
            assert_eq!(all, text.len() as u64);
            stored as f64 / all as f64
        });
        println!("records, blocks of {len}: lz4 {:.1} %, zstd {:.1} %", 100.0 * lz4, 100.0 * zstd);
        assert_eq!(none, 1.0);
        assert!(zstd < 0.8 * lz4 && lz4 < 0.6, "lz4 {lz4}, zstd {zstd}");
    }
}

#[test]
fn what_does_not_compress_is_stored_as_it_is() {
    for compression in Compression::ALL {
        let block = noise(4096);
        let (stored, used, _) = compress(&block, compression);
        assert_eq!((stored, used), (block, Compression::None), "by {compression}");
        assert_eq!(compress(&[], compression).0, []);
    }
}

/// Z1. Data that repeats a million times may be stored longer than necessary.
#[test]
fn no_block_is_compressed_further_than_a_reader_believes() {
    let zeros = vec![0; 1 << 20];
    let (stored, used, tally) = compress(&zeros, Compression::Zstd);
    assert_eq!(used, Compression::Lz4, "zstd makes less than 4 KiB of it");
    assert_eq!(decompress(used, &stored).as_ref(), Ok(&zeros));
    assert_eq!(tally.mistakes.load(Relaxed), 0);
}

/// Z2. For any result of the encoder, the block is stored, and a new encoder makes the next one.
#[test]
fn a_mistake_of_the_encoder_reaches_no_table() {
    fn another_block(
        compressor: &mut zstd_rs::Compressor,
        block: &[u8],
        into: &mut Vec<u8>,
    ) -> bool {
        let mut other = block.to_vec();
        other[1000] ^= 1;
        compressor.compress(&other, None, into).is_ok()
    }
    fn no_frame(_: &mut zstd_rs::Compressor, _: &[u8], into: &mut Vec<u8>) -> bool {
        into.extend_from_slice(b"no frame");
        true
    }
    fn error(_: &mut zstd_rs::Compressor, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }
    fn panic(_: &mut zstd_rs::Compressor, _: &[u8], _: &mut Vec<u8>) -> bool {
        panic!("a planted panic")
    }
    let block = records(40);
    for (mistakes, encode) in [another_block, no_frame, error, panic].into_iter().enumerate() {
        let tally = Arc::new(Tally::default());
        let mut compressor = Compressor::new(Compression::Zstd, &tally);
        compressor.zstd = zstd::Encoder::by(encode);
        for again in 1..3 {
            let (stored, used) = compressor.compress(block.clone());
            assert_eq!(
                (stored.as_slice(), used),
                (block.as_slice(), Compression::None),
                "{mistakes}"
            );
            assert_eq!(tally.mistakes.load(Relaxed), again, "{mistakes}");
        }
    }
}

/// A block that declares `len`, with these bytes behind.
fn declaring(len: u32, frame: &[u8]) -> Vec<u8> {
    [&len.to_le_bytes(), frame].concat()
}

/// Makes a frame that declares `len` bytes, of `runs` runs of `run` bytes.
fn bomb(len: u64, run: u32, runs: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0xE0];
    frame.extend_from_slice(&len.to_le_bytes());
    for at in 1..=runs {
        let header = run << 3 | 1 << 1 | u32::from(at == runs);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(7);
    }
    frame
}

#[test]
fn a_block_that_lies_is_refused_before_it_costs_memory() {
    let refused = |stored: &[u8]| match decompress(Compression::Zstd, stored) {
        Err(error) => error.what,
        Ok(bytes) => panic!("{} bytes", bytes.len()),
    };
    let run = 128 << 10;
    let whole = bomb(2 * u64::from(run), run, 2);
    // It is a frame; but there are too few bytes of it (Z1).
    assert_eq!(witness(&whole, 2 << 17), vec![7; 2 << 17]);
    let too_good = "a compressed block declares more than it can hold";
    assert_eq!(refused(&declaring(2 * run, &whole)), too_good);
    assert_eq!(refused(&declaring(u32::MAX, &bomb(u64::from(u32::MAX), run, 9000))), too_good);
    // The frame declares another length, or has another one.
    assert!(refused(&declaring(100, &bomb(1 << 60, run, 2))).contains("100 are declared"));
    assert!(refused(&declaring(100, &bomb(100, run, 2))).contains("size limit"));
    assert!(refused(&declaring(100, &bomb(100, 60, 2))).contains("output limit"));
    assert!(refused(&declaring(100, &bomb(100, 10, 2))).contains("content size"));
    let (stored, used, _) = compress(&records(40), Compression::Zstd);
    assert_eq!(used, Compression::Zstd);
    let (_, frame) = stored.split_at(LENGTH_BYTES);
    let len = records(40).len() as u32;
    assert!(refused(&declaring(len + 1, frame)).contains("are declared"));
    // Two frames, and a frame that decoders skip.
    assert!(refused(&declaring(len, &[frame, frame].concat())).contains("behind its frame"));
    let skipped = [&[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0], frame].concat();
    assert!(refused(&declaring(len, &skipped)).contains("magic"));
    // A dictionary, which is nowhere.
    let mut wants = frame.to_vec();
    wants[4] |= 1;
    wants.insert(5, 9);
    assert!(refused(&declaring(len, &wants)).contains("dictionary"));
    assert_eq!(refused(&[1, 2, 3]), "a compressed block is cut short");
    assert!(Compression::of_byte(3).unwrap_err().what.contains("(3) that is not known"));
}
