//! Structs of shared state with too many fields.

use crate::sources::Source;

/// Fields that a struct of shared state may have.
const FIELDS_MAX: usize = 12;
/// Fields of locks, atomics and shared pointers that make a struct one of shared state.
const SHARED_FIELDS_MIN: usize = 3;
/// Types of fields that are shared between threads.
const SHARED: [&str; 5] = ["Mutex<", "RwLock<", "Arc<", "Atomic", "Condvar"];

/// Returns the name and the number of fields of each struct of shared state with too many fields. A
/// struct whose shared fields are all atomics is one of counters, and is left out.
pub(crate) fn wide(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut lines = source.text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = opened(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indent));
        let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with(&close)).collect();
        let fields: Vec<&str> = body.into_iter().filter(|line| is_field(line, indent)).collect();
        let shared = fields.iter().filter(|field| SHARED.iter().any(|it| field.contains(it)));
        let is_counter = |field: &&&str| field.contains("Atomic") && !field.contains("Arc<");
        let is_shared = shared.clone().count() >= SHARED_FIELDS_MIN
            && !shared.clone().all(|field| is_counter(&field));
        if fields.len() > FIELDS_MAX && is_shared {
            found.push((name.to_owned(), fields.len()));
        }
    }
    found
}

/// Returns the name of the struct that a line opens.
fn opened(line: &str) -> Option<&str> {
    let words = line.trim_start();
    let words = words.strip_prefix("pub ").unwrap_or(words);
    let words = match words.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => words,
    };
    let rest = words.strip_prefix("struct ")?;
    if !line.trim_end().ends_with('{') {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    Some(&rest[..end])
}

fn is_field(line: &str, indent: usize) -> bool {
    let text = line.trim_start();
    let is_direct = line.len() - text.len() == indent + 4;
    let has_name = text.split_once(": ").is_some_and(|(name, _)| {
        let name = name.rsplit(' ').next().unwrap_or(name);
        name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
    });
    is_direct && has_name && !text.starts_with("//") && !text.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(field: &str, count: usize) -> Vec<(String, usize)> {
        let fields: String = (0..count)
            .map(|at| format!("    /// A: b.\n    pub(crate) f{at}: {field},\n"))
            .collect();
        let text = format!(
            "pub(crate) struct Shared<T> {{\n{fields}}}\n\nstruct Small {{\n    a: Arc<T>,\n}}\n"
        );
        wide(&Source { path: "a.rs".to_owned(), text })
    }

    #[test]
    fn a_struct_of_shared_state_with_more_fields_is_found() {
        assert_eq!(found("Mutex<u64>", 13), [("Shared".to_owned(), 13)]);
        assert_eq!(found("Mutex<u64>", 12), []);
        assert_eq!(found("u64", 20), [], "nothing is shared");
        assert_eq!(found("AtomicU64", 20), [], "counters");
    }
}
