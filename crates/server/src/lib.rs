//! The front door for Redis clients.
