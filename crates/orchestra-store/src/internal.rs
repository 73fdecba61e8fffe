//! What the two halves of this crate say to each other: the database half offers it, the readable
//! files use it. What the files ask for stands in `files/needs.rs`.
