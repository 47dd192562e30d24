//! The report of a run whose store is in other processes: figures of this process say nothing about
//! the store.

use super::{Device, LoadReport, Report};

impl Report {
    /// Leaves out the figures of the store, which is in other processes: its memory, its device and
    /// its space. The processor time and the process's resident peak stay, and are the client's.
    pub(crate) fn leave_out_store(&mut self) {
        self.is_elsewhere = true;
        (self.memory_budget_bytes, self.rss_peak_bytes) = (0, 0);
        (self.space_bytes, self.space_peak_bytes) = (0, 0);
        self.device = Device::default();
        self.device_source = "none".to_owned();
        (self.write_amplification, self.read_amplification) = (None, None);
        // Nothing here shows whether the caches of the store are full.
        (self.warmup_limit_seconds, self.warmup_is_steady) = (None, None);
        self.load = LoadReport {
            write_amplification: None,
            read_amplification: None,
            device_write_bytes: 0,
            device_read_bytes: 0,
            space_peak_bytes: 0,
            ..std::mem::take(&mut self.load)
        };
    }
}
