//! Behaviour of a device if the kernel or a sandbox refuses it something.
//!
//! It is refused for real: by a seccomp filter on the test's own thread.
#![expect(unsafe_code, reason = "only raw calls install a seccomp filter")]

use environment::Environment;
use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, c_int, sock_filter, sock_fprog,
};

use super::*;
use crate::suite::{bytes, names, queues};

/// Offset at which the filter finds the number of the call, and the low half of its third argument.
const NUMBER: u32 = 0;
const THIRD_ARGUMENT: u32 = 32;

/// A call and the error that it is answered with.
struct Refusal {
    call: libc::c_long,
    /// Only if its third argument has one of these bits; zero for always.
    flags: c_int,
    errno: c_int,
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap(), jt, jf, k }
}

/// Refuses calls of this thread from now on.
fn refuse(refusals: &[Refusal]) {
    let mut program = Vec::new();
    for refusal in refusals {
        let answer = SECCOMP_RET_ERRNO | u32::try_from(refusal.errno).unwrap();
        let call = u32::try_from(refusal.call).unwrap();
        program.push(instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, NUMBER));
        if refusal.flags == 0 {
            program.push(instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call));
        } else {
            let flags = u32::try_from(refusal.flags).unwrap();
            program.push(instruction(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, call));
            program.push(instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, THIRD_ARGUMENT));
            program.push(instruction(BPF_JMP | BPF_JSET | BPF_K, 0, 1, flags));
        }
        program.push(instruction(BPF_RET | BPF_K, 0, 0, answer));
    }
    program.push(instruction(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW));
    let len = u16::try_from(program.len()).unwrap();
    let program = sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the call takes numbers only.
    let armed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(armed, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the program, which outlives the call.
    let installed = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
}

/// The abilities that a device keeps on a thread that is refused something.
struct Left {
    uring: bool,
    direct: bool,
}

/// Checks that a device which should have io_uring and direct I/O has the ones in `left`, on a
/// thread that is refused something. If this machine refuses one of the two anyway, that one is not
/// expected either.
fn refused(refusals: Vec<Refusal>, left: Left) {
    let work = move || {
        let (unrefused, _dir) = device(Io::Direct, true);
        let uring = left.uring && unrefused.kind().starts_with("io_uring");
        let direct = left.direct && unrefused.kind().ends_with("direct");
        refuse(&refusals);
        works_as(match (uring, direct) {
            (true, true) => "io_uring direct",
            (true, false) => "io_uring buffered",
            (false, true) => "direct",
            (false, false) => "buffered",
        });
    };
    Environment::seeded(1).spawn("refused", work).unwrap().join().unwrap();
}

fn io_uring(errno: c_int) -> Refusal {
    Refusal { call: libc::SYS_io_uring_setup, flags: 0, errno }
}

fn openat2(errno: c_int) -> Refusal {
    Refusal { call: libc::SYS_openat2, flags: 0, errno }
}

fn o_direct() -> Refusal {
    Refusal { call: libc::SYS_openat, flags: libc::O_DIRECT, errno: libc::EINVAL }
}

/// Opens devices, finds them to be of `kind`, and checks that they work.
fn works_as(kind: &str) {
    let checks: [fn(&Arc<dyn Device>); 8] = [
        names::a_lock_excludes_a_second_handle,
        names::directories_are_made_with_their_parents,
        names::missing_names_are_missing,
        bytes::unaligned_reads_are_served,
        bytes::writes_are_whole_or_refused_by_alignment,
        queues::a_queue_moves_bytes,
        queues::a_full_queue_hands_the_request_back,
        queues::errors_come_with_their_buffers,
    ];
    for check in checks {
        let (device, _dir) = device(Io::Direct, true);
        assert_eq!(device.kind(), kind);
        check(&device);
    }
}

#[test]
fn without_io_uring_queues_are_positional() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::ENOMEM] {
        refused(vec![io_uring(errno)], Left { uring: false, direct: true });
    }
}

#[test]
fn without_direct_io_the_page_cache_is_used() {
    let refusals = || vec![openat2(libc::ENOSYS), o_direct()];
    refused(refusals(), Left { uring: true, direct: false });
    let all = refusals().into_iter().chain([io_uring(libc::EPERM)]).collect();
    refused(all, Left { uring: false, direct: false });
}

#[test]
fn without_openat2_names_are_walked() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        refused(vec![openat2(errno)], Left { uring: true, direct: true });
    }
}
