//! The faults of a simulation, drawn from its seed.

use std::time::Duration;

use coordinator::LogMode;
use environment::Random;
use rand::RngExt;
use stoc::RangeId;
use wire::{Cut, Role};

use super::clients::{CLIENTS, RANGES};
use super::world::{COORDINATORS, End, LTCS, Name, STOCS, World};

/// Faults of a seed, at most.
const FAULTS_MAX: u32 = 16;
/// The longest time between two faults.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// The longest pause of a process: longer than a lease.
const PAUSE_MAX: Duration = Duration::from_secs(12);
/// Time in which the tables of a lost disk are copied to others, and logs of a lost memory are
/// written to tables.
const REPAIR: Duration = Duration::from_secs(60);

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    PowerCut,
    Pause,
    Cut(Cut),
    EtcdAway,
    Clock,
    Full,
    Move,
    Drain,
    Restart,
}

const FAULTS: [Fault; 14] = [
    Fault::Kill,
    Fault::Kill,
    Fault::PowerCut,
    Fault::Pause,
    Fault::Cut(Cut::Silent),
    Fault::Cut(Cut::Reset),
    Fault::EtcdAway,
    Fault::Clock,
    Fault::Full,
    Fault::Move,
    Fault::Move,
    Fault::Drain,
    Fault::Restart,
    Fault::Restart,
];

/// All processes but the clients.
pub(crate) fn all() -> Vec<Name> {
    let coordinators = (1..=COORDINATORS).map(|number| (Role::Coordinator, number));
    let stocs = (1..=STOCS).map(|number| (Role::Stoc, number));
    coordinators.chain(stocs).chain((1..=LTCS).map(|number| (Role::Ltc, number))).collect()
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn below(random: &mut Random, longest: Duration) -> Duration {
    Duration::from_micros(random.random_range(0..longest.as_micros() as u64))
}

/// Starts all processes that do not run.
fn start_all(world: &World) {
    all().into_iter().for_each(|name| world.start(name));
}

/// Makes the faults of a seed, and ends them.
pub(crate) fn torment(world: &World, mut random: Random) {
    let environment = world.environment();
    let count = random.random_range(0..=FAULTS_MAX);
    // A few seeds lose a disk, after which no other StoC fails until its tables are copied.
    let loses_disk = (random.random_range(0..4) == 0).then(|| random.random_range(0..=count));
    for number in 0..=count {
        environment.sleep(below(&mut random, QUIET_MAX));
        world.reap();
        if loses_disk == Some(number) {
            lose_disk(world, &mut random);
            continue;
        }
        let fault = pick(&mut random, &FAULTS);
        make(world, fault, &mut random);
    }
    world.heal();
    world.reap();
    start_all(world);
    undrain_all(world);
    environment.sleep(Duration::from_secs(3));
}

/// Has all LTCs get ranges.
fn undrain_all(world: &World) {
    for ltc in 1..=LTCS {
        while !world.change(move |coordinator| coordinator.drain_ltc(ltc, false)) {
            world.environment().sleep(Duration::from_secs(1));
        }
    }
}

fn lose_disk(world: &World, random: &mut Random) {
    world.heal();
    world.reap();
    start_all(world);
    world.environment().sleep(REPAIR);
    let name = (Role::Stoc, random.random_range(1..=STOCS));
    world.end(name, End::DiskLost);
    world.environment().sleep(below(random, PAUSE_MAX));
    world.start(name);
    world.environment().sleep(REPAIR);
}

/// Ends a StoC, which loses the logs in its memory, and perhaps an LTC right after it. No other
/// StoC fails until the ranges have written these logs to tables.
fn lose_memory(world: &World, name: Name, end: End, random: &mut Random) {
    world.heal();
    world.reap();
    start_all(world);
    undrain_all(world);
    world.environment().sleep(REPAIR);
    world.end(name, end);
    if random.random() {
        world.end((Role::Ltc, random.random_range(1..=LTCS)), End::Kill);
    }
    world.environment().sleep(below(random, PAUSE_MAX));
    start_all(world);
    world.environment().sleep(REPAIR);
}

/// Ends a process.
fn end(world: &World, name: Name, end: End, random: &mut Random) {
    match (world.log(), name.0) {
        (LogMode::Memory, Role::Stoc) => lose_memory(world, name, end, random),
        _ => world.end(name, end),
    }
}

fn make(world: &World, fault: Fault, random: &mut Random) {
    let environment = world.environment();
    let all = all();
    // LTCs have the most to lose.
    let name = match random.random_bool(0.4) {
        true => (Role::Ltc, random.random_range(1..=LTCS)),
        false => pick(random, &all),
    };
    match fault {
        Fault::Kill => end(world, name, End::Kill, random),
        Fault::PowerCut => {
            let name = (Role::Stoc, random.random_range(1..=STOCS));
            let cut = End::PowerCut(random.random_range(0..u64::MAX));
            end(world, name, cut, random);
        }
        Fault::Pause => {
            world.pause(name);
            environment.sleep(below(random, PAUSE_MAX));
            world.resume(name);
        }
        Fault::Cut(cut) => {
            let others: Vec<Name> =
                all.into_iter().chain((1..=CLIENTS).map(|client| (Role::Client, client))).collect();
            let other = pick(random, &others);
            if other != name {
                world.cut(name, other, cut);
                environment.sleep(below(random, PAUSE_MAX));
            }
            if random.random_bool(0.5) {
                world.heal();
            }
        }
        Fault::EtcdAway => {
            let coordinator = random.random_range(1..=COORDINATORS);
            world.set_away(coordinator, true);
            environment.sleep(below(random, PAUSE_MAX));
            world.set_away(coordinator, false);
        }
        Fault::Clock => {
            let year_ms = 365 * 86_400_000;
            world.move_wall_clock(name, random.random_range(-year_ms..year_ms));
        }
        Fault::Full => {
            let stoc = random.random_range(1..=STOCS);
            world.set_full(stoc, true);
            environment.sleep(below(random, PAUSE_MAX));
            world.set_full(stoc, false);
        }
        Fault::Move => {
            let (range, target) = (random.random_range(1..=RANGES), random.random_range(1..=LTCS));
            // A range that moves already, or a coordinator that is away, makes it fail.
            world.trace(&format!("{fault:?}"));
            let _ = world.change(move |coordinator| {
                coordinator.move_range(RangeId(range), target).map(drop)
            });
        }
        Fault::Drain => {
            let (ltc, is_draining) = (random.random_range(1..=LTCS), random.random_bool(0.5));
            world.trace(&format!("{fault:?}"));
            let _ = world.change(move |coordinator| coordinator.drain_ltc(ltc, is_draining));
        }
        Fault::Restart => {
            let ended = all.into_iter().filter(|name| !world.is_running(*name));
            let ended: Vec<Name> = ended.collect();
            if !ended.is_empty() {
                world.start(pick(random, &ended));
            }
        }
    }
}
