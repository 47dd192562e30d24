//! The hints fit the address and the password.

use super::hints;

#[test]
fn hints_name_the_address_that_reaches_the_server() {
    let told = |addr: &str, has_password| hints(addr.parse().unwrap(), has_password);
    let here = told("127.0.0.1:7000", false);
    assert!(here.contains("redis-cli -p 7000 set") && here.contains("/127.0.0.1/7000"), "{here}");
    assert_eq!(told("0.0.0.0:7000", false), here, "it is reached here, too");
    let other = told("[::1]:7000", false);
    assert!(other.contains("redis-cli -h ::1 -p 7000 set"), "{other}");
    assert!(other.contains("/dev/tcp/::1/7000;"), "{other}");
}

#[test]
fn hints_ask_for_the_password() {
    let told = hints("127.0.0.1:7000".parse().unwrap(), true);
    assert!(told.contains("redis-cli -p 7000 --askpass set"), "{told}");
    assert!(told.contains("'AUTH password\\r\\nSET"), "{told}");
}
