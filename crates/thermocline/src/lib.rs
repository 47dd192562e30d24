//! Thermocline: a key-value store for data larger than memory and skewed.
