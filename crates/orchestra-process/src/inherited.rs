//! Descriptors that the starter of this program had open.

/// First descriptor after standard input, output and error.
const FIRST: i32 = 3;

/// Marks all descriptors but standard input, output and error to be closed when this process becomes another program.
///
/// A child in a sandbox could otherwise use a file or socket that the starter of this program had open, such as the
/// lock of a script. A program calls this first, while it has one thread.
pub fn close_in_children() {
    close_fds::set_fds_cloexec(FIRST, &[]);
}
