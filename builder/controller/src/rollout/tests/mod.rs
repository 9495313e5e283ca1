//! Tests of the roll-out.
