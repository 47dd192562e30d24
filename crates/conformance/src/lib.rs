//! The conformance suite, generic over engines.
