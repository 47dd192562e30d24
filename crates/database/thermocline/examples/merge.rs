//! Merges: a named operator makes the new value from the present one and an operand.
//!
//! `cargo run -p thermocline --example merge -- DIRECTORY`

use std::path::Path;

use thermocline::{Batch, Change, Db, KeyspaceOptions, MergeName, MergeOperators, Options};

/// Returns the list with the items of `operand` at its end.
fn append(list: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    match list {
        Some(list) => [list, b", ", operand].concat(),
        None => operand.to_vec(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: merge DIRECTORY")?;
    show(Path::new(&path))
}

/// Does so in a directory.
pub(crate) fn show(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // The keyspace keeps the name. Each program that merges registers an operator by it.
    let name: MergeName = "append".parse()?;
    let operators = MergeOperators::new().with(name, |_key, list, operand| {
        match operand.is_empty() {
            // The merge, and the batch that it is in, is refused with this text.
            true => Err("an empty item".to_owned()),
            false => Ok(Change::Put(append(list, operand))),
        }
    });
    let db = Db::open(path, Options { merge_operators: operators, ..Options::default() })?;
    let options = KeyspaceOptions { merge: Some(name), ..KeyspaceOptions::default() };
    let baskets = db.keyspace("baskets", options)?;
    baskets.clear()?;

    baskets.merge(b"ada", b"apples")?;
    let mut batch = Batch::new();
    batch.merge(&baskets, b"ada", b"pears").merge(&baskets, b"bob", b"plums");
    db.write(&batch)?;
    db.transaction(|tx| tx.merge(&baskets, b"ada", b"figs"))?;
    println!("{:?}", baskets.get(b"ada")?.map(String::from_utf8).transpose()?);
    assert_eq!(baskets.get(b"ada")?.as_deref(), Some(&b"apples, pears, figs"[..]));

    let refused = baskets.merge(b"ada", b"");
    println!("{}", refused.map_or_else(|error| error.to_string(), |_| "merged".to_owned()));
    db.close()?;
    Ok(())
}
