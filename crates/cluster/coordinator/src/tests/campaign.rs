//! A coordinator gives leases in each leadership that it wins, and in no other time.

use std::collections::VecDeque;
use std::sync::Arc;

use environment::Environment;
use sync::Mutex;

use super::db;
use crate::records::decode_term;
use crate::{
    Campaign, Compare, Election, LEASE, LocalStore, Revision, Store, StoreError, StoreService,
    Versioned, Write,
};

/// A store whose election ends as the test says.
#[derive(Debug)]
struct Scripted {
    store: LocalStore,
    results: Mutex<VecDeque<Result<Option<Revision>, StoreError>>>,
}

impl Store for Scripted {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        self.store.get(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        self.store.list(prefix)
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        self.store.commit(compares, writes)
    }
}

impl Election for Scripted {
    fn campaign(&self, _name: &str) -> Result<Option<Revision>, StoreError> {
        self.results.lock().pop_front().expect("the test has another result")
    }

    fn leads(&self) -> bool {
        true
    }

    fn resign(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn each_leadership_begins_leases_of_its_own() {
    let away = || StoreError::Unavailable("etcd is away".to_owned());
    let steps = [
        // The result of the election, the leaderships so far, and whether leases are given.
        (Ok(None), 0, false),
        (Ok(Some(Revision(3))), 1, true),
        (Ok(Some(Revision(3))), 1, true),
        // The lease may be alive: the leader itself decides that by its clock.
        (Err(away()), 1, true),
        (Ok(Some(Revision(3))), 1, true),
        // Another coordinator has led between, and this one has not seen it.
        (Ok(Some(Revision(8))), 2, true),
        (Ok(None), 2, false),
        (Ok(Some(Revision(9))), 3, true),
    ];
    let store = LocalStore::open(db(&device::memory())).expect("memory takes it");
    let results = steps.iter().map(|(result, ..)| result.clone()).collect();
    let store = Arc::new(Scripted { store, results: Mutex::new(results) });
    let environment = Environment::real();
    let service = StoreService::new(Arc::clone(&store) as _, &environment);
    let service = Arc::new(service.expect("there are threads"));
    let mut campaign = Campaign::new(
        (Arc::clone(&store), Arc::clone(&service)),
        (7, "one".to_owned()),
        LEASE,
        &environment,
        Box::new(|_line| ()),
    );
    for (result, leaderships, leads) in steps {
        campaign.step();
        let term = store.get("term").expect("memory has it");
        let term = term.map_or(0, |record| decode_term(&record.value).expect("it is whole"));
        assert_eq!((term, service.leads()), (leaderships, leads), "after {result:?}");
    }
}
