//! Counters, gauges and histograms in one registry.
