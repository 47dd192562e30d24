//! Threads that record often take cells of their own, however many others there are.

use super::{note_background_thread, thread, thread_number};

fn number_of(is_background: bool) -> usize {
    let number = move || {
        if is_background {
            note_background_thread();
        }
        thread_number()
    };
    #[expect(clippy::disallowed_methods, reason = "numbers are of threads of the system")]
    thread::spawn(number).join().expect("a number")
}

#[test]
fn background_threads_take_no_number_from_others() {
    let first = number_of(false);
    let background: Vec<usize> = (0..7).map(|_| number_of(true)).collect();
    assert_eq!(number_of(false), first + 1);
    assert!(background.is_sorted_by(|first, second| first > second), "{background:?}");
}
