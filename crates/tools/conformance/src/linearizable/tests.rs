//! The checker against hand-made histories and against trying every order.

use super::{Action, Call, Value, check};
use crate::draw::Draw;

fn call(client: usize, invoked: u64, returned: u64, action: Action) -> Call {
    Call { client, invoked, returned: Some(returned), action }
}

const READ_1: Action = Action::Read(Some(1));
const READ_2: Action = Action::Read(Some(2));
const WRITE_1: Action = Action::Write(Some(1));
const WRITE_2: Action = Action::Write(Some(2));

#[test]
fn a_read_may_see_either_side_of_a_write_beside_it() {
    for seen in [None, Some(1)] {
        let history = [call(0, 0, 10, WRITE_1), call(1, 5, 6, Action::Read(seen))];
        assert_eq!(check(&history, None), Ok(()));
    }
}

#[test]
fn a_read_after_a_write_must_see_it() {
    let history = [call(0, 0, 1, WRITE_1), call(1, 2, 3, Action::Read(None))];
    assert!(check(&history, None).is_err());
}

#[test]
fn two_reads_may_not_see_two_writes_in_two_orders() {
    let history = [
        call(0, 0, 20, WRITE_1),
        call(1, 0, 20, WRITE_2),
        call(2, 1, 2, READ_1),
        call(2, 3, 4, READ_2),
        call(3, 5, 6, READ_1),
    ];
    assert!(check(&history, None).is_err());
    assert_eq!(check(&history[..4], None), Ok(()));
}

#[test]
fn one_of_two_updates_may_not_be_lost() {
    let update = |left| Action::Rmw { saw: Some(0), left: Some(left) };
    let history = [call(0, 0, 10, update(1)), call(1, 0, 10, update(2))];
    assert!(check(&history, Some(0)).is_err());
    assert_eq!(check(&history[..1], Some(0)), Ok(()));
}

#[test]
fn a_call_without_an_answer_may_have_happened_or_not() {
    let lost = Call { client: 0, invoked: 0, returned: None, action: WRITE_1 };
    for seen in [None, Some(1)] {
        let history = [lost, call(1, 50, 60, Action::Read(seen))];
        assert_eq!(check(&history, None), Ok(()));
    }
    let back = [lost, call(1, 50, 60, READ_1), call(1, 70, 80, Action::Read(None))];
    assert!(check(&back, None).is_err(), "once seen, it stays");
}

#[test]
fn an_addition_without_a_reply_may_have_happened_or_not() {
    let lost = Call { client: 0, invoked: 0, returned: None, action: Action::Add(1) };
    for (before, after) in [(None, 1), (Some(5), 6)] {
        let write = call(1, 10, 20, Action::Write(before));
        for seen in [before, Some(after)] {
            let history = [lost, write, call(1, 50, 60, Action::Read(seen))];
            assert_eq!(check(&history, None), Ok(()));
        }
        let twice = [lost, write, call(1, 50, 60, Action::Read(Some(after + 1)))];
        assert!(check(&twice, None).is_err());
    }
}

#[test]
fn a_value_that_differs_is_another_one() {
    for (written, is_right) in [(Some(1), false), (Some(2), true), (None, true)] {
        let other = call(1, 20, 30, Action::Unequal(Some(1)));
        let history = [call(0, 0, 10, Action::Write(written)), other];
        assert_eq!(check(&history, None).is_ok(), is_right, "{written:?}");
    }
}

/// Returns whether some order of the calls explains them: the definition itself.
fn some_order_explains(calls: &[Call], value: Value) -> bool {
    // The calls that are left have never returned, and need no moment.
    calls.iter().all(|call| call.returned.is_none())
        || (0..calls.len()).any(|first| {
            let next = calls[first];
            let is_before = |returned: u64| returned < next.invoked;
            let early = !calls.iter().any(|other| other.returned.is_some_and(is_before));
            let mut rest = calls.to_vec();
            rest.remove(first);
            let after = next.action.after(value);
            early && after.is_some_and(|after| some_order_explains(&rest, after))
        })
}

#[test]
fn it_agrees_with_trying_every_order() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..4000 {
        let mut draw = Draw::new(seed, "history");
        let history: Vec<Call> = (0..6)
            .map(|client| {
                let invoked = draw.below(20) as u64 * 10 + client;
                let returned = invoked + 5 + draw.below(8) as u64 * 10;
                let value = *draw.pick(&[None, Some(1), Some(2)]);
                let action = match draw.below(8) {
                    0 | 1 => Action::Read(value),
                    2 | 3 => Action::Write(value),
                    4 | 5 => Action::Rmw { saw: value, left: *draw.pick(&[Some(1), Some(3)]) },
                    6 => Action::Add(1),
                    _ => Action::Unequal(value),
                };
                let returned = (!draw.once_in(8)).then_some(returned);
                Call { client: client as usize, invoked, returned, action }
            })
            .collect();
        let expected = some_order_explains(&history, None);
        assert_eq!(check(&history, None).is_ok(), expected, "seed {seed}: {history:?}");
        *(if expected { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 100 && bad > 100, "{good} good and {bad} bad histories were compared");
}

#[test]
fn long_histories_are_checked() {
    let mut history = Vec::new();
    for step in 0..20_000_u64 {
        history.push(call(0, step * 10, step * 10 + 8, Action::Write(Some(step))));
        history.push(call(1, step * 10 + 1, step * 10 + 9, Action::Read(Some(step))));
    }
    assert_eq!(check(&history, None), Ok(()));
    history.push(call(2, 300_000, 300_001, Action::Read(Some(1))));
    assert!(check(&history, None).is_err());
}
