//! The places at which images are cut, and when an interval is rewritten.

use super::*;

fn lengths(cuts: &[Range<usize>]) -> Vec<usize> {
    cuts.iter().map(ExactSizeIterator::len).collect()
}

fn ends(lens: &[usize]) -> Vec<usize> {
    lens.iter()
        .scan(0, |end, len| {
            *end += len;
            Some(*end)
        })
        .collect()
}

const LIMITS: IntervalLimits = IntervalLimits { pairs: 4, bytes: 100 };

#[test]
fn what_fits_is_not_cut() {
    assert_eq!(cuts(&ends(&[10; 4]), LIMITS), vec![0..40]);
    assert_eq!(cuts(&ends(&[1000]), LIMITS), vec![0..1000], "a single pair is as long as it is");
}

#[test]
fn what_has_too_many_pairs_is_cut_evenly() {
    assert_eq!(lengths(&cuts(&ends(&[10; 5]), LIMITS)), [30, 20]);
    assert_eq!(lengths(&cuts(&ends(&[10; 12]), LIMITS)), [30; 4]);
}

#[test]
fn long_pairs_get_intervals_of_their_own() {
    let cut = lengths(&cuts(&ends(&[10, 10, 500, 10, 10]), LIMITS));
    assert!(cut.contains(&500) || cut.contains(&520), "{cut:?}");
    assert_eq!(cut.iter().sum::<usize>(), 540);
    for cuts_of in [[60; 5], [90; 5], [101; 5]] {
        for length in lengths(&cuts(&ends(&cuts_of), LIMITS)) {
            assert!(length <= 100.max(cuts_of[0]), "{length} bytes of pairs of {}", cuts_of[0]);
        }
    }
}

#[test]
fn an_interval_is_rewritten_with_a_tag_for_each() {
    let steps = rewrite(77, &[0..30, 30..50]);
    let first = Step::Splice { at: 0, removed: 77, data: 0..50, tag: START };
    let second = Step::Tag { at: 30, tag: START };
    assert_eq!(steps, [first, second]);
}
