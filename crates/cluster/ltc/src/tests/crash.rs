//! Power cuts of the machine of a local cluster, each followed by another one during the next
//! start.

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};

use super::{check, keyspace, options, put};
use crate::{LocalCluster, Options};

/// No interval of the database writes anything: the operations are those of the writes below.
fn quiet() -> Options {
    let mut quiet = options();
    quiet.database.sync_interval = None;
    quiet
}

fn open(disk: &Arc<SimulatedDisk>) -> crate::Result<LocalCluster> {
    LocalCluster::open_on(Arc::clone(disk) as Arc<dyn Device>, "cluster", quiet())
}

/// Opens the cluster on a disk whose power is cut at an operation.
fn open_until(disk: &Arc<SimulatedDisk>, cut: u64) {
    disk.power_cut_at(cut);
    drop(open(disk));
}

#[test]
fn acknowledged_writes_survive_a_power_cut_at_each_operation() {
    let disk = SimulatedDisk::new(3, Faults::none());
    disk.keep_history();
    let mut moments = vec![(0, 0)];
    let mut keys = 0;
    for _ in 0..2 {
        let cluster = open(&disk).expect("no fault is set");
        let data = keyspace(&cluster, "data");
        for round in 0..3 {
            for _ in 0..6 {
                put(&data, keys..keys + 1);
                keys += 1;
                moments.push((disk.operations(), keys));
            }
            if round < 2 {
                data.flush().expect("no fault is set");
            }
        }
        drop(data);
        cluster.close().expect("no fault is set");
    }
    let (last, history) = (disk.operations(), disk.history());
    assert!(last > 300, "{last} operations");
    let mut replay = history.replay();
    for cut in 0..=last {
        replay.advance_to(cut);
        let before = moments.iter().rev().find(|(at, _)| *at <= cut);
        let keys = before.map_or(0, |(_, keys)| *keys);
        let image = replay.crash(cut);
        let second = image.operations() + cut * 7 % 200;
        open_until(&image, second);
        let image = image.crash(cut + 1);
        let cluster = open(&image);
        let cluster = cluster.unwrap_or_else(|error| panic!("operation {cut} of {last}: {error}"));
        check(&keyspace(&cluster, "data"), 0..keys);
    }
}
